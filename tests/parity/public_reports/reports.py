"""Runs `trimtab` over the small input of a public report, and compares the answer with what is right.

A `Report` is a row of a table in a test module beside; its input is `inputs/<name>.json`, with `<name>.settings.yaml`
as settings where that exists. What a row does not name is not compared.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from trimtab.clients.cli.commands import app

INPUTS = Path(__file__).parent / "inputs"
NOW = "2026-11-28T18:00:00Z"


class Report(NamedTuple):
    """An input and the right answer.

    name : of the input; options : more arguments, "@name" is a file of `inputs`; command : "plan", "advise" or
    "explain" with what follows the file; now : of the input; grows : new sizes of the groups that grow; goes : nodes
    that can go; stays : reason of nodes that stay, "" = any; destinations : nodes to which pods move; says, says_not :
    parts of what people read, notes included, with single blanks.
    """

    name: str
    command: tuple[str, ...] = ("plan",)
    options: tuple[str, ...] = ()
    now: str = NOW
    grows: Mapping[str, int] | None = None
    goes: set[str] | None = None
    stays: Mapping[str, str] | None = None
    destinations: set[str] | None = None
    says: tuple[str, ...] = ()
    says_not: tuple[str, ...] = ()


def check(report: Report) -> None:
    """Compare the answer of a report with the right one."""
    if (report.grows, report.goes, report.stays, report.destinations) != (None,) * 4:
        _check_plan(report, json.loads(_output(report, "json")[0]))
    if report.says or report.says_not:
        stdout, stderr = _output(report, "table")
        text = " ".join(f"{stdout} {stderr}".split())
        assert [part for part in report.says if part not in text] == [], text
        assert [part for part in report.says_not if part in text] == [], text


def plan_of(report: Report) -> dict[str, Any]:
    """Return the JSON answer of a plan, for what a row cannot say."""
    answer: dict[str, Any] = json.loads(_output(report, "json")[0])
    return answer


def _check_plan(report: Report, answer: Mapping[str, Any]) -> None:
    if report.grows is not None:
        splits = (answer.get("scaleUp") or {}).get("splits", ())
        assert {split["nodeGroup"]: split["newSize"] for split in splits} == report.grows
    scale_down = answer.get("scaleDown") or {}
    unneeded = scale_down.get("unneeded", ())
    if report.goes is not None:
        assert {one["node"] for one in unneeded} == report.goes
    if report.destinations is not None:
        assert {node for one in unneeded for node in one["destinations"].values()} == report.destinations
    reasons = {one["node"]: one["reason"] for one in scale_down.get("unremovable", ())}
    for node, reason in (report.stays or {}).items():
        assert node in reasons, reasons
        assert reason in ("", reasons[node])


@cache
def _run(arguments: tuple[str, ...]) -> tuple[str, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def _output(report: Report, form: str) -> tuple[str, str]:
    """Return what the command prints, and its notes."""
    found = sorted(INPUTS.glob(f"{report.name}.json")) or sorted(INPUTS.glob(f"{report.name}.yaml"))
    file, settings = found[0], INPUTS / f"{report.name}.settings.yaml"
    options = [str(INPUTS / one[1:]) if one.startswith("@") else one for one in report.options]
    command, *rest = report.command
    if command == "plan":
        options.append("--no-advice")
    if command != "explain":
        options += ["-o", form]
    options += ["--settings", str(settings)] if settings.exists() else []
    return _run((command, str(file), *rest, "--now", report.now, *options))
