"""Of very many groups only a part is packed; the others only if none of these helps."""

import numpy as np
import pytest

from tests.builders.kubernetes import labelled, node, node_group, pod, pod_affinity
from tests.builders.scale_up import plan
from tests.unit.planner.scale_up.expander_options import Group, groups_of
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.model.settings.scale_up import BEST as BEST_EFFORT
from trimtab.planner.model.settings.scale_up import USUAL
from trimtab.planner.model.tuning import PROMISING_GROUPS, REPACKED_GROUPS, SAMPLED_GROUPS
from trimtab.planner.placement.group_bounds import GroupBounds
from trimtab.planner.placement.packing import GrowingGroups, Packed, Packer, PodsToPack, pack_best
from trimtab.planner.scale_up import estimate
from trimtab.planner.scale_up.estimate import promising
from trimtab.planner.scale_up.expanders import ChoiceState, Chooser, ExpanderContext
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1.plan_pb2 import Expander

MANY = USUAL.packed_groups
ZONE = "topology.kubernetes.io/zone"


def bounds(groups: int, same_as: Int64 | None = None) -> GroupBounds:
    """Return bounds of one class of 100 pods of one core; group g has g + 1 cores."""
    cores = np.arange(1, groups + 1, dtype=np.int64) * 1000
    free = np.stack([cores, cores << 20], axis=1)
    return GroupBounds(
        classes=np.zeros(1, np.int64), kind=np.zeros(1, np.int64), counts=np.array([100]),
        admitted=np.ones((1, groups), bool), pods=np.full(groups, 100), demand=np.full((groups, 2), 100_000), free=free,
        least_nodes=-(-100_000 // cores), same_as=np.arange(groups) if same_as is None else same_as,
    )  # fmt: skip


def parts(groups: int, same_as: Int64 | None = None, most: int = MANY) -> list[list[int]]:
    """Return the parts; groups with fewest nodes are the best."""
    facts = groups_of({f"{number:05}": Group() for number in range(groups)})
    context = ExpanderContext(facts, ScaleUpSettings(), 10)
    chooser = Chooser(context, (Expander.LEAST_NODES,), ChoiceState(0, np.zeros(groups, np.int64)))
    may_add = np.full(groups, 1000)
    return list(promising(bounds(groups, same_as), may_add, list(range(groups)), chooser, most))


def test_few_groups_are_packed_all_at_once() -> None:
    assert parts(MANY) == [list(range(MANY))]


def test_with_the_best_effort_any_number_of_groups_is_packed_all_at_once() -> None:
    assert parts(8 * MANY, most=BEST_EFFORT.packed_groups) == [list(range(8 * MANY))]


def test_groups_that_are_the_same_for_the_pods_count_once() -> None:
    assert parts(2 * MANY, np.arange(2 * MANY) // 2 * 2) == [list(range(2 * MANY))]


def test_of_many_groups_the_best_and_a_ladder_of_sizes_come_first_and_then_all_others() -> None:
    first, *others = parts(400)
    assert len(first) == PROMISING_GROUPS + SAMPLED_GROUPS
    assert set(range(99, 99 + PROMISING_GROUPS)) <= set(first), "one node of them holds all pods"
    assert {0, 399} <= set(first)
    assert sorted([*first, *(group for part in others for group in part)]) == list(range(400))


def test_a_group_far_down_the_list_still_grows_where_it_alone_helps() -> None:
    """The bounds ignore affinity: pods must be near the data, in the zone of one group."""
    groups = [
        node_group(f"g{i:03}", 0, 5, target=0, nodes=[], template=node("t", f"{2 + i}", zone="b" if i == 77 else "a"))
        for i in range(MANY + 40)
    ]
    there = [node("n", "1", zone="b"), pod("data", "1", node="n", labels={"app": "data"})]
    found = plan(groups, there, pod("p", "1", affinity=pod_affinity(labelled(app="data"), topology_key=ZONE)))
    assert found.growth == {"g077": 1}
    assert found.decision.evaluated == 1


def test_of_many_groups_only_the_best_are_packed_in_several_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[bool, list[int]] = {True: [], False: []}

    def noting(within: Packer, groups: GrowingGroups, pods: PodsToPack, *rest: int) -> Packed:
        asked[pods.once] += groups.groups
        return pack_best(within, groups, pods, *rest)

    monkeypatch.setattr(estimate, "pack_best", noting)
    groups = [
        node_group(f"g{i:03}", 0, 5, target=0, nodes=[], template=node("t", f"{2 + i}")) for i in range(MANY + 40)
    ]
    found = plan(*groups, [pod(f"p{i}", "30") for i in range(2)])
    assert len(asked[True]) == PROMISING_GROUPS + SAMPLED_GROUPS
    assert len(asked[False]) == REPACKED_GROUPS
    assert set(asked[False]) < set(asked[True])
    assert [int(name.removeprefix("g")) in asked[False] for name in found.growth] == [True]
    asked[True].clear()
    plan(*groups[:MANY], [pod(f"p{i}", "30") for i in range(2)])
    assert not asked[True]
