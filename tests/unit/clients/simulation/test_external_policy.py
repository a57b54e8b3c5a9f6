"""External policies: what a program is asked, what is made of its answers, and how its faults are reported."""

import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.builders.cli import Run as CliRun
from tests.builders.cli import runner
from trimtab.clients.simulation.policies.line_protocol import PolicyAnswer, read_answer
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.sweep import Run, simulate
from trimtab.v1 import plan_pb2

Json = dict[str, Any]


@pytest.fixture
def trimtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CliRun:
    return runner(monkeypatch, capsys)


PROGRAM = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    with open(sys.argv[1], "a") as log:
        log.write(line)
    pods = [one for one in question["items"] if one["kind"] == "Pod"]
    nodes = [one["metadata"]["name"] for one in question["items"] if one["kind"] == "Node"]
    (group,) = [one for one in question["items"] if one["kind"] == "NodeGroup"]
    pending = [one for one in pods if "nodeName" not in one["spec"]]
    upcoming = max(0, group["spec"]["targetSize"] - len(nodes))
    wanted = max(0, len(pending) - upcoming)
    empty = [name for name in nodes if not any(one["spec"].get("nodeName") == name for one in pods)]
    answer = {"scaleUp": {"groups": {"g": wanted} if wanted else {}}, "scaleDown": {"unneeded": empty}}
    print(json.dumps(answer), flush=True)
"""
"""A node for each pending pod; nodes without pods are unneeded."""


def scenario(command: list[str], **more: Any) -> Scenario:
    group = {"name": "g", "cpu": "1", "maxSize": 9, "price": 0.5, "start": "30s"}
    web = {"name": "web", "replicas": 3, "steps": [{"at": "10m", "replicas": 1}], "pod": {"cpu": "900m"}}
    given = {"duration": "1h", "nodeGroups": [group], "workloads": [web], "policy": {"external": command}}
    return Scenario.model_validate({**given, **more})


def written(tmp_path: Path, text: str = PROGRAM) -> list[str]:
    path = tmp_path / "policy.py"
    path.write_text(text)
    return [sys.executable, str(path), str(tmp_path / "questions.jsonl")]


def ran(given: Scenario, settings: plan_pb2.PlanSettings | None = None) -> Json:
    return simulate(Run(given, (), "external", (settings or plan_pb2.PlanSettings()).SerializeToString()))


def test_groups_grow_as_the_program_says_and_unneeded_nodes_go_once_the_timers_allow_it(tmp_path: Path) -> None:
    result = ran(scenario(written(tmp_path)))
    assert result["summary"]["nodesAdded"] == 3
    assert result["summary"]["nodesRemoved"] == 2
    assert result["summary"]["podsPendingAtEnd"] == 0
    removals = [one for one in result["decisions"] if one["kind"] == "scale-down"]
    since_s = removals[0]["time"] - result["scenario"]["begin"]
    # Ten minutes of pods, and then the default unneeded time of as many.
    assert 1200 <= since_s <= 1220


def test_the_timers_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = plan_pb2.PlanSettings()
    settings.scale_down.unneeded_time.seconds = 60
    settings.scale_down.delay_after_add.SetInParent()
    result = ran(scenario(written(tmp_path)), settings)
    removals = [one["time"] for one in result["decisions"] if one["kind"] == "scale-down"]
    assert 660 <= removals[0] - result["scenario"]["begin"] <= 680


def test_a_question_has_the_cluster_and_is_not_asked_twice_in_a_row(tmp_path: Path) -> None:
    result = ran(scenario(written(tmp_path)))
    questions = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    assert len(questions) < result["summary"]["rounds"] / 4
    first = questions[0]
    assert {"protocol": 1, "round": 0, "decisions": ["scale-up", "scale-down"]}.items() <= first.items()
    assert {one["kind"] for one in first["items"]} == {"NodeGroup", "ReplicaSet", "Pod"}
    pods = [one for one in first["items"] if one["kind"] == "Pod"]
    assert all(one["status"]["conditions"][0]["reason"] == "Unschedulable" for one in pods)
    for one, other in itertools.pairwise(questions):
        assert one["items"] != other["items"]


FAULTS = {
    "ends": ("", "the program has ended with exit code 0 instead of answering"),
    "fails": ("raise SystemExit(3)", "the program has ended with exit code 3 instead of answering"),
    "no JSON": ("print('hm', flush=True); input(); input()", "this is no JSON: 'hm"),
    "own error": ('print(\'{"error": "no license"}\', flush=True); input(); input()', "round 0: no license"),
    "unknown node": (
        'input(); print(\'{"scaleDown": {"unneeded": ["n7"]}}\', flush=True); input()',
        "scaleDown.unneeded: n7 does not exist",
    ),
    "silent": ("import time; time.sleep(60)", "there is no answer after 1 s"),
}


@pytest.mark.parametrize(("text", "problem"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_of_the_program_is_reported_with_its_round(tmp_path: Path, text: str, problem: str) -> None:
    command = written(tmp_path, text)
    given = scenario(command, policy={"external": command, "timeout": "1s" if "sleep" in text else "30s"})
    with pytest.raises(ScenarioError) as error:
        ran(given)
    assert problem in str(error.value)
    assert str(error.value).startswith("policy ")


def test_a_program_that_cannot_be_started_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"policy \./nothing-here: it cannot be started"):
        ran(scenario(["./nothing-here"]))


ANSWERS = {
    '{"scaleUp": {"groups": {"g": -1}}}': "scaleUp.groups.g: -1 is no number of nodes",
    '{"scaleUp": {"groups": {"g": true}}}': "scaleUp.groups.g: True is no number of nodes",
    '{"scaleUp": []}': "scaleUp: an object is expected",
    '{"scaleSideways": {}}': "scaleSideways: this key is unknown",
    '{"scaleDown": {"nodes": []}}': "scaleDown: an object is expected, with removable, unneeded, unremovable",
    '{"scaleDown": {"unneeded": "n1"}}': "scaleDown.unneeded: a list of names is expected",
    '{"scaleDown": {"unremovable": {"n1": 3}}}': "scaleDown.unremovable: an object with a text",
    "[]": "an object is expected",
}


@pytest.mark.parametrize(("line", "problem"), ANSWERS.items())
def test_an_answer_with_a_fault_is_refused_with_its_field(line: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as error:
        read_answer("policy x: round 3", line.encode())
    assert str(error.value).startswith(f"policy x: round 3: {problem}")


def test_without_removable_all_unneeded_nodes_may_go() -> None:
    answer = read_answer("x", b'{"scaleDown": {"unneeded": ["b", "a"]}}')
    assert answer == PolicyAnswer(unneeded=("a", "b"), removable=frozenset({"a", "b"}))


def test_a_policy_decides_only_growth_and_removal() -> None:
    with pytest.raises(ValidationError, match="policy: an external program does not decide slack"):
        scenario(["x"], decisions=["scale-up", "slack"])


def test_the_command_shows_a_program_beside_settings(tmp_path: Path, trimtab: CliRun) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(scenario(["x"]).model_dump(mode="json", by_alias=True, exclude={"policy"})))
    command = shlex.join(written(tmp_path))
    done = trimtab("simulate", path, "--program", command, "--processes", "1", "-o", "json")
    runs = done.document()["runs"]
    assert [one["settings"]["name"] for one in runs] == ["defaults", f"external:{Path(sys.executable).name}"]
    refused = trimtab("simulate", path, "--program", " ")
    assert "--program: a command is expected" in refused.err
