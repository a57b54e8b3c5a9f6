"""Our scale-up plans beside the recorded answers of the real Cluster Autoscaler, as wholes.

Upstream adds nodes of one option, and of groups like it, a loop; it was asked loop after loop, what it had added being
on its way, until it added nothing more. Ours is one plan. What upstream leaves to chance (ties, and the order of pods
that rate equal) was recorded in several runs.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict

from tests.certificates.scale_up import offences
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.places import on_new_nodes
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

AS_UPSTREAM = {"spreadOverNewDomains": False}
"""Topology spread counts domains that have nodes, as in upstream."""
DATA = Path(__file__).parent / "data" / "cluster_autoscaler"


class Growth(NamedTuple):
    """What came of a scale-up. groups : new nodes by group; pending : pods that fit no node in the end."""

    groups: dict[str, int]
    pending: frozenset[str]

    @property
    def nodes(self) -> int:
        """New nodes."""
        return sum(self.groups.values())


class Step(NamedTuple):
    """One choice. options : nodes and pods by group; whole : of all groups at once, by CHEAPEST_PLAN."""

    chosen: str
    options: dict[str, tuple[int, int]]
    whole: bool


class Ours(NamedTuple):
    """growth; waiting : pods that fit no node before groups grow; steps : choices in their order; offences : what the
    certificate finds wrong."""

    growth: Growth
    waiting: frozenset[str]
    steps: list[Step]
    offences: list[str]


def recorded(name: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """The documents of a recording, each with upstream's runs."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["document"], row["growth"]


def ours(document: dict[str, Any], scale_up: dict[str, Any] | None = None, effort: str = "USUAL") -> Ours:
    """Plan, and have the plan proven. scale_up : settings instead of the document's; effort : of the search."""
    message = build_snapshot(decode_objects(document["items"])).snapshot
    given = document["settings"] | {"scaleUp": document["settings"]["scaleUp"] | (scale_up or {})}
    given |= {"searchEffort": effort}
    settings = ParseDict(given, plan_pb2.PlanSettings())
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], settings=settings)
    request.now.seconds = now_s = int(datetime.fromisoformat(document["now"]).timestamp())
    decision = plan(canonicalize(message), request, None, Work()).scale_up
    groups = {split.node_group: split.new_size - split.current_size for split in decision.splits}
    pending = {pod for one in decision.unschedulable for pod in one.pods} | {one.pod for one in decision.skipped}
    found = offences(message, settings, decision, now_s)
    on_new = {pod for pods in on_new_nodes(decision).values() for pod in pods}
    return Ours(Growth(groups, frozenset(pending)), frozenset(pending | on_new), list(_steps(decision)), found)


def _steps(decision: plan_pb2.ScaleUpDecision) -> Iterator[Step]:
    for number in sorted({option.choice for option in decision.options}):
        options = [option for option in decision.options if option.choice == number]
        counts = {option.node_group: (option.node_count, option.pod_count) for option in options}
        whole = any(score.expander == plan_pb2.Expander.CHEAPEST_PLAN for score in options[0].scores)
        yield Step(options[0].node_group, counts, whole)


def theirs(run: dict[str, Any]) -> Growth:
    """What came of upstream's loops."""
    return Growth(run["groups"], frozenset(run["pending"] or ()))


def prices(document: dict[str, Any]) -> dict[str, float]:
    """Price of a node by group."""
    groups = [item for item in document["items"] if item["kind"] == "NodeGroup"]
    return {group["metadata"]["name"]: group["spec"]["price"] for group in groups}


def price(document: dict[str, Any], growth: Growth) -> float:
    """What the new nodes cost an hour."""
    of = prices(document)
    return sum(count * of[group] for group, count in growth.groups.items())


def worse(mine: Growth, runs: list[dict[str, Any]]) -> Iterator[str]:
    """Say of each run of upstream that serves all our pods and more, or just these with fewer nodes.

    Where each serves pods that the other does not, because groups are at their maximum, neither is better.
    """
    for number, their in enumerate(map(theirs, runs)):
        if mine.pending > their.pending:
            yield f"run {number}: {len(mine.pending)} pods are pending, of {len(their.pending)}"
        elif mine.pending == their.pending and mine.nodes > their.nodes:
            yield f"run {number}: {mine.nodes} nodes, of {their.nodes}"


def dearer(document: dict[str, Any], mine: Growth, runs: list[dict[str, Any]]) -> Iterator[str]:
    """Say of each run of upstream that serves all our pods and more, or just these for less money."""
    for number, their in enumerate(map(theirs, runs)):
        ask, asked = price(document, mine), price(document, their)
        if mine.pending > their.pending:
            yield f"run {number}: {len(mine.pending)} pods are pending, of {len(their.pending)}"
        elif mine.pending == their.pending and ask > asked + 1e-9:
            yield f"run {number}: {ask:.4f} an hour, of {asked:.4f}"


def worse_options(document: dict[str, Any], mine: Ours, runs: list[dict[str, Any]]) -> Iterator[str]:
    """Say of each first option of upstream that serves more pods than ours of that group, or as many with fewer nodes.

    Asked only where the same pods wait, and one group was chosen after the other. Not where there are limits, which
    upstream looks at once an option is chosen, nor of all-or-nothing groups, whose nodes that are there upstream counts
    as new.
    """
    whole = {item["metadata"]["name"] for item in document["items"] if item.get("spec", {}).get("zeroOrMax")}
    for run in runs if "planner" not in document["settings"] else ():
        if mine.waiting != frozenset(run["waiting"] or ()) or (mine.steps and mine.steps[0].whole):
            continue
        for one in run["loops"][0]["options"] if run["loops"] else ():
            nodes, pods = mine.steps[0].options.get(one["group"], (0, 0)) if mine.steps else (0, 0)
            if one["group"] not in whole and (-pods, nodes) > (-one["pods"], one["nodes"]):
                yield f"{one['group']}: {pods} pods on {nodes} nodes, of {one['pods']} on {one['nodes']}"


def other_splits(mine: Ours, runs: list[dict[str, Any]]) -> Iterator[str]:
    """Say of each run of upstream that chose what we chose, for the same pods, and split it otherwise.

    Not where ours does with fewer nodes, or chose whole plans.
    """
    if any(step.whole for step in mine.steps):
        return
    chosen = [(step.chosen, step.options[step.chosen][0]) for step in mine.steps]
    for number, run in enumerate(runs):
        loops = run["loops"] or ()
        options = [{one["group"]: one["nodes"] for one in loop["options"]} for loop in loops]
        same = [(loop["chosen"], of[loop["chosen"]]) for loop, of in zip(loops, options, strict=True)]
        differs = mine.growth.groups != run["groups"] and mine.growth.nodes >= theirs(run).nodes
        if mine.waiting == frozenset(run["waiting"] or ()) and chosen == same and differs:
            yield f"run {number}: {mine.growth.groups}, of {run['groups']}"
