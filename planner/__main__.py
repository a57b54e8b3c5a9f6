"""`trimtab-planner`, also `python -m planner`. Decides nothing: see `planner.service.command`."""

from clients.transport.entry import run_command


def main() -> None:
    """Run the command."""
    run_command("trimtab-planner", "planner.service.command:app")


if __name__ == "__main__":
    main()
