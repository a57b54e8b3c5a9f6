"""The allocated state: what counts as in use, and that everything can be taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planner.devices.plain_devices import in_use
from trimtab.planner.devices.model import AllocatedDevice, AllocatedState, DeviceId, PoolId

RESULTS = st.builds(
    AllocatedDevice,
    request=st.just("r"),
    device=st.builds(DeviceId, st.sampled_from("ab"), st.sampled_from("pq"), st.sampled_from("xyz")),
    admin_access=st.booleans(),
    shared=st.booleans(),
    consumed=st.dictionaries(st.sampled_from(["memory", "cores"]), st.integers(0, 3)).map(
        lambda amounts: tuple(sorted(amounts.items()))
    ),
)
ALLOCATIONS = st.lists(RESULTS, max_size=4).map(tuple)


@given(kept=st.lists(ALLOCATIONS, max_size=4), undone=st.lists(ALLOCATIONS, max_size=4), data=st.data())
def test_removing_allocations_in_any_order_restores_the_state(
    kept: list[tuple[AllocatedDevice, ...]], undone: list[tuple[AllocatedDevice, ...]], data: st.DataObject
) -> None:
    state = AllocatedState()
    for one in kept:
        state.add(one)
    before = in_use(state)
    for one in undone:
        state.add(one)
    for one in data.draw(st.permutations(undone)):
        state.remove(one)
    assert in_use(state) == before


def test_devices_held_with_admin_access_are_not_in_use() -> None:
    state = AllocatedState()
    state.add((AllocatedDevice("r", DeviceId("d", "p", "x"), admin_access=True),))
    assert in_use(state) == {}


def test_a_share_is_no_exclusive_use_and_its_capacity_is_summed() -> None:
    state = AllocatedState()
    share = AllocatedDevice("r", DeviceId("d", "p", "x"), shared=True, consumed=(("memory", 5),))
    state.add((share, share))
    use = state.pools[PoolId("d", "p")]
    assert (use.exclusive, use.shares, use.consumed) == ({}, {"x": 2}, {"x": {"memory": 10}})


def test_giving_back_what_was_not_taken_is_an_error() -> None:
    with pytest.raises(ValueError, match="more often"):
        AllocatedState().remove((AllocatedDevice("r", DeviceId("d", "p", "x")),))
