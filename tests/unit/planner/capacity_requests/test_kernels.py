"""Equal pods are placed as a naive twin places them."""

from itertools import groupby
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.growing import random_growing_cluster
from tests.reference.capacity_requests import sets
from trimtab.planner.capacity_requests.kernels.sets import NOT_COUNTABLE, place_equal
from trimtab.planner.predicates.counters import is_unlike_its_class


@given(st.integers(0, 2**48))
@examples(200)
def test_equal_pods_go_to_the_first_nodes_with_room_for_them(seed: int) -> None:
    made, random = random_growing_cluster(seed), Random(seed)
    state, cluster = made.simulation.state, made.cluster
    order = [at for at, name in enumerate(made.names) if cluster.state[name] == "open"]
    random.shuffle(order)
    cursor = np.zeros(len(state.local_class), np.int64)
    pods = sorted(set(made.pending))
    alike = np.flatnonzero(~is_unlike_its_class(state.counters, np.array(pods, np.int64))) if pods else ()
    plain = [pods[at] for at in alike]
    for _, rows in groupby(enumerate(plain), key=lambda one: (one[1] - one[0], int(state.pod_class[one[1]]))):
        members = [pod for _, pod in rows]
        if any(state.pinned[pod] != -1 for pod in members):
            continue
        placed = place_equal(state, members[0], len(members), np.array(order, np.int32), cursor)
        if placed == NOT_COUNTABLE:
            assert (state.pod_node[members] == -1).all()
            continue
        assert placed == sets.place_equal(cluster, members, [made.names[at] for at in order])
        where = [made.names[state.pod_node[pod]] if state.pod_node[pod] >= 0 else "" for pod in members]
        assert where == [cluster.at[pod] for pod in members]
