"""The cases of kube-scheduler's own tests of pod groups, restated: the same success or failure for each group.

Without node groups, a plan serves a gang exactly if the scheduler can place it now. Source: Kubernetes 1.36.3 (Apache
2.0), pkg/scheduler/schedule_one_podgroup_test.go TestPodGroupSchedulingAlgorithm and TestFrameworkForPodGroup,
framework/plugins/gangscheduling/gangscheduling_test.go TestGangSchedulingFlow, framework/plugins/topologyaware/
topology_placement_test.go TestGeneratePlacements; and what 1.37.2 has beyond them: TestValidatePodGroup,
TestPlacementFeasible, new rows of TestPodGroupSchedulingAlgorithm, and of test/integration/scheduler/podgroup/queueing
those on gated pods. Some rows on several schedulers are our own; the real schedulers (`gang_oracle`) answer alike.
Left out: cases of preemption, of errors of plugins, and of composite groups (a gate that is off).

Named differences to 1.37.2: preemption policies do not reach a plan, so that groups whose pods differ in nothing else
are planned, which the scheduler refuses; groups in composite groups are planned each by itself.
"""

from typing import NamedTuple

import pytest

from tests.builders.gangs import GangRow, member, plan_gangs, reasons
from tests.builders.kubernetes import Json, node

PLACED = ""


class Case(NamedTuple):
    """minimum : minCount, 0 = policy basic; fits : by pod, whether a node takes it; reason : `GangReason`, PLACED = the
    group is scheduled; running : pods of the group by node; nodes : value of the topology label by node, "" = none; key
    : of the topology; schedulers : by pod, running ones after those that wait; priority : of the group, None = as in
    1.36; priorities : by pod in the same order; gated : pods that have scheduling gates."""

    name: str
    minimum: int
    fits: tuple[bool, ...]
    reason: str
    running: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ("",)
    key: str = ""
    schedulers: tuple[str, ...] = ()
    priority: int | None = None
    priorities: tuple[int, ...] = ()
    gated: tuple[int, ...] = ()


