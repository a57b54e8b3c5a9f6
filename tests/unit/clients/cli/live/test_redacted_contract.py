"""Every present or future field of the contract: a redacted recording has none of its strings, prices and times."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.clients.cli.live.redaction import redact_file
from trimtab.clients.cli.live.redaction.tokens import redaction
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.v1 import plan_pb2, recording_pb2, snapshot_pb2
from trimtab.v1.options_pb2 import Redaction

CONTENTS = (
    plan_pb2.PlanRequest, plan_pb2.PlanResponse, plan_pb2.PlanSettings, plan_pb2.PlanState,
    snapshot_pb2.ClusterSnapshot, snapshot_pb2.SnapshotDelta,
)  # fmt: skip
"""The kinds of content of a recording."""


def texts(message: Message) -> set[str]:
    """Yield every string in a message."""
    found: set[str] = set()
    for field, value in message.ListFields():
        for one in (value.keys() if hasattr(value, "keys") else value) if field.is_repeated else (value,):
            if isinstance(one, str):
                found.add(one)
            elif isinstance(one, Message):
                found |= texts(one)
    return found


DRIVERS = ("DeviceTaintRule.driver", "TemplateSlice.driver")


def has_no_names(field: FieldDescriptor) -> bool:
    """Return whether a field contains no names of a cluster; every other string of the contract must be replaced."""
    name = f"{field.containing_type.name}.{field.name}"
    return redaction(field) == Redaction.KEPT or name in DRIVERS


class Filler:
    """Fills every field of every message, so no string of the contract is missed, including new ones."""

    def __init__(self) -> None:
        self.count = 0

    def name(self) -> str:
        """Return a string that represents a name, in one of the forms of names."""
        self.count += 1
        forms = (
            "zq{}",
            "zq{}.zq.example/zq{}",
            "zq{}__zq",
            "node-role.kubernetes.io/zq{}",
            "zq/zq{}/zq",
            "zq{}zq.k8s.io/x",
        )
        return forms[self.count % len(forms)].format(self.count, self.count)

    def fill(self, message: Message, depth: int = 0) -> Message:
        """Fill a message in place, down to some depth."""
        for field in message.DESCRIPTOR.fields:
            if field.containing_oneof is None or message.WhichOneof(field.containing_oneof.name) is None:
                self._fill_field(message, field, depth)
        columns = [field.name for field in message.DESCRIPTOR.fields if field.name.endswith("_lengths")]
        for lengths in columns:
            data, text = f"{lengths.removesuffix('_lengths')}s", self.name().replace("/", "-").encode()
            setattr(message, data, text)
            setattr(message, lengths, len(text).to_bytes(4, "little"))
        if isinstance(message, plan_pb2.Places):
            message.destinations.extend([1] * len(message.pods))
        if isinstance(message, snapshot_pb2.PodTable):
            message.count = 1
            message.namespace = (1).to_bytes(4, "little")
        return message

    def _fill_field(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        value = getattr(message, field.name)
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            entry = inner.fields_by_name["value"]
            if has_no_names(field):
                return
            if entry.message_type is not None:
                self.fill(value[self.name()], depth + 1)
            else:
                value[self.name()] = self.name() if entry.type == FieldDescriptor.TYPE_STRING else 1
        elif inner is not None and depth < 7:
            self.fill(value.add() if field.is_repeated else value, depth + 1)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if has_no_names(field):
                return
            if field.is_repeated:
                value.extend([self.name(), self.name()])
            else:
                setattr(message, field.name, self.name())


def filled_contents() -> list[Message]:
    """Return one of each kind of content of a recording, filled."""
    filler = Filler()
    return [filler.fill(kind()) for kind in CONTENTS]


def test_no_string_of_the_contract_is_forgotten(tmp_path: Path) -> None:
    contents = filled_contents()
    strings = {text for message in contents for text in texts(message) if "zq" in text}
    assert len(strings) > 100
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RecordingWriter(plain, recording_pb2.RecordingHeader(cluster="zq", comment="zq")) as writer:
        for message in contents:
            writer.write(message)  # type: ignore[arg-type]
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        reader = RecordingReader(str(redacted), opened)
        assert b"zq" not in reader.header.SerializeToString()
        frames = [frame for frame in reader]
    assert len(frames) == len(contents)
    for frame in frames:
        data = frame.SerializeToString()
        assert b"zq" not in data, re.findall(rb"[ -~]{0,20}zq[ -~]{0,20}", data)


NUMBERS_THAT_STAY = {
    "settings": (
        "BalanceSettings.max_allocatable_difference_ratio BalanceSettings.max_free_difference_ratio "
        "BalanceSettings.max_memory_difference_ratio NodeGroupSettings.gpu_utilization_threshold "
        "NodeGroupSettings.utilization_threshold ScaleDownSettings.gpu_utilization_threshold "
        "ScaleDownSettings.max_total_unready_percentage "
        "ScaleDownSettings.utilization_threshold SlackAmount.rate SlackPool.extra_capacity_min_rate "
        "SlackSettings.extra_capacity_min_rate SlackSettings.resize_threshold PodCostTerm.weight "
        "ReplacementSettings.min_balanced_score ReplacementSettings.min_saving_share "
        "ReplacementSettings.stability_margin"
    ),
    "prices for some strategies and expanders only": "PodCostTerm.threshold ExpanderScore.score",
    "ratios": (
        "UnneededNode.eviction_cost NodeVerdict.utilization ReplacedNode.eviction_cost "
        "ReplacementWave.eviction_cost ReplacementOption.eviction_cost ReplacementOption.balanced_score"
    ),
}
"""Numbers with a point that are the same in a redacted recording; all others of the contract may be prices."""
TIMES = {"PodTable.created": 1, "PodTable.deletion": 1, "NodeTimes.time_ns": 10**9, "FailedNodes.time_ns": 10**9}
"""Columns of times, with the number of their units in a second."""
YEAR_2022_S = 1_640_000_000


class Numbers:
    """Fills every time of every message, and every number with a point, with a unique one."""

    def __init__(self) -> None:
        self.count = YEAR_2022_S

    def fill(self, message: Any, depth: int = 0) -> Any:
        """Fill a message in place, down to some depth."""
        if isinstance(message, snapshot_pb2.ClusterSnapshot | snapshot_pb2.PodDictionary):
            message.strings.append("")
        for field in message.DESCRIPTOR.fields:
            name, inner = f"{field.containing_type.name}.{field.name}", field.message_type
            value = getattr(message, field.name)
            if inner is not None and inner.GetOptions().map_entry:
                entry = inner.fields_by_name["value"]
                if entry.message_type is not None:
                    self.fill(value["cpu"], depth + 1)
                elif entry.type == FieldDescriptor.TYPE_DOUBLE:
                    value["cpu"] = self.next()
            elif inner is not None and depth < 7:
                self.fill(value.add() if field.is_repeated else value, depth + 1)
            elif name in TIMES:
                setattr(message, field.name, np.array([self.next() * TIMES[name]], "<i8").tobytes())
            elif name == "Timestamp.seconds":
                message.seconds = self.next()
            elif field.type == FieldDescriptor.TYPE_DOUBLE and field.is_repeated:
                value.append(self.next())
            elif field.type == FieldDescriptor.TYPE_DOUBLE:
                setattr(message, field.name, self.next())
        return message

    def next(self) -> int:
        """Return an unused number."""
        self.count += 1
        return self.count


def numbers(message: Any) -> Iterator[tuple[str, float]]:
    """Yield the field and the value of every time in a message, and of every number with a point."""
    for field, value in message.ListFields():
        name, inner = f"{field.containing_type.name}.{field.name}", field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            for one in value.values():
                yield from numbers(one) if isinstance(one, Message) else [(name, one)]
        elif inner is not None:
            for one in value if field.is_repeated else (value,):
                yield from numbers(one)
        elif name in TIMES:
            yield from ((name, one // TIMES[name]) for one in np.frombuffer(value, "<i8").tolist())
        elif name == "Timestamp.seconds" or field.type == FieldDescriptor.TYPE_DOUBLE:
            yield from ((name, one) for one in (value if field.is_repeated else (value,)))


def test_no_price_and_no_time_of_the_contract_is_forgotten(tmp_path: Path) -> None:
    filler = Numbers()
    contents = [filler.fill(kind()) for kind in CONTENTS]
    before = {value for message in contents for _, value in numbers(message)}
    assert len(before) > 50
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RecordingWriter(plain) as writer:
        for message in contents:
            writer.write(message)
    redact_file(plain, redacted)
    survivors = set()
    with redacted.open("rb") as opened:
        for frame in RecordingReader(str(redacted), opened):
            survivors |= {name for name, value in numbers(frame) if value in before}
    assert survivors == {name for names in NUMBERS_THAT_STAY.values() for name in names.split()}
