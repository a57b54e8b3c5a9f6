"""The bound of any plan's saving is never below the best of all sets."""

from itertools import combinations
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.drain_sets import WEB
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_down import plan
from trimtab.planner.scale_down.search.headroom import (
    CapacityUse,
    capacity_use,
    own_places,
    saving_bound,
    with_own_places,
)

amounts = st.integers(0, 20)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 6))
    room = np.array([[draw(amounts) for _ in range(count)] for _ in range(2)], np.int64)
    used = np.array([[draw(st.integers(0, 25)) for _ in range(count)] for _ in range(2)], np.int64)
    moving = np.array([[draw(st.integers(0, int(one))) for one in row] for row in used], np.int64)
    leaving = np.array([draw(st.booleans()) for _ in range(count)])
    saving = np.array([draw(st.sampled_from([0.25, 0.5, 1.0, 3.0])) for _ in range(count)])
    return room, used, moving, leaving, saving


@given(clusters())
def test_no_set_of_nodes_whose_pods_have_room_saves_more_than_the_bound(cluster: tuple[np.ndarray, ...]) -> None:
    room, used, moving, leaving, saving = cluster
    candidates = np.flatnonzero(~leaving).astype(np.int32)
    bound = saving_bound(capacity_use(room, used, moving, leaving), candidates, saving)
    free = np.where(leaving, 0, np.maximum(room - used, 0))
    for size in range(len(candidates) + 1):
        for gone in combinations(candidates.tolist(), size):
            stays = [node for node in range(len(saving)) if node not in gone]
            if (moving[:, list(gone)].sum(axis=1) <= free[:, stays].sum(axis=1)).all():
                assert saving[list(gone)].sum() <= bound + 1e-9


def test_the_bound_is_reached_where_nodes_can_be_filled_to_the_brim() -> None:
    room, used = np.full((2, 4), 10, np.int64), np.full((2, 4), 5, np.int64)
    given_volume = capacity_use(room, used, used, np.zeros(4, bool))
    assert saving_bound(given_volume, np.arange(4, dtype=np.int32), np.ones(4)) == 2.0


def test_without_candidates_nothing_can_be_saved() -> None:
    room = np.full((2, 3), 10, np.int64)
    assert saving_bound(capacity_use(room, room, room, np.zeros(3, bool)), np.zeros(0, np.int32), np.ones(3)) == 0.0


class BoundPods:
    """A random cluster of one resource whose pods have no place on some nodes. on, size, of : by pod, its node, request
    and class; free : int64[N]."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        count, pods = random.randint(2, 5), random.randint(0, 5)
        self.blocked = np.array([[random.choice((0, 0, 4)) for _ in range(3)] for _ in range(3)], np.uint16)
        self.node_class = np.array([random.randrange(3) for _ in range(count)], np.int64)
        self.free = np.array([random.randint(0, 5) for _ in range(count)], np.int64)
        self.on = [random.randrange(count) for _ in range(pods)]
        self.size = [random.randint(1, 4) for _ in range(pods)]
        self.of = [random.randrange(3) for _ in range(pods)]
        self.saving = np.array([random.choice((0.25, 0.5, 1.0, 3.0)) for _ in range(count)])

    def use(self) -> CapacityUse:
        """Return the amounts, of all nodes and of those that some pods are bound to; the second resource is free."""
        count = len(self.free)
        moving = np.zeros((2, count), np.int64)
        np.add.at(moving[0], self.on, self.size)
        used = np.stack([10 - self.free, np.zeros(count, np.int64)])
        use = capacity_use(np.full((2, count), 10, np.int64), used, moving, np.zeros(count, bool))
        places = own_places(self.blocked, self.node_class, np.bincount(self.of, minlength=3))
        bound = [pod for pod in range(len(self.on)) if places.only[self.of[pod]] >= 0]
        where = np.array([places.only[self.of[pod]] * count + self.on[pod] for pod in bound], np.int64)
        requests = np.array([[self.size[pod] for pod in bound], [0] * len(bound)], np.int64)
        return with_own_places(use, moving, places, requests, where) if len(places.has) else use

    def have_places(self, gone: tuple[int, ...]) -> bool:
        """Return whether the pods of these nodes have places on the others, by trying all."""
        pods = [pod for pod in range(len(self.on)) if self.on[pod] in gone]
        return self._fit(pods, [0 if number in gone else int(free) for number, free in enumerate(self.free)])

    def _fit(self, pods: list[int], left: list[int]) -> bool:
        if not pods:
            return True
        first = pods[0]
        for at in range(len(left)):
            if left[at] >= self.size[first] and not self.blocked[self.of[first], self.node_class[at]]:
                left[at] -= self.size[first]
                if self._fit(pods[1:], left):
                    return True
                left[at] += self.size[first]
        return False


@given(st.integers(0, 2**40))
@examples(200)
def test_no_set_of_nodes_whose_bound_pods_have_places_saves_more_than_the_bound(seed: int) -> None:
    cluster = BoundPods(seed)
    every = np.arange(len(cluster.free), dtype=np.int32)
    bound = saving_bound(cluster.use(), every, cluster.saving)
    for size in range(len(every) + 1):
        for gone in combinations(every.tolist(), size):
            if cluster.have_places(gone):
                assert cluster.saving[list(gone)].sum() <= bound + 1e-9


def test_random_clusters_have_pods_that_bound_more_than_all_nodes_together() -> None:
    closer = 0
    for seed in range(200):
        cluster = BoundPods(seed)
        use, every = cluster.use(), np.arange(len(cluster.free), dtype=np.int32)
        of_all = CapacityUse(use.weight[:2], use.free[:2])
        closer += saving_bound(use, every, cluster.saving) < saving_bound(of_all, every, cluster.saving) - 1e-9
    assert closer > 10


def bound_to(pool: str, name: str, on: str) -> Json:
    """Return a pod that has no place outside of a pool."""
    return pod(name, "1500m", node=on, owner=WEB, node_selector={"pool": pool})


def test_the_bound_of_an_answer_counts_pods_that_have_no_place_outside_of_their_pool() -> None:
    # By volume both nodes of the pool could go with the empty one, as there is room for all pods outside of the pool.
    objects = [
        WEB, *(node(f"a{n}", "4", labels={"pool": "a"}) for n in range(2)), *(node(f"b{n}", "64") for n in range(4)),
        node("empty", "2"), node_group("g", nodes=["a0", "a1"], target=2, price=2.0),
        node_group("h", nodes=["empty"], target=1, price=1.0),
        *(bound_to("a", f"p{n}-{i}", f"a{n}") for n in range(2) for i in range(2)),
    ]  # fmt: skip
    found = plan(objects, settings={"utilizationThreshold": 1.0})
    assert found.unneeded == ["empty"]
    assert 1.0 <= found.bound <= 2.0, "the empty node and at most half of one of the pool"
