"""The page on the Cluster Autoscaler: its values use known options, and the chart permits what steering needs."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from trimtab.actuator.service.process import app as actuator
from trimtab.clients.cli.command_options import Acts, RunOptions
from trimtab.clients.cli.commands import app
from trimtab.clients.cli.live.run import _needs, with_defaults
from trimtab.planner.process import app as planner

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "cluster-autoscaler.md").read_text(encoding="utf-8")
DOCUMENTS: list[dict[str, Any]] = [
    one
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for one in yaml.safe_load_all(block)
]


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def programs() -> dict[str, Any]:
    """Return the command of each part of the chart."""
    trimtab: Any = typer.main.get_command(app)
    commands = trimtab.commands
    own = {"planner": typer.main.get_command(planner), "actuator": typer.main.get_command(actuator)}
    return own | {"loop": commands["run"], "steer": commands["run"]}


def options_given() -> list[tuple[str, str]]:
    """Return the options that the page's chart values give to its parts, including those in comments."""
    listed = [
        (part, name)
        for one in DOCUMENTS
        for part in one
        if isinstance(one[part], dict)
        for name in one[part].get("options", ())
    ]
    commented = re.findall(r"(\w+)\.options: \[(.*?)\]", PAGE)
    return listed + [(part, option) for part, some in commented for option in some.split(", ")]


@pytest.mark.parametrize(("part", "option"), options_given())
def test_every_option_in_the_values_is_one_of_the_command(part: str, option: str) -> None:
    assert option.partition("=")[0] in options_of(programs()[part])


def chart_roles() -> list[dict[str, Any]]:
    """Return the roles of the chart for any values: the lines of its template without the instructions."""
    template = (ROOT / "deploy" / "chart" / "templates" / "rbac.yaml").read_text(encoding="utf-8")
    lines = [line.replace("{{ $namespace }}", "trimtab") for line in template.splitlines()]
    plain = "\n".join(line for line in lines if "{{" not in line)
    return [one for one in yaml.safe_load_all(plain) if one and one["kind"] in ("Role", "ClusterRole")]


def test_the_roles_permit_what_steering_writes_and_no_more() -> None:
    asked = with_defaults(RunOptions(planner="p", act=Acts.STEER, namespace="trimtab"))
    needed = {(rule.group, rule.resource, verb, rule.name) for rule in _needs(asked) for verb in rule.verbs}
    roles = [one for one in chart_roles() if one["metadata"]["name"] == "trimtab-steer"]
    assert len(roles) == 2
    permitted = {
        (group, resource, verb, name)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert permitted == needed
