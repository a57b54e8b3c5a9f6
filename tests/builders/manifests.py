"""What the chart installs on a test cluster, and options that the installed commands know, to compare with it."""

import functools
from typing import Any

import pytest

from tests.e2e.helm.binary import Json, binary, rendered


def installed_objects() -> dict[tuple[str, str], Json]:
    """Return the chart's objects on a test cluster by kind and name; skip the test where no Helm renders them."""
    if not binary().exists():
        pytest.skip(f"needs Helm: tests/e2e/helm/build.sh {binary().parent} builds it with Go")
    return _installed_objects()


@functools.cache
def _installed_objects() -> dict[tuple[str, str], Json]:
    objects = rendered("createNamespace=true")
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(by_name) == len(objects), "an object is given twice"
    return by_name


def known_options(command: str) -> set[str]:
    """Return the options of one of our commands."""
    import typer

    from trimtab.actuator.service.process import app as actuator
    from trimtab.clients.cli.commands import app as cli
    from trimtab.planner.process import app as planner

    found: Any = typer.main.get_command({"actuator": actuator, "planner": planner}.get(command, cli))
    if command == "run":
        found = found.get_command(found.make_context("trimtab", [command], resilient_parsing=True), command)
    return {name for parameter in found.params for name in parameter.opts}
