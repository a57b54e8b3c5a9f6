"""The cases of kube-scheduler's own tests of pod groups, restated: the same success or failure for each group.

Without node groups, a plan serves a gang exactly if the scheduler can place it now. Source: Kubernetes 1.36.3 (Apache
2.0), pkg/scheduler/schedule_one_podgroup_test.go TestPodGroupSchedulingAlgorithm and TestFrameworkForPodGroup,
framework/plugins/gangscheduling/gangscheduling_test.go TestGangSchedulingFlow, framework/plugins/topologyaware/
topology_placement_test.go TestGeneratePlacements; cases of preemption and of errors of plugins are left out.
"""

from typing import NamedTuple

import pytest

from tests.builders.gangs import GangRow, member, plan_gangs, reasons
from tests.builders.kubernetes import Json, node

PLACED = ""


class Case(NamedTuple):
    """minimum : minCount, 0 = policy basic; fits : by pod, whether a node takes it; reason : `GangReason`, PLACED = the
    group is scheduled; running : pods of the group by node; nodes : value of the topology label by node, "" = none; key
    : of the topology; schedulers : by pod."""

    name: str
    minimum: int
    fits: tuple[bool, ...]
    reason: str
    running: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ("",)
    key: str = ""
    schedulers: tuple[str, ...] = ()


CASES = (
    Case("All pods feasible", 3, (True, True, True), PLACED),
    Case("All pods feasible, two waiting", 3, (True, True, True), PLACED),
    Case("All pods feasible, but all waiting", 4, (True, True, True), "TOO_FEW_PODS"),
    Case("All pods feasible, one waiting, one unschedulable", 2, (True, False, True), PLACED),
    Case("one unschedulable, and the minimum not reached", 3, (True, False, True), "NO_NODE_GROUP_FITS"),
    Case("All pods unschedulable", 3, (False, False, False), "NO_NODE_GROUP_FITS"),
    Case("success for same scheduler name", 2, (True, True), PLACED, schedulers=("s1", "s1")),
    Case("failure for different scheduler names", 2, (True, True), "SEVERAL_SCHEDULERS", schedulers=("s1", "s2")),
    Case("gang pod fails PreEnqueue when quorum is not met", 3, (True, True), "TOO_FEW_PODS"),
    Case("final gang pod arrives at Permit and allows all waiting pods from a gang", 3, (True,), PLACED, ("n0", "n0")),
    Case(
        "with topology key constraint, returns placement for each topology domain",
        2, (True, True), PLACED, nodes=("d1", "d2", "d1", "d3"), key="topology",
    ),
    Case(
        "without matching topology label, returns empty",
        2, (True, True), "NO_DOMAIN_FITS", nodes=("", ""), key="topology",
    ),
    Case(
        "with pods already scheduled in a single domain, returns that domain",
        3, (True,), PLACED, ("n1", "n2"), ("d2", "d1", "d1"), "topology",
    ),
    Case(
        "with pods already scheduled in conflicting domains, returns error",
        3, (True,), "SEVERAL_DOMAINS", ("n0", "n1"), ("d0", "d1"), "topology",
    ),
    Case(
        "with already scheduled pod on node outside of snapshot, returns error",
        3, (True,), "SEVERAL_DOMAINS", ("n0", "gone"), ("d1", "d1"), "topology",
    ),
    Case(
        "with already scheduled pod on node without topology label, returns error",
        2, (True,), "SEVERAL_DOMAINS", ("n1",), ("d2", ""), "topology",
    ),
)  # fmt: skip


def objects(case: Case) -> list[Json]:
    """Return the nodes and pods of a case. A pod that does not fit requests more than any node has."""
    nodes = [node(f"n{i}", "8", labels={"topology": value} if value else None) for i, value in enumerate(case.nodes)]
    running = [member(f"r{i}", "pg", "1", node=on, phase="Running") for i, on in enumerate(case.running)]
    names = case.schedulers or ("default-scheduler",) * len(case.fits)
    waiting = [
        member(f"p{i}", "pg", "1" if fits else "99", spec={"schedulerName": names[i]})
        for i, fits in enumerate(case.fits)
    ]
    return [*nodes, *running, *waiting]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_plan_serves_the_groups_that_the_scheduler_places(case: Case) -> None:
    settings = {"schedulerNames": ["s1", "s2"]}
    found = plan_gangs([GangRow("pg", case.minimum, case.key)], objects(case), settings=settings)
    assert reasons(found) == {"pg": case.reason}
    placed = len(found.decision.on_existing)
    assert placed == (sum(case.fits) if case.reason == PLACED else 0)


def test_pods_without_a_pod_group_object_wait() -> None:
    found = plan_gangs([], [node("n0", "8"), member("p1", "pg", "1"), member("p2", "pg", "1")])
    assert reasons(found) == {"pg": "POD_GROUP_MISSING"}


def test_a_pod_of_a_basic_group_is_placed_at_once() -> None:
    found = plan_gangs([GangRow("pg")], [node("n0", "8"), member("p1", "pg", "1")])
    assert dict(found.decision.on_existing) == {"default/p1": "n0"}
