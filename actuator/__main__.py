"""`trimtab-actuator`, also `python -m trimtab.actuator`."""

from trimtab.common.rpc.entry import run_command


def main() -> None:
    """Run the command."""
    run_command("trimtab-actuator", "trimtab.actuator.service.process:app", "actuator")


if __name__ == "__main__":
    main()
