"""A decision that ended with an error of the planner ends the command with an exit code; the others answer."""

from pathlib import Path
from typing import Any

import pytest

from tests.builders.cli import Run, listed
from tests.builders.kubernetes import node, node_group, pod
from trimtab.planner.scale_down.decision import SCALE_DOWN

DATA = Path(__file__).resolve().parents[2] / "planner/pod_costs/data"
"""Source: an attack on the planner, by those who test it: a target without pods beside a gang that runs."""


def test_a_target_without_pods_costs_the_others_nothing_beside_a_running_gang(trimtab: Run) -> None:
    cluster, settings = DATA / "gang_in_no_target.json", DATA / "gang_in_no_target.settings.yaml"
    found = trimtab("plan", cluster, "--settings", settings, "--decision", "pod-costs", "-o", "json")
    (group,) = found.document()["podCosts"]["groups"]
    assert (group["owner"], group["reason"], group["target"]) == ("ReplicaSet/default/rs", "AGE_UNKNOWN", 1)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise IndexError("broken")

    # The decision is frozen, so its function is replaced beneath.
    monkeypatch.setitem(vars(SCALE_DOWN), "decide", fail)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "command",
    [("plan", "-o", "json"), ("plan",), ("plan", "-o", "yaml"), ("page",), ("explain",)],
    ids=" ".join,
)
def test_a_command_says_which_decision_failed_and_ends_with_a_code(
    trimtab: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = listed(tmp_path, node("n1", "4"), pod("p", node="n1", cpu="1"), node_group("a", nodes=["n1"]))
    arguments: list[object] = ["plan" if command[0] == "page" else command[0], file]
    if command[0] == "page":
        arguments += ["--output", f"html={tmp_path / 'page.html'}"]
    elif command[0] == "explain":
        arguments += ["node/n1"]
    else:
        arguments += [*command[1:], "--decision", "scale-down", "--decision", "scale-up"]
    found = trimtab(*arguments)
    assert found.code == 1
    assert "scale_down" in found.err
