"""The bound of any plan's saving is never below the best of all sets."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.planner.scale_down.search.headroom import capacity_use, saving_bound

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
