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

RECORDED = Path(__file__).parent / "data" / "gangs" / "random.jsonl.gz"
Question = dict[str, Any]


class Answered(NamedTuple):
    """bound : how many of the waiting pods of each unit the scheduler bound in one pass over its queue."""

    question: Question
    bound: list[int]


def recorded() -> Iterator[Answered]:
    """Yield the recorded questions and answers."""
    with gzip.open(RECORDED, "rt") as lines:
        yield from (Answered(**json.loads(line)) for line in lines)


def bound_by_plan(question: Question, minor: int = 36) -> list[int]:
    """Return how many of the waiting pods of each unit a plan places on the nodes that are there. minor : version of
    Kubernetes; from 37 on, groups have a priority."""
    nodes = [node(f"n{at}", str(one["cpus"]), labels={"pool": one["pool"]}) for at, one in enumerate(question["nodes"])]
    pods = [one for at, unit in enumerate(question["units"]) for one in _pods(at, unit)]
    groups = [
        GangRow(f"u{at}", one["min"], priority=one["priority"] if minor >= 37 else None)
        for at, one in enumerate(question["units"])
        if one["min"]
    ]
    placed = plan_gangs(groups, nodes, pods).decision.on_existing
    units = [int(key.removeprefix("default/u").partition("-")[0]) for key in placed]
    return [units.count(at) for at in range(len(question["units"]))]


def _pods(at: int, unit: Question) -> Iterator[Json]:
    priority: Json = {"priority": unit["priority"], "preemptionPolicy": "Never"}
    for number, on in enumerate(unit["running"]):
        yield _pod(at, unit, f"running-{number}", node=f"n{on}", phase="Running", spec=priority)
    odd = {"priority": {"priority": unit["priority"] + 1000}, "gate": {"schedulingGates": [{"name": "wait"}]}}
    different: Json = odd.get(unit.get("odd", ""), {})
    for pool, count in unit["pods"].items():
        for number in range(count):
            yield _pod(at, unit, f"{pool}-{number}", spec=priority | different | {"nodeSelector": {"pool": pool}})
            different = {}


def _pod(at: int, unit: Question, name: str, **more: Any) -> Json:
    if unit["min"]:
        return member(f"u{at}-{name}", f"u{at}", "1", **more)
    return pod(f"u{at}-{name}", "1", "64Mi", **more)
