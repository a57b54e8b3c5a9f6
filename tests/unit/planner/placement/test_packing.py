"""Packing onto new nodes equals plain first fit, pod by pod, with every predicate checked each time."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.fitting import ZONE, equals, node
from tests.builders.growing import GrowingCluster, growing_cluster, random_growing_cluster
from tests.builders.rows import NodeRow, PodRow
from tests.builders.simulation_walks import assert_agree, assert_same, copied, spreading
from tests.reference.placement import packing as reference
from trimtab.planner.model.values import PodRequirements, SpreadConstraint
from trimtab.planner.placement.packing import GrowingGroups, Packed, pack, packer, place_on_new_nodes
from trimtab.planner.simulation.log import check_log

SEEDS = st.integers(0, 2**48)


class Case(NamedTuple):
    made: GrowingCluster
    pods: list[int]
    groups: GrowingGroups
    most_nodes: int


def case(seed: int, draw: Callable[[int], GrowingCluster] = random_growing_cluster) -> Case:
    """Return a random case in which pods mostly come in runs of equal ones."""
    made, random = draw(seed), Random(seed + 21)
    pods = list(made.pending)
    if random.random() < 0.3:
        random.shuffle(pods)
    elif random.random() < 0.5:
        rank = {pod: random.random() for pod in set(made.simulation.state.pod_class[pods].tolist())}
        pods.sort(key=lambda pod: rank[int(made.simulation.state.pod_class[pod])])
    groups = random.sample(range(len(made.growth.template_node)), random.randint(1, len(made.growth.template_node)))
    sizes = [random.randint(0, 3) for _ in groups]
    return Case(
        made,
        pods,
        GrowingGroups(groups, sizes, [random.choice((0, 2, 6, 9)) for _ in groups]),
        random.choice((1, 4, 9)),
    )


def naive(case: Case) -> tuple[list[int], list[int]]:
    made, groups = case.made, case.groups
    names = [made.names[made.growth.template_node[group]] for group in groups.groups]
    given = list(zip(names, groups.sizes, groups.may_add, strict=True))
    bounds = case.most_nodes, made.simulation.state.pod_class.tolist()
    return reference.pack(made.cluster, case.pods, list(made.growth.spare_names), given, bounds)


def packed(case: Case) -> Packed:
    found = pack(packer(case.made.simulation, case.made.growth), case.groups, pods_of(case), case.most_nodes)
    check_log(case.made.simulation.state)
    return found


def pods_of(case: Case) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(case.pods, np.int32)


@given(SEEDS)
@examples(300)
def test_pods_go_where_plain_first_fit_puts_them_and_the_simulation_is_left_as_it_was(seed: int) -> None:
    one = case(seed)
    before = copied(one.made.simulation.state)
    found = packed(one)
    assert_same(one.made.simulation.state, before)
    assert (found.node_of.tolist(), found.group_of.tolist()) == naive(one)
    assert found.nodes == len(found.group_of)
    assert found.placed == int((found.node_of >= 0).sum())


@given(SEEDS)
@examples(300)
def test_pods_that_spread_and_gather_go_where_plain_first_fit_puts_them(seed: int) -> None:
    one = case(seed, spreading)
    found = packed(one)
    assert (found.node_of.tolist(), found.group_of.tolist()) == naive(one)


@given(SEEDS)
@examples(60)
def test_what_one_packing_learnt_does_not_reach_the_next(seed: int) -> None:
    one = case(seed)
    within, pods = packer(one.made.simulation, one.made.growth), pods_of(one)
    first = pack(within, one.groups, pods, one.most_nodes)
    pack(within, one.groups, pods[::-1].copy(), one.most_nodes)
    again = pack(within, one.groups, pods, one.most_nodes)
    assert again.node_of.tolist() == first.node_of.tolist()


@given(SEEDS)
@examples(150)
def test_what_was_packed_fits_in_earnest_and_other_groups_take_what_fits_them(seed: int) -> None:
    one = case(seed)
    made, found, random = one.made, packed(one), Random(seed + 22)
    group_of = [one.groups.groups[at] for at in found.group_of]
    same = random.random() < 0.5
    if not same:
        group_of = [random.randrange(len(made.growth.template_node)) for _ in group_of]
    on = place_on_new_nodes(packer(made.simulation, made.growth), group_of, pods_of(one), found.node_of)
    names = [made.names[made.growth.template_node[group]] for group in group_of]
    spare_nodes = list(made.growth.spare_names)
    expected = reference.place_on_new(made.cluster, one.pods, found.node_of.tolist(), spare_nodes, names)
    assert [made.names[at] if at >= 0 else "" for at in on] == expected
    if same:
        assert int((on >= 0).sum()) == found.placed
    assert_agree(made.simulation, made.cluster)


@pytest.mark.parametrize(
    ("least", "real"),
    [
        pytest.param(1, [node("n1", "zb", allocatable={})], id="a smallest count rises"),
        pytest.param(2, [], id="a domain joins"),
    ],
)
def test_a_class_that_found_no_place_is_tried_again_once(least: int, real: list[NodeRow]) -> None:
    in_zone = {zone: PodRequirements(node_selector=((ZONE, zone),)) for zone in ("za", "zb")}
    even = SpreadConstraint(1, ZONE, equals(app="x"), least, False, False, ())
    specs = [in_zone["za"]._replace(topology_spread=(even,)), in_zone["zb"]]
    pods = [PodRow(f"p{at}", specs[of], labels={"app": "x"}) for at, of in enumerate((0, 0, 1, 0))]
    groups = [(NodeRow("t", {ZONE: zone}, {"pods": 9}), list[PodRow](), 0) for zone in ("za", "zb")]
    made = growing_cluster(real, pods, groups, 4)
    one = Case(made, made.pending, GrowingGroups([0, 1], [0, 0], [4, 4]), 4)
    assert packed(one).node_of.tolist() == naive(one)[0] == [0, -1, 1, 0]


def test_a_pod_that_may_go_to_one_node_alone_is_not_counted_with_others_of_its_class() -> None:
    spec = PodRequirements(requests=(("cpu", 1),))
    pods = [PodRow(f"p{at}", spec, pinned="gone" if at == 1 else "") for at in range(3)]
    made = growing_cluster([], pods, [(NodeRow("t", {}, {"cpu": 9, "pods": 9}), [], 0)], 4)
    one = Case(made, made.pending, GrowingGroups([0], [0], [4]), 4)
    assert packed(one).node_of.tolist() == naive(one)[0] == [0, -1, 0]