CASES = (
    Case("All pods feasible", 3, (True, True, True), PLACED),
    Case("All pods feasible, two waiting", 3, (True, True, True), PLACED),
    Case("All pods feasible, but all waiting", 4, (True, True, True), "TOO_FEW_PODS"),
    Case("All pods feasible, one waiting, one unschedulable", 2, (True, False, True), PLACED),
    Case("one unschedulable, and the minimum not reached", 3, (True, False, True), "NO_NODE_GROUP_FITS"),
    Case("All pods unschedulable", 3, (False, False, False), "NO_NODE_GROUP_FITS"),
    Case("success for same scheduler name", 2, (True, True), PLACED, schedulers=("s1", "s1")),
    Case("failure for different scheduler names", 2, (True, True), "SEVERAL_SCHEDULERS", schedulers=("s1", "s2")),
    Case(
        "several schedulers, and the minimum runs",
        1, (True, True), "SEVERAL_SCHEDULERS", ("n0",), schedulers=("s1", "s2", "s1"),
    ),
    Case("a basic group with several schedulers", 0, (True, True), "SEVERAL_SCHEDULERS", schedulers=("s1", "s2")),
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
Y, N = True, False
CASES_OF_1_37 = (
    # TestValidatePodGroup
    Case("different scheduler names", 2, (Y, Y), "SEVERAL_SCHEDULERS", schedulers=("s1", "s2"), priority=0),
    Case("priorities match", 2, (Y, Y), PLACED, priority=10, priorities=(10, 10)),
    Case("different priorities across pods", 2, (Y, Y), "SEVERAL_PRIORITIES", priority=10, priorities=(9, 10)),
    Case("priorities of pods and group differ", 2, (Y, Y), "SEVERAL_PRIORITIES", priority=9, priorities=(10, 10)),
    Case(
        "new pods match scheduled pods' scheduler name and priority",
        2, (Y,), PLACED, ("n0",), schedulers=("s1", "s1"), priority=10, priorities=(10, 10),
    ),
    Case(
        "new pod has another scheduler name than a scheduled one",
        2, (Y,), "SEVERAL_SCHEDULERS", ("n0",), schedulers=("s1", "s2"), priority=10, priorities=(10, 10),
    ),
    Case(
        "new pod has another priority than a scheduled one",
        2, (Y,), "SEVERAL_PRIORITIES", ("n0",), priority=10, priorities=(10, 9),
    ),
    # TestPodGroupSchedulingAlgorithm
    Case("quorum is met before any pod is evaluated", 2, (Y, Y, Y), PLACED, ("n0", "n0"), priority=0),
    Case("schedulable with 3 schedulable pods", 3, (Y, Y, Y), PLACED, priority=0),
    Case("waiting", 4, (Y, Y, Y), "TOO_FEW_PODS", priority=0),
    Case("schedulable with 2 schedulable pods", 2, (N, Y, Y), PLACED, priority=0),
    Case(
        "several schedulers, and the minimum runs",
        1, (Y, Y), "SEVERAL_SCHEDULERS", ("n0",), schedulers=("s1", "s2", "s1"), priority=0,
    ),
    Case("a basic group with several schedulers", 0, (Y, Y), "SEVERAL_SCHEDULERS", schedulers=("s1", "s2"), priority=0),
    Case(
        "a basic group, a running pod has another scheduler",
        0, (Y,), "SEVERAL_SCHEDULERS", ("n0",), schedulers=("s1", "s2"), priority=0,
    ),
    # TestPlacementFeasible
    Case("all pods succeed, minCount met at the end", 2, (Y, Y), PLACED, priority=0),
    Case("first pod fails, minCount not satisfiable", 3, (N, Y, Y), "NO_NODE_GROUP_FITS", priority=0),
    Case("second pod fails, minCount not satisfiable", 2, (Y, N), "NO_NODE_GROUP_FITS", priority=0),
    Case("more than minCount pods, all succeed", 2, (Y, Y, Y), PLACED, priority=0),
    Case("more than minCount pods, first fails", 2, (N, Y, Y), PLACED, priority=0),
    Case("more than minCount pods, minCount not satisfiable", 2, (N, N, Y), "NO_NODE_GROUP_FITS", priority=0),
    Case("1 pod scheduled, 2 succeed, minCount 3 met", 3, (Y, Y), PLACED, ("n0",), priority=0),
    Case("1 pod scheduled, minCount 3, first fails", 3, (N, Y), "NO_NODE_GROUP_FITS", ("n0",), priority=0),
    Case("1 pod scheduled, minCount 4, not enough remain", 4, (Y, Y), "TOO_FEW_PODS", ("n0",), priority=0),
    # queueing
    Case("a single gated pod blocks a gang", 2, (Y, Y, Y), "MEMBER_GATED", priority=0, gated=(0,)),
    Case("a single gated pod blocks a basic group", 0, (Y, Y, Y), "MEMBER_GATED", priority=0, gated=(0,)),
    Case("priorities of pods and a basic group differ", 0, (Y, Y), "SEVERAL_PRIORITIES", priority=9),
)  # fmt: skip


def objects(case: Case) -> list[Json]:
    """Return the nodes and pods of a case. A pod that does not fit requests more than any node has."""
    nodes = [node(f"n{i}", "8", labels={"topology": value} if value else None) for i, value in enumerate(case.nodes)]
    pods = (*(1 if fits else 99 for fits in case.fits), *(1 for _ in case.running))
    names = case.schedulers or ("default-scheduler",) * len(pods)
    priorities = case.priorities or (0,) * len(pods)
    specs: list[Json] = [
        {"schedulerName": name, "priority": priority} for name, priority in zip(names, priorities, strict=True)
    ]
    for at in case.gated:
        specs[at]["schedulingGates"] = [{"name": "wait"}]
    count = len(case.fits)
    waiting = [member(f"p{i}", "pg", str(pods[i]), spec=specs[i]) for i in range(count)]
    running = [
        member(f"r{i}", "pg", "1", node=on, phase="Running", spec=specs[count + i]) for i, on in enumerate(case.running)
    ]
    return [*nodes, *running, *waiting]


@pytest.mark.parametrize("case", [*CASES, *CASES_OF_1_37], ids=lambda case: case.name)
def test_a_plan_serves_the_groups_that_the_scheduler_places(case: Case) -> None:
    settings = {"schedulerNames": ["s1", "s2"]}
    group = GangRow("pg", case.minimum, case.key, priority=case.priority)
    found = plan_gangs([group], objects(case), settings=settings)
    assert reasons(found) == {"pg": case.reason}
    placed = len(found.on_existing)
    assert placed == (sum(case.fits) if case.reason == PLACED else 0)


def test_a_gang_whose_minimum_runs_is_placed_though_no_further_pod_fits() -> None:
    """The row "minCount already met by scheduled pods" of TestPlacementFeasible: the group succeeds, its pod waits."""
    case = Case("", 2, (False,), PLACED, ("n0", "n0"), priority=0)
    found = plan_gangs([GangRow("pg", 2, priority=0)], objects(case))
    assert (reasons(found), found.on_existing) == ({"pg": ""}, {})


@pytest.mark.parametrize(
    ("fits", "running", "placed"), [((False,), (), 0), ((True,), (), 1), ((False,), ("n0",), 0), ((True, False), (), 1)]
)
def test_pods_of_a_basic_group_are_placed_as_far_as_they_fit(
    fits: tuple[bool, ...], running: tuple[str, ...], placed: int
) -> None:
    """The rows on non-gang groups of TestPlacementFeasible."""
    found = plan_gangs([GangRow("pg", priority=0)], objects(Case("", 0, fits, PLACED, running, priority=0)))
    assert (reasons(found), len(found.on_existing)) == ({}, placed)


def test_pods_without_a_pod_group_object_wait() -> None:
    found = plan_gangs([], [node("n0", "8"), member("p1", "pg", "1"), member("p2", "pg", "1")])
    assert reasons(found) == {"pg": "POD_GROUP_MISSING"}


def test_a_pod_of_a_basic_group_is_placed_at_once() -> None:
    found = plan_gangs([GangRow("pg")], [node("n0", "8"), member("p1", "pg", "1")])
    assert found.on_existing == {"default/p1": "n0"}
