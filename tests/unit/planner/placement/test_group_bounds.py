"""Bounds by group never contradict a packing, and groups reported as equal have equal packings."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.fitting import node
from tests.builders.growing import growing_cluster, random_growing_cluster
from tests.builders.random_rows import ZONE
from tests.builders.rows import NodeRow, PodRow
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.placement.group_bounds import fresh_amounts, group_bounds
from trimtab.planner.placement.packing import GrowingGroups, pack, packer
from trimtab.planner.simulation.growth import Growth
from trimtab.planner.simulation.kernels import open_from_template

SEEDS = st.integers(0, 2**48)


@given(SEEDS)
@examples(150)
def test_what_a_packing_places_was_admitted_and_needs_no_fewer_nodes_than_the_bound(seed: int) -> None:
    made = random_growing_cluster(seed)
    pods = np.array(made.pending, np.int32)
    bounds, within = group_bounds(made.simulation, made.growth, pods), packer(made.simulation, made.growth)
    assert bounds.counts.sum() == len(pods)
    of = made.simulation.state.pod_class[pods]
    for group in range(len(made.growth.template_node)):
        found = pack(within, GrowingGroups([group], [0], [99]), pods, 99)
        admitted = bounds.admitted[np.searchsorted(bounds.classes, of), group]
        assert int(admitted.sum()) == bounds.pods[group]
        assert admitted[found.node_of >= 0].all()
        if found.placed == bounds.pods[group]:
            assert found.nodes >= bounds.least_nodes[group]
        first = int(bounds.same_as[group])
        same = pack(within, GrowingGroups([first], [0], [99]), pods, 99)
        assert same.node_of.tolist() == found.node_of.tolist()


@given(SEEDS)
@examples(50)
def test_fresh_amounts_are_those_of_a_node_that_was_just_opened(seed: int) -> None:
    made = random_growing_cluster(seed)
    fresh, blank = fresh_amounts(made.simulation, made.growth), int(made.growth.spare_nodes[0])
    assert open_from_template(made.simulation.state, blank, int(made.growth.template_node[-1])) == 0
    assert fresh[-1].tolist() == made.simulation.state.resources.free[blank].tolist()


def test_groups_that_differ_in_zone_alone_are_the_same_for_pods_to_which_zones_do_not_matter() -> None:
    pods = [PodRow(f"p{at}", PodRequirements(requests=(("cpu", 2),))) for at in range(4)]
    groups = [
        (NodeRow("t", {ZONE: zone}, {"cpu": cpu, "pods": 9}), [], 0) for zone, cpu in (("a", 5), ("b", 5), ("a", 4))
    ]
    made = growing_cluster([node("n1", allocatable={})], pods, groups, 3)
    bounds = group_bounds(made.simulation, made.growth, np.arange(4, dtype=np.int32))
    assert bounds.same_as.tolist() == [0, 0, 2]
    assert bounds.least_nodes.tolist() == [2, 2, 2]
    assert bounds.pods.tolist() == [4, 4, 4]


def test_a_group_without_a_template_admits_nothing() -> None:
    pods = [PodRow("p", PodRequirements(requests=(("cpu", 2),)))]
    made = growing_cluster([node("n1")], pods, [(NodeRow("t", {}, {"cpu": 5, "pods": 9}), [], 0)], 3)
    growth = made.growth
    none = Growth(np.array([-1, growth.template_node[0]]), *growth[1:])
    bounds = group_bounds(made.simulation, none, np.zeros(1, np.int32))
    assert bounds.admitted.tolist() == [[False, True]]
    assert bounds.pods.tolist() == [0, 1]
    assert fresh_amounts(made.simulation, none)[0].tolist() == [0, 0, 0]
