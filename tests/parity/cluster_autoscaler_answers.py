"""Our scale-down plans compared with recorded answers of the real Cluster Autoscaler, node by node.

Both have no unneeded time and no limits, so one loop shows everything. The order of upstream's node list is random, so
several orders were recorded; ours is compared with each.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict

from tests.builders.scale_down import scale_down_request
from tests.builders.verdicts import judged
from tests.certificates.scale_down import offences
from tests.parity.eviction_api import refused
from trimtab.clients.verdicts import staying
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, reason_pb2

DATA = Path(__file__).parent / "data" / "cluster_autoscaler"
UNLIMITED = {
    "unneededTime": "0s",
    "unreadyTime": "0s",
    "maxScaleDownParallelism": 1_000_000,
    "maxDrainParallelism": 1_000_000,
    "maxWaves": 1,
}
ANOTHER_PLAN = {
    "UNNEEDED",
    "NODE_GROUP_MIN_SIZE_REACHED",
    "MINIMAL_RESOURCE_LIMIT_EXCEEDED",
    "NO_PLACE_TO_MOVE_PODS",
    "DESTINATION_OF_MOVED_PODS",
    "RESERVED_FOR_PENDING_PODS",
    "BLOCKED_BY_POD NOT_ENOUGH_PDB",
}
"""Verdicts that depend on which other nodes go. Equally good plans differ in them."""

_reason = reason_pb2.UnremovableReason.Code.Name
_blocking = reason_pb2.BlockingPodReason.Code.Name


class Verdict(NamedTuple):
    """Why a node stays, with the kind of block where a pod blocks, or UNNEEDED; and the pod."""

    what: str
    pod: str = ""


class Difference(NamedTuple):
    """A node with different verdicts that do not follow from different plans."""

    document: str
    node: str
    ours: Verdict
    theirs: Verdict


class Ours(NamedTuple):
    """drained : how many nodes may go at once; verdicts by node; offences : violations found by the certificate."""

    drained: int
    verdicts: dict[str, Verdict]
    offences: list[str]


def recorded(name: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return the documents of a recording, each with its answers."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            yield row["document"], row["runs"]


def settings_of(
    document: dict[str, Any], scale_down: dict[str, Any] | None = None, planner: dict[str, Any] | None = None
) -> plan_pb2.PlanSettings:
    """The settings of a document, whose resource minimums have the form that the oracle reads. The others : more."""
    given = {**document["settings"]["scaleDown"], **(scale_down or {})}
    limits = [
        {"resource": one["resource"], "minimum": one["amount"], "nodes": {"matchLabels": one.get("nodeLabels", {})}}
        for one in given.pop("resourceMinimums", ())
    ]
    everything = {"scaleDown": given, "planner": {"limits": limits, **(planner or {})}}
    return ParseDict(everything, plan_pb2.PlanSettings())


def ours(
    document: dict[str, Any], more: dict[str, Any] | None = None, scale_down: dict[str, Any] | None = None
) -> Ours:
    """Plan, and verify the plan. `more` : planner-wide settings; `scale_down` : more of its own."""
    message = build_snapshot(decode_objects(document["items"])).snapshot
    settings = settings_of(document, {**UNLIMITED, **(scale_down or {})}, more)
    now_s = int(datetime.fromisoformat(document["now"]).timestamp())
    snapshot = canonicalize(message)
    answer = judged(decide_scale_down(scale_down_request(snapshot, settings, now_s)), snapshot)
    decision = answer.scale_down
    verdicts = {entry.node: Verdict("UNNEEDED") for entry in decision.unneeded}
    for entry in staying(answer):
        verdicts[entry.node] = _verdict(entry.reason, entry.blocking_reason, entry.blocking_pod)
    drained = len(decision.delete_empty) + len(decision.drain)
    return Ours(drained, verdicts, offences(message, settings, answer, now_s))


def _verdict(reason: int, blocking: int, pod: str) -> Verdict:
    what = _reason(reason)
    return Verdict(f"{what} {_blocking(blocking)}", pod) if what == "BLOCKED_BY_POD" else Verdict(what)


def drained(run: dict[str, Any]) -> int:
    """Return how many nodes upstream would remove at once."""
    return len(run["empty"]) + len(run["drain"])


def lasting(document: dict[str, Any], run: dict[str, Any]) -> int:
    """Return how many of those nodes the eviction API allows to be drained."""
    return len({*(run["empty"] or ()), *(run["drain"] or ())} - refused(document))


def theirs(run: dict[str, Any]) -> dict[str, Verdict]:
    """Return upstream's verdict on each node that it evaluates."""
    passed = set(run.get("passed", ()))
    verdicts = {node: Verdict("UNNEEDED") for node in run["unneeded"] or ()}
    for node, why in run["unremovable"].items():
        if node not in passed:
            verdicts[node] = _verdict(why["reason"], why.get("blocking", 0), why.get("pod", ""))
    return verdicts


def differences(document: dict[str, Any], mine: Ours, run: dict[str, Any]) -> Iterator[Difference]:
    """Return the nodes on which the two disagree, except for those explained by a different plan."""
    for node, their in theirs(run).items():
        our = mine.verdicts[node]
        if our != their and not {our.what, their.what} <= ANOTHER_PLAN:
            yield Difference(document["name"], node, our, their)
