"""Pods in slots: where each is placed, in which order, and what happens to those that their slots do not admit."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.fitting import HOST, ZONE, equals
from tests.builders.growing import GrowingCluster, growing_cluster
from tests.builders.rows import NodeRow, PodRow
from tests.builders.simulation_walks import assert_agree, spreading
from tests.reference.placement import packing as reference
from trimtab.planner.model.values import PodRequirements, SpreadConstraint
from trimtab.planner.placement.kernels import packing as kernels
from trimtab.planner.placement.packing import PodsInSlots, _rings, packer, place_in_slots, place_on_new_nodes

SEEDS = st.integers(0, 2**48)


def opened(made: GrowingCluster, group_of: list[int]) -> list[int]:
    """Open new nodes; return them."""
    nobody = np.zeros(0, np.int32)
    place_on_new_nodes(packer(made.simulation, made.growth), group_of, nobody, nobody)
    names = [made.names[made.growth.template_node[group]] for group in group_of]
    for blank, name in zip(made.growth.spare_names, names, strict=False):
        made.cluster.open_from_template(blank, name)
    return made.growth.spare_nodes[: len(group_of)].tolist()


def asked_of(made: GrowingCluster, nodes: list[int], random: Random) -> PodsInSlots:
    """Pods of a few rows, and slots on nodes, not in the order of either."""
    rows = random.randint(1, 3)
    slots = [(node, row) for node in nodes for row in range(rows) if random.random() < 0.8]
    random.shuffle(slots)
    node, row = np.array(slots, np.int32).reshape(-1, 2).T
    pods = random.sample(made.pending, len(made.pending))
    return PodsInSlots(
        np.array(pods, np.int32),
        np.array([random.randrange(rows) for _ in pods], np.int32),
        node,
        row,
        np.array([random.randint(1, 4) for _ in slots], np.int64),
    )


@given(SEEDS)
@examples(300)
def test_pods_are_placed_in_slots_as_by_the_twin(seed: int) -> None:
    made, random = spreading(seed), Random(seed + 31)
    nodes = opened(made, [random.randrange(len(made.growth.template_node)) for _ in range(random.randint(1, 6))])
    asked, tries = asked_of(made, nodes, random), random.choice((1, 2, 9))
    slots = list(zip([made.names[n] for n in asked.slot_node], asked.slot_row, asked.room.tolist(), strict=True))
    pods = list(zip(asked.pods.tolist(), asked.rows.tolist(), strict=True))
    count = kernels.place_in_slots(made.simulation.state, _rings(asked), asked.pods, asked.rows, tries)
    assert count == len(reference.place_in_slots(made.cluster, slots, pods, tries))
    assert_agree(made.simulation, made.cluster)


@given(SEEDS)
@examples(100)
def test_no_slot_takes_more_than_its_room_and_only_pods_of_its_row(seed: int) -> None:
    made, random = spreading(seed), Random(seed + 32)
    nodes = opened(made, [random.randrange(len(made.growth.template_node)) for _ in range(random.randint(1, 6))])
    asked = asked_of(made, nodes, random)
    placed = place_in_slots(made.simulation.state, asked)
    where = made.simulation.state.pod_node[asked.pods]
    assert sorted(placed.tolist()) == sorted(asked.pods[where >= 0].tolist())
    room = dict(zip(zip(asked.slot_node.tolist(), asked.slot_row.tolist(), strict=True), asked.room, strict=True))
    for node, row in zip(where[where >= 0].tolist(), asked.rows[where >= 0].tolist(), strict=True):
        room[node, row] -= 1
    assert min(room.values(), default=0) >= 0


def test_pods_that_keep_apart_come_first_and_go_to_different_nodes() -> None:
    """The plain pods that they count would keep them out, had these been placed first."""
    even = SpreadConstraint(1, HOST, equals(app="x"), 1, True, False, ())
    specs = [PodRequirements(), PodRequirements(topology_spread=(even,))]
    pods = [PodRow(f"p{at}", specs[at >= 4], labels={"app": "x"}) for at in range(7)]
    made = growing_cluster([], pods, [(NodeRow("t", {ZONE: "za"}, {"pods": 9}), [], 0)], 3)
    nodes, none = np.array(opened(made, [0, 0, 0]), np.int32), np.zeros(7, np.int32)
    asked = PodsInSlots(np.array(made.pending, np.int32), none, nodes, none[:3], np.array([3, 2, 2]))
    placed = place_in_slots(made.simulation.state, asked)
    assert placed[:3].tolist() == made.pending[4:]
    assert made.simulation.state.pod_node[placed[:3]].tolist() == nodes.tolist()
    assert len(placed) == 7
