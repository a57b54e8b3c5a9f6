"""A kept plan is used as long as its answer is the same, and not longer."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, daemon_set, node, node_group, pod, replica_set, snapshot_of, taint
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.scale_down.cached_plan import PlanKey
from trimtab.planner.service.version_cache import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

NOW_S = 1_700_000_020
"""Twenty seconds after the pods of random clusters were created or deleted."""
SCALE_DOWN, POD_COSTS = plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.POD_COSTS
WEB = replica_set("web", 9)


class Watched(CachedSnapshot):
    """Counts hits."""

    found = 0

    def find(self, key: Any) -> Any:
        value = super().find(key)
        self.found += isinstance(key, PlanKey) and value is not None
        return value


def ask(now_s: int, *decisions: "plan_pb2.Decision.Code.ValueType", threshold: float = 1.0) -> plan_pb2.PlanRequest:
    request = plan_pb2.PlanRequest(decisions=decisions or [SCALE_DOWN])
    request.now.seconds = now_s
    request.settings.scale_down.utilization_threshold = threshold
    request.settings.scale_down.unneeded_time.seconds = 30
    request.settings.scale_down.skip_nodes_with_system_pods = True
    return request


def both(
    kept: CachedSnapshot, request: plan_pb2.PlanRequest, state: plan_pb2.PlanState | None
) -> plan_pb2.PlanResponse:
    """Return the answer, after checking that it is the same with and without kept objects."""
    afresh = plan(kept.snapshot, request, state, Work())
    again = plan(kept.snapshot, request, state, Work(cache=kept))
    assert again.SerializeToString(deterministic=True) == afresh.SerializeToString(deterministic=True)
    return afresh


def nodes_of(*names: str, **about: Any) -> list[Json]:
    return [WEB, *(node(name, **about) for name in names), node_group("g", nodes=list(names))]


QUIET = [*nodes_of("n1", "n2", "n3"), *(pod(f"p-{i}", "1", node=f"n{i}", owner=WEB) for i in (1, 2, 3))]


def loops(objects: list[Json], *moments_s: int) -> tuple[list[plan_pb2.PlanResponse], Watched]:
    """Decide at each of the times, with the state of the previous loop."""
    kept, answers = Watched(canonicalize(snapshot_of(*objects))), []
    for now_s in moments_s:
        answers.append(both(kept, ask(now_s), answers[-1].state if answers else None))
    return answers, kept


def test_a_quiet_cluster_is_searched_once() -> None:
    answers, kept = loops(QUIET, *range(NOW_S, NOW_S + 60, 10))
    assert kept.found >= 3
    assert [entry.node for entry in answers[-1].scale_down.unneeded] == ["n1", "n2"]
    assert [len(answer.scale_down.drain) for answer in answers] == [0, 0, 0, 2, 2, 2]


def stamp(at_s: int) -> str:
    return f"2023-11-14T22:{13 + (at_s + 20) // 60:02}:{(at_s + 20) % 60:02}Z"


CHANGES: dict[str, tuple[list[Json], int]] = {
    "a system pod gets old enough": (
        [*QUIET, pod("dns", node="n1", namespace="kube-system", owner=WEB, created=stamp(0))], NOW_S + 3_600
    ),
    "a deletion is overdue": (
        [*QUIET, pod("going", "2", node="n1", owner=daemon_set(), created=stamp(0), deletion=stamp(0))], NOW_S + 600
    ),
    "a deletion that began long ago is given up": (
        [*nodes_of("n1", "n2"), node("n3", taints=[taint(f"ToBeDeletedByClusterAutoscaler={NOW_S}:NoSchedule")])],
        NOW_S + 400,
    ),
    "a failed simulation is too long ago": (
        [*nodes_of("n1", "n2"), *(pod(f"p{i}", "3", node=f"n{i}", owner=WEB) for i in (1, 2))], NOW_S + 330
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_pods_that_depend_on_time_are_found_again(name: str) -> None:
    objects, later_s = CHANGES[name]
    answers, kept = loops(objects, NOW_S, NOW_S + 1, NOW_S + 2, NOW_S + 3)
    assert kept.found > 0
    before = kept.found
    both(kept, ask(later_s), answers[-1].state)
    assert kept.found == before


def test_time_that_has_run_out_keeps_nothing() -> None:
    kept = Watched(canonicalize(snapshot_of(*QUIET)))
    plan(kept.snapshot, ask(NOW_S), None, Work(cache=kept, time_left=lambda: False))
    plan(kept.snapshot, ask(NOW_S), None, Work(cache=kept))
    assert kept.found == 0
    plan(kept.snapshot, ask(NOW_S), None, Work(cache=kept))
    assert kept.found == 1


def test_what_was_kept_counts_with_its_snapshot_and_goes_with_its_values() -> None:
    kept = Watched(canonicalize(snapshot_of(*QUIET)))
    bare = kept.size()
    plan(kept.snapshot, ask(NOW_S), None, Work(cache=kept))
    assert kept.size() > bare
    kept.drop_values()
    assert kept.size() == bare
    plan(kept.snapshot, ask(NOW_S), None, Work(cache=kept))
    assert kept.found == 0
