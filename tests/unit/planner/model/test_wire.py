"""Entries encoded by hand equal those that protobuf writes."""

import pytest

from trimtab.planner.model.wire import entry, tag
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2
from trimtab.wire import varint


@pytest.mark.parametrize("size", [0, 1, 127, 128, 1023, 1024, 16_383, 16_384, 3_000_000])
def test_an_entry_is_what_protobuf_writes(size: int) -> None:
    text = "é" * (size // 2) + "e" * (size % 2)
    made = entry(tag(pb.SlackDecision, "problems"), text.encode())
    assert made == pb.SlackDecision(problems=[text]).SerializeToString()


def test_an_entry_of_a_field_of_a_large_number_is_what_protobuf_writes() -> None:
    made = entry(tag(snapshot_pb2.PodTable, "volume"), b"four")
    assert made == snapshot_pb2.PodTable(volume=b"four").SerializeToString()
    assert len(tag(snapshot_pb2.PodTable, "volume")) == 2


@pytest.mark.parametrize(("value", "written"), [(0, b"\0"), (300, b"\xac\x02"), (1 << 21, b"\x80\x80\x80\x01")])
def test_a_number_is_written_seven_bits_at_a_time(value: int, written: bytes) -> None:
    assert varint(value) == written
