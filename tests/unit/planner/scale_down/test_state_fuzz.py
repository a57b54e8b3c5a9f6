"""A state damaged in transit: the plan is still verified, and nothing raises."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from random import Random

import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.scale_down import NOW_S, Outcome, plan_message
from tests.builders.scale_down_loops import SETTINGS, STEP_S, ShrinkingCluster
from tests.builders.snapshots import int32
from trimtab.planner.placement.hints import LAYOUT_VERSION
from trimtab.v1 import plan_pb2, snapshot_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState

HINTS = ("source", "offsets", "pod", "destination")
COLUMNS = (
    ("unneeded", "node"), ("unneeded", "time_ns"),
    ("unremovable", "node"), ("unremovable", "time_ns"), ("unremovable", "reason"), ("unremovable", "blocking_reason"),
)  # fmt: skip


@cache
def lived(seed: int) -> tuple[snapshot_pb2.ClusterSnapshot, plan_pb2.ScaleDownState]:
    """Return a cluster after three loops, and the last state. Read-only; made on first use."""
    world, state = ShrinkingCluster(Random(seed)), None
    for loop in range(3):
        world.loop = loop
        found = plan_message(world.message(), SETTINGS, state, NOW_S + STEP_S * loop)
        world.live(found)
        state = found.state
    assert state is not None
    return world.message(), state


def answered(which: int, state: plan_pb2.ScaleDownState) -> Outcome:
    """Run the next loop, verified by the certificate; check that its answer and state can be written and read again."""
    message, _ = lived(which)
    found = plan_message(message, SETTINGS, state, NOW_S + 3 * STEP_S)
    MessageToDict(found.decision)
    plan_message(message, SETTINGS, found.state, NOW_S + 4 * STEP_S)
    return found


@given(st.integers(0, 3), st.lists(st.integers(0, 2**20), min_size=1, max_size=8))
@examples(150)
def test_flipped_bits_of_the_bytes_are_read_or_refused(which: int, flips: list[int]) -> None:
    data = bytearray(lived(which)[1].SerializeToString())
    for flip in flips:
        data[flip // 8 % len(data)] ^= 1 << flip % 8
    state = plan_pb2.ScaleDownState()
    try:
        state.ParseFromString(bytes(data))
    except DecodeError:
        return
    answered(which, state)


@given(st.integers(0, 3), st.sampled_from(COLUMNS), st.data())
@examples(150)
def test_columns_of_any_content_are_read_or_counted_as_absent(
    which: int, column: tuple[str, str], data: st.DataObject
) -> None:
    state = plan_pb2.ScaleDownState()
    state.CopyFrom(lived(which)[1])
    table = getattr(state, column[0])
    length = len(getattr(table, column[1]))
    # Mostly of the right length, because another length is refused at once.
    content = data.draw(st.binary(min_size=length, max_size=length) | st.binary(max_size=64))
    setattr(table, column[1], content)
    answered(which, state)


@contextmanager
def opaque_of(state: plan_pb2.ScaleDownState) -> Iterator[OpaqueState]:
    """Change the opaque part of a state."""
    opaque = OpaqueState.FromString(state.opaque)
    yield opaque
    state.opaque = opaque.SerializeToString()


def copied(which: int) -> plan_pb2.ScaleDownState:
    state = plan_pb2.ScaleDownState()
    state.CopyFrom(lived(which)[1])
    return state


@given(st.integers(0, 3), st.sampled_from(HINTS), st.data())
@examples(150)
def test_hints_of_any_content_are_read_or_dropped(which: int, column: str, data: st.DataObject) -> None:
    state = copied(which)
    with opaque_of(state) as opaque:
        length = len(getattr(opaque.hints, column))
        setattr(opaque.hints, column, data.draw(st.binary(min_size=length, max_size=length) | st.binary(max_size=64)))
    assert_timers_continue(which, state)


@given(st.integers(0, 3), st.binary(max_size=64), st.integers(0, 2**20), st.integers(-1, 5))
@examples(150)
def test_an_opaque_part_of_any_bytes_and_layout_costs_no_timer(
    which: int, noise: bytes, place: int, layout: int
) -> None:
    state = copied(which)
    at = place % (len(state.opaque) + 1)
    opaque = state.opaque[:at] + noise + state.opaque[at + len(noise) :]
    # The last value of a field counts.
    state.opaque = opaque + OpaqueState(layout_version=layout).SerializeToString()
    assert_timers_continue(which, state)


def assert_timers_continue(which: int, state: plan_pb2.ScaleDownState) -> None:
    """Check that nodes that are unneeded, and were, are so since the same time."""
    before = lived(which)[1]
    nodes = [before.strings[at] for at in np.frombuffer(before.unneeded.node, "<i4")]
    since_ns = dict(zip(nodes, np.frombuffer(before.unneeded.time_ns, "<i8").tolist(), strict=True))
    found = answered(which, state)
    for entry in found.going:
        if entry.node in since_ns:
            assert entry.since.ToNanoseconds() == since_ns[entry.node]
    assert not any("starting with empty state" in note for note in found.notes)


ANY = st.integers(-(2**31), 2**31 - 1)


@given(st.integers(0, 3), ANY, ANY, ANY)
@examples(60)
def test_pointers_of_any_value_are_read_or_counted_as_absent(which: int, start: int, resume: int, fewer: int) -> None:
    state = copied(which)
    with opaque_of(state) as opaque:
        opaque.search_start, opaque.resume_at, opaque.fewer_placeholders = start, resume, fewer
    assert_timers_continue(which, state)


def in_times(state: plan_pb2.ScaleDownState, value: int) -> None:
    for table in (state.unneeded, state.unremovable, state.later_waves):
        table.time_ns = value.to_bytes(8, "little", signed=True) * (len(table.time_ns) // 8)


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 1, 2**63 - 1])
def test_times_that_cannot_be_count_as_now(value: int) -> None:
    message, state = lived(0)
    damaged = plan_pb2.ScaleDownState()
    damaged.CopyFrom(state)
    in_times(damaged, value)
    found = plan_message(message, SETTINGS, damaged, NOW_S + 3 * STEP_S)
    assert found.unneeded
    wanted = {0} if value == 1 else {NOW_S + 3 * STEP_S}
    assert {entry.since.seconds for entry in found.going} == wanted


@pytest.mark.parametrize("layout", [LAYOUT_VERSION + 1, LAYOUT_VERSION - 1, 0])
def test_an_opaque_part_of_another_layout_is_dropped_with_a_note_and_the_timers_continue(layout: int) -> None:
    state = copied(0)
    with opaque_of(state) as opaque:
        opaque.layout_version = layout
    found = answered(0, state)
    assert found.notes == (
        f"the opaque part of the scale-down state was dropped (its layout is {layout}, not {LAYOUT_VERSION}): "
        "timers continue, searches start anew",
    )
    assert OpaqueState.FromString(found.state.opaque).layout_version == LAYOUT_VERSION
    assert {entry.since.seconds for entry in found.going} == {NOW_S}
    assert_timers_continue(0, state)


def test_a_state_with_fields_of_a_later_day_is_read() -> None:
    _, state = lived(0)
    # Field 900, an unknown number.
    extended = plan_pb2.ScaleDownState.FromString(state.SerializeToString() + b"\xa0\x38\x01")
    assert extended != state
    assert answered(0, extended).unneeded == answered(0, state).unneeded


@pytest.mark.parametrize(
    ("sources", "offsets", "note"),
    [
        pytest.param((1, 2, 3, 4), (0, 2**31 - 1, -(2**31), -2, 2), "hints.offsets[1]", id="differences that wrap"),
        pytest.param((1, 2), (0, 3, 2), "hints.offsets[1]", id="beyond the entries"),
        pytest.param((1, 2), (0, 2, 1), "hints.offsets[1]", id="falling"),
        pytest.param((1, 2), (1, 1, 2), "hints.offsets[0]", id="not from 0"),
        pytest.param((1, 2), (0, 2), "hints.offsets", id="too few"),
        pytest.param((1, 1), (0, 1, 2), "hints.source names a node twice", id="a source twice"),
    ],
)
def test_hints_that_would_be_read_past_their_end_are_refused_as_a_whole(
    sources: tuple[int, ...], offsets: tuple[int, ...], note: str
) -> None:
    message, _ = lived(0)
    names = [node.name for node in message.nodes]
    state = plan_pb2.ScaleDownState(strings=["", *names])
    with opaque_of(state) as opaque:
        opaque.layout_version = LAYOUT_VERSION
        opaque.hints.source, opaque.hints.offsets = int32(sources), int32(offsets)
        opaque.hints.pod, opaque.hints.destination = int32((7, 7)), int32((1, 1))
    (said,) = plan_message(message, SETTINGS, state, NOW_S + 3 * STEP_S).notes
    assert note in said
