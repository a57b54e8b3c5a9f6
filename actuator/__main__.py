"""`trimtab-actuator`, also `python -m actuator`. Decides nothing: see `actuator.service.command`."""

from clients.transport.entry import run_command


def main() -> None:
    """Run the command."""
    run_command("trimtab-actuator", "actuator.service.command:app")


if __name__ == "__main__":
    main()
