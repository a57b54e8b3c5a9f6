"""Options that the installed commands know, to compare manifests with."""

from typing import Any


def known_options(command: str) -> set[str]:
    """Return the options of one of our commands."""
    import typer

    from trimtab.actuator.service.command import app as actuator
    from trimtab.clients.cli.commands import app as cli
    from trimtab.planner.command import app as planner

    found: Any = typer.main.get_command({"actuator": actuator, "planner": planner}.get(command, cli))
    if command == "run":
        found = found.get_command(found.make_context("trimtab", [command], resilient_parsing=True), command)
    return {name for parameter in found.params for name in parameter.opts}
