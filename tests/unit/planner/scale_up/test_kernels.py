"""Refusals equal those of plain loops over all predicates."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.growing import GrowingCluster, random_growing_cluster
from tests.builders.simulation_walks import assert_same, copied
from tests.reference.placement import packing as naive_refusals
from trimtab.planner.placement.kernels.packing import refusals
from trimtab.planner.simulation.kernels import open_from_template
from trimtab.planner.simulation.log import check_log

SEEDS = st.integers(0, 2**48)


def names_of(made: GrowingCluster, nodes: list[int]) -> list[str]:
    return [made.names[node] if node >= 0 else "" for node in nodes]


def open_all_but_one(made: GrowingCluster, random: Random) -> None:
    """Open all spare nodes but one, on both sides."""
    for blank, name in list(zip(made.growth.spare_nodes.tolist(), made.growth.spare_names, strict=True))[:-1]:
        template_node = random.choice(made.growth.template_node.tolist())
        open_from_template(made.simulation.state, blank, template_node)
        made.cluster.open_from_template(name, made.names[template_node])


@given(SEEDS)
@examples(100)
def test_new_nodes_refuse_pods_for_the_reasons_that_a_plain_check_gives(seed: int) -> None:
    made, random = random_growing_cluster(seed), Random(seed + 1)
    if not made.growth.spare_nodes.size:
        return
    open_all_but_one(made, random)
    before = copied(made.simulation.state)
    template_nodes = [*made.growth.template_node.tolist(), -1]
    masks = np.full((len(made.pending), len(template_nodes)), 7, np.int64)
    pods = np.array(made.pending, np.int32)
    refusals(made.simulation.state, int(made.growth.spare_nodes[-1]), np.array(template_nodes, np.int64), pods, masks)
    check_log(made.simulation.state)
    assert_same(made.simulation.state, before)
    blank = made.growth.spare_names[-1]
    assert masks.tolist() == naive_refusals.refusals(made.cluster, blank, names_of(made, template_nodes), made.pending)
