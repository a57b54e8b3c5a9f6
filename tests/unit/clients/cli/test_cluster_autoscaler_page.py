"""The page on the Cluster Autoscaler: its manifests are read, start our commands, and permit what these need."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from clients.cli.commands import app
from clients.cli.live.sources import ClusterSource
from clients.cli.live.steer import Asked, _needs
from planner.service.command import app as planner

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "clients" / "CLUSTER_AUTOSCALER.md").read_text(encoding="utf-8")
DOCUMENTS: list[dict[str, Any]] = [
    one
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for one in yaml.safe_load_all(block)
]


def options_of(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def arguments() -> list[list[str]]:
    """The command lines of the containers."""
    containers = [one["spec"]["template"]["spec"]["containers"] for one in DOCUMENTS if one.get("kind") == "Deployment"]
    return [one["args"] for one in DOCUMENTS if "args" in one] + [one["args"] for some in containers for one in some]


@pytest.mark.parametrize("line", arguments(), ids=" ".join)
def test_every_option_in_a_manifest_is_one_of_the_command(line: list[str]) -> None:
    commands: Any = typer.main.get_command(app)
    known = options_of(typer.main.get_command(planner) if line[0] == "trimtab-planner" else commands.commands[line[1]])
    given = {word.partition("=")[0] for word in line if word.startswith("--")}
    assert given
    assert given <= known


def test_the_roles_permit_what_steering_writes_and_no_more() -> None:
    source = ClusterSource()
    asked = Asked(
        source=source, planner="p", actuator=None, autoscaler="karpenter", interval_s=1.0, writes_per_s=1.0,
        dry_run=False, clean=False, leave=False, rounds=0, namespace="trimtab", leader_elect=True,
        lease_name="trimtab-steer", state_config_map="trimtab-steer-state", state_file=None, log_level="info",
    )  # fmt: skip
    needed = {(rule.group, rule.resource, verb, rule.name) for rule in _needs(asked) for verb in rule.verbs}
    roles = [one for one in DOCUMENTS if one.get("kind") in ("Role", "ClusterRole")]
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
