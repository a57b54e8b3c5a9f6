"""Small clusters on which we and the real Cluster Autoscaler differed or might differ: removed nodes and reasons."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest

from tests.builders.notes import Note
from tests.parity.cluster_autoscaler_answers import Ours, drained, ours, recorded

UNMARKED = {"reserveForUnmarkedPods": True}


class Expected(NamedTuple):
    """drained : nodes that we remove; stays : the reason of some node that stays; fewer : why fewer than upstream, and
    no more than these.
    """

    drained: int
    stays: dict[str, str] = {}  # noqa: RUF012
    fewer: str = ""


CASES = {
    "h01-pending-on-the-only-candidate": Expected(1, {"b": "BLOCKED_BY_POD NOT_REPLICATED"}),
    "h03-all-or-nothing-group-eats-the-budget": Expected(1, {"a1": "ATOMIC_SCALE_DOWN_FAILED"}),
    "h03b-all-or-nothing-group-takes-the-room": Expected(1, {"a1": "ATOMIC_SCALE_DOWN_FAILED"}),
    "h04-all-or-nothing-group-with-an-unregistered-instance": Expected(1),
    "h05-cluster-minimum-four-large-nodes-or-many-small": Expected(64, {"a0": "MINIMAL_RESOURCE_LIMIT_EXCEEDED"}),
    "h05-cluster-minimum-one-large-node-or-many-small": Expected(4, {"a-large": "MINIMAL_RESOURCE_LIMIT_EXCEEDED"}),
    "h06-daemonset-gone": Expected(1),
    "h07-gpu-node-whose-gpus-are-not-there-yet": Expected(0, {"a": "SCALE_DOWN_UNREADY_DISABLED"}),
    "h08-pod-under-two-budgets": Expected(
        0, {"a": "BLOCKED_BY_POD SEVERAL_BUDGETS"}, "the eviction API answers 500 for a pod under two budgets"
    ),
    "h09-pods-moved-together-rely-on-one-another": Expected(
        1, {"b1": "DESTINATION_OF_MOVED_PODS"}, "with both pods evicted the scheduler places neither"
    ),
    "h10-pending-expendable-pod-takes-room": Expected(1),
    "h11-pod-of-a-node-being-deleted-has-no-place": Expected(
        0, {"a": "NOT_EVALUATED"}, "while a pod of a node being deleted has no place, nothing more goes: deliberate"
    ),
    "h14-pending-pod-nominated-to-a-node": Expected(
        1, {"a": "RESERVED_FOR_PENDING_PODS"}, "upstream forgets a pod that preemption has nominated to a node"
    ),
    "h15-statefulset-of-another-api-group": Expected(1),
    "h16-owner-that-is-no-controller": Expected(0, {"a": "BLOCKED_BY_POD NOT_REPLICATED"}),
    "h19-delay-deletion-annotation": Expected(1),
    "h22-budget-stale": Expected(
        0, {"a": "BLOCKED_BY_POD NOT_ENOUGH_PDB"}, "the eviction API answers 429 while a budget's status is outdated"
    ),
    "h23-not-ready-pod-under-an-exhausted-budget": Expected(1),
    "pending-on-the-only-candidate": Expected(1),
    "r-5000034": Expected(21),
    "r-5000130": Expected(1),
    "r-5000132": Expected(1),
}


class Case(NamedTuple):
    document: dict[str, Any]
    runs: list[dict[str, Any]]
    mine: Ours


@cache
def cases() -> dict[str, Case]:
    found = {document["name"]: Case(document, runs, ours(document)) for document, runs in recorded("cases")}
    assert found.keys() == CASES.keys()
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_goes_and_what_stays_is_as_it_should_be(name: str, note: Note) -> None:
    case, expected = cases()[name], CASES[name]
    mine = case.mine
    assert mine.drained >= max(map(drained, case.runs)) or expected.fewer
    assert mine.offences == []
    if mine.drained > expected.drained and not expected.fewer:
        note(f"{name}: {mine.drained} nodes go in a plan that is proven, {expected.drained} are expected")
        return
    assert mine.drained == expected.drained
    assert {node: mine.verdicts[node].what for node in expected.stays} == expected.stays


@pytest.mark.parametrize("name", ["pending-on-the-only-candidate", "r-5000034", "r-5000130"])
def test_room_for_pods_that_the_scheduler_has_not_marked_costs_no_node(name: str) -> None:
    mine = ours(cases()[name].document, UNMARKED)
    assert mine.offences == []
    assert mine.drained == CASES[name].drained
