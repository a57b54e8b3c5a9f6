"""`trimtab admin load` as a command, and the page on trying slack with it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from trimtab.clients.cli.commands import app
from trimtab.clients.cli.documents import read_settings
from trimtab.clients.cli.live import load
from trimtab.clients.cli.live.sources import ClusterSource
from trimtab.clients.load.bursts import MeasuredBurst, PodTimes
from trimtab.planner.decisions.table import TABLE

ROOT = Path(__file__).resolve().parents[5]
PAGE = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--namespace", "a.b"), "--namespace a.b"),
        (("--cpu", "many"), "--cpu many: give a quantity"),
        (("--memory", "-1Gi"), "--memory -1Gi: give a quantity"),
        (("--length", "5"), "--length 5: give a duration"),
        (("--quiet", "-3s"), "--quiet -3s: give a duration"),
        (("--node-selector", "pool"), "--node-selector pool: give KEY=VALUE"),
        (("--kubeconfig", "/does/not/exist"), "/does/not/exist"),
    ],
)
def test_what_cannot_be_meant_is_named(trimtab: Any, options: tuple[str, ...], words: str) -> None:
    done = trimtab("admin", "load", *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_what_became_of_the_bursts_is_printed(trimtab: Any, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    burst = MeasuredBurst(1, 4, 1, nodes_most=3, nodes_after=2)
    burst.see([PodTimes("p", 5.0, 8.0), PodTimes("q", 5.0, 5.0)], 3)
    monkeypatch.setattr(ClusterSource, "api", lambda self: None)
    monkeypatch.setattr(load, "run", lambda cluster, settings, around: [burst])
    monkeypatch.setenv("COLUMNS", "160")
    done = trimtab("admin", "load", "-o", form)
    assert (done.code, done.err) == (0, "")
    if form == "table":
        assert done.out.splitlines()[1].split() == ["1", "4", "2", "1", "0", "s", "3", "s", "1", "3", "2"]
    else:
        read = json.loads(done.out) if form == "json" else yaml.safe_load(done.out)
        assert read == {"bursts": [burst.document()]}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def command_lines() -> list[str]:
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    return [line for line in lines if line.startswith("trimtab ")]


@pytest.mark.parametrize("line", command_lines())
def test_every_command_and_option_on_the_page_exists(line: str) -> None:
    words = line.partition(" | ")[0].partition(" > ")[0].split()
    commands: Any = typer.main.get_command(app)
    command = commands.commands[words[1]]
    command = command.commands[words[2]] if words[1] == "admin" else command
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"} <= known


def test_the_settings_on_the_page_can_be_read_and_ask_for_slack(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("yaml") if "slack:" in block]
    (tmp_path / "settings.yaml").write_text(block)
    settings = read_settings(tmp_path / "settings.yaml")
    for decision in TABLE:
        decision.resolve(settings)
    assert settings.slack.extra_capacity_min_rate == 0.3
    assert f"{settings.slack.extra_capacity_min_rate:.0%}".replace("%", " %") in PAGE
