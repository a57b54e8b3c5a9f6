"""`trimtab-planner`, also `python -m trimtab.planner`."""

from trimtab.common.rpc.entry import run_command


def main() -> None:
    """Run the command."""
    run_command("trimtab-planner", "trimtab.planner.process:app", "planner")


if __name__ == "__main__":
    main()
