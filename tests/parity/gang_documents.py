"""Questions about gangs and the real scheduler's answers, and what a plan without node groups says of the same.

`gang_oracle/main.go` says what a question is.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.builders.gangs import GangRow, member, plan_gangs
from tests.builders.kubernetes import Json, node, pod

DATA = Path(__file__).parent / "data" / "gangs"
RECORDED = {36: DATA / "random.jsonl.gz", 37: DATA / "random_1_37.jsonl.gz"}
"""Answers by minor version of Kubernetes."""
SECOND = "second-scheduler"
MORE = 1000
Question = dict[str, Any]


class Answered(NamedTuple):
    """bound : how many of the waiting pods of each unit the scheduler bound in one pass over its queue."""

    question: Question
    bound: list[int]


def recorded(minor: int = 36) -> Iterator[Answered]:
    """Yield the recorded questions and answers. minor : version of Kubernetes."""
    with gzip.open(RECORDED[minor], "rt") as lines:
        yield from (Answered(**json.loads(line)) for line in lines)


def bound_by_plan(question: Question, minor: int = 36) -> list[int]:
    """Return how many of the waiting pods of each unit a plan places on the nodes that are there. minor : version of
    Kubernetes; from 37 on, groups have a priority."""
    nodes = [node(f"n{at}", str(one["cpus"]), labels={"pool": one["pool"]}) for at, one in enumerate(question["nodes"])]
    pods = [one for at, unit in enumerate(question["units"]) for one in _pods(at, unit)]
    groups = [_group(at, one, minor) for at, one in enumerate(question["units"]) if _has_group(one)]
    placed = plan_gangs(groups, nodes, pods, settings={"schedulerNames": [SECOND]}).on_existing
    units = [int(key.removeprefix("default/u").partition("-")[0]) for key in placed]
    return [units.count(at) for at in range(len(question["units"]))]


def _has_group(unit: Question) -> bool:
    return bool(unit["min"] or unit.get("basic"))


def _group(at: int, unit: Question, minor: int) -> GangRow:
    if minor < 37:
        return GangRow(f"u{at}", unit["min"])
    return GangRow(f"u{at}", unit["min"], priority=unit["priority"] + MORE * (unit.get("odd") == "group priority"))


def _pods(at: int, unit: Question) -> Iterator[Json]:
    priority: Json = {"priority": unit["priority"], "preemptionPolicy": "Never"}
    different: dict[str, Json] = {
        "priority": {"priority": unit["priority"] + MORE},
        "gate": {"schedulingGates": [{"name": "wait"}]},
        "scheduler": {"schedulerName": SECOND},
    }
    odd = unit.get("odd", "")
    of_running = different.get(odd.removeprefix("running ")) if odd.startswith("running ") else None
    for number, on in enumerate(unit["running"]):
        spec = priority | (of_running or {})
        of_running = None
        yield _pod(at, unit, f"running-{number}", node=f"n{on}", phase="Running", spec=spec)
    of_waiting = different.get(odd)
    for pool, count in unit["pods"].items():
        for number in range(count):
            spec = priority | (of_waiting or {}) | {"nodeSelector": {"pool": pool}}
            of_waiting = None
            yield _pod(at, unit, f"{pool}-{number}", spec=spec)


def _pod(at: int, unit: Question, name: str, **more: Any) -> Json:
    if _has_group(unit):
        return member(f"u{at}-{name}", f"u{at}", "1", **more)
    return pod(f"u{at}-{name}", "1", "64Mi", **more)
