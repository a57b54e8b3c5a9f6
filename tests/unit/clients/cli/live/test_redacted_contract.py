"""Every present or future field of the contract: a redacted recording has neither its strings nor its numbers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from trimtab.clients.cli.live.redaction import redact_file
from trimtab.clients.recording import RecordingReader, RecordingWriter
from trimtab.v1 import plan_pb2, recording_pb2, snapshot_pb2


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


NO_NAMES = {
    "UnremovableNode.failed_predicates": "words of ours",
    "NodeAssumption.pods_to_move_digest": "a digest, made again",
    "DecisionSummary.result": "a word of ours",
    "DecisionSummary.counts": "words of ours",
}
"""Fields that contain no names of a cluster; every other string of the contract must be replaced."""


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
        if isinstance(message, snapshot_pb2.PodTable):
            message.count = 1
            for data, lengths in (("names", "name_lengths"), ("uids", "uid_lengths")):
                text = self.name().replace("/", "-").encode()
                setattr(message, data, text)
                setattr(message, lengths, len(text).to_bytes(4, "little"))
            message.namespace = (1).to_bytes(4, "little")
        return message

    def _fill_field(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        value = getattr(message, field.name)
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            entry = inner.fields_by_name["value"]
            if f"{message.DESCRIPTOR.name}.{field.name}" in NO_NAMES:
                return
            if entry.message_type is not None:
                self.fill(value[self.name()], depth + 1)
            else:
                value[self.name()] = self.name() if entry.type == FieldDescriptor.TYPE_STRING else 1
        elif inner is not None and depth < 7:
            self.fill(value.add() if field.is_repeated else value, depth + 1)
        elif field.type == FieldDescriptor.TYPE_STRING:
            if f"{message.DESCRIPTOR.name}.{field.name}" in NO_NAMES:
                return
            if field.is_repeated:
                value.extend([self.name(), self.name()])
            else:
                setattr(message, field.name, self.name())


def filled_contents() -> list[Message]:
    """Return one of each kind of content of a recording, filled."""
    filler = Filler()
    kinds = (
        snapshot_pb2.ClusterSnapshot, snapshot_pb2.SnapshotDelta, plan_pb2.PlanRequest, plan_pb2.PlanResponse,
        plan_pb2.PlanSettings, plan_pb2.PlanState,
    )  # fmt: skip
    return [filler.fill(kind()) for kind in kinds]


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
    "counts": (
        "PodTable.count NodeGroup.min_size NodeGroup.max_size NodeGroup.target_size Owner.desired_replicas "
        "Owner.current_replicas AttachLimit.count TopologySpreadConstraint.max_skew "
        "TopologySpreadConstraint.min_domains PodDisruptionBudgetStatus.disruptions_allowed "
        "PodDisruptionBudgetStatus.current_healthy PodDisruptionBudgetStatus.desired_healthy "
        "PodDisruptionBudgetStatus.expected_pods SlackRequest.replicas SlackRequest.percentage SlackRequest.scale"
    ),
    "ratings of pods": (
        "PodSpec.priority PodTable.deletion_cost PodTable.number WeightedPodAffinityTerm.weight PodCostGroup.costs "
        "PodCostShare.own_ranks PodCostGroup.target Owner.revision"
    ),
    "fractions of seconds": "Timestamp.nanos",
    "durations": "PodSpec.termination_grace_period_s PodSpec.topology_spread_timeout_s PodSpec.scale_up_delay_s "
    "Duration.seconds Duration.nanos",
    "settings": (
        "PlanRequest.seed ScaleDownSettings.* NodeGroupSettings.* PlannerSettings.* "
        "BalanceSettings.* SlackSettings.* SlackPool.* SlackAmount.rate ScaleUpSettings.* "
        "PriorityRank.rank CheapestPlanExpanderSettings.max_improvements PodCostTerm.weight PodCostTerm.threshold"
    ),
    "what an answer counts": (
        "Diagnostics.* DecisionSummary.counts ScaleDownDecision.* NodeAssumption.pods_to_move_count SlackObject.* "
        "ScaleUpSplit.current_size ScaleUpSplit.new_size ScaleUpSplit.max_size ScaleUpOption.choice "
        "ScaleUpOption.node_count ScaleUpOption.pod_count ScaleUpDecision.evaluated ScaleUpDecision.not_evaluated "
        "ExpanderScore.score PodCostShare.ranks "
        "UnneededNode.utilization UnneededNode.eviction_cost UnremovableNode.utilization "
        "UnremovableNode.failed_predicates"
    ),
    "a ratio of savings": "ScaleDownState.headroom",
    "how many nodes of a plan": "ScaleDownState.fewer_placeholders",
    "how often something was undone, and among how many pods": "UndoneDrains.pod_count UndoneDrains.times",
    "the layout of a state": " ".join(
        f"{field.message_type.name}.layout_version" for field in plan_pb2.PlanState.DESCRIPTOR.fields
    ),
}
"""Numbers that are the same in a redacted recording."""
# fmt: off
INDICES = frozenset((
    "LabelPair.key", "LabelPair.value", "LabelRequirement.key", "LabelRequirement.values", "Taint.key",
    "Taint.value", "Toleration.key", "Toleration.value", "HostPort.protocol", "HostPort.host_ip",
    "PodAffinityTerm.namespaces", "PodAffinityTerm.topology_key", "TopologySpreadConstraint.topology_key",
    "TopologySpreadConstraint.match_label_keys", "Volume.driver", "Volume.handle", "AttachLimit.driver",
    "PodSpec.scheduler_name", "PodSpec.exclusive_disks", "PodSpec.read_only_disks", "Node.label_set",
    "Namespace.label_set", "RecentEviction.spec", "RecentEviction.label_set", "ResourceAmount.resource",
    "ScaleDownState.search_start", "ScaleDownState.resume_at", "Placeholder.spec", "Placeholder.label_set",
    "NodeTemplate.label_set", "TemplatePod.spec", "TemplatePod.label_set",
    "SlackRequest.spec", "SlackRequest.label_set",
))
# fmt: on
"""Numbers that are indices into a dictionary."""
COLUMNS = {
    "PodTable.created": "<i8", "PodTable.deletion": "<i8", "NodeTimes.time_ns": "<i8", "FailedNodes.time_ns": "<i8",
    "PodTable.deletion_cost": "<i4", "PodTable.number": "<f8",
}  # fmt: skip


class Numbers:
    """Fills every number of every message with a unique one, or lists the present ones."""

    def __init__(self) -> None:
        self.count = 700_000_001

    def fill(self, message: Any, depth: int = 0) -> Any:
        """Fill a message in place, down to some depth."""
        if isinstance(message, snapshot_pb2.ClusterSnapshot | snapshot_pb2.PodDictionary):
            message.resources.extend(["cpu"])
            message.strings.append("")
        for field in message.DESCRIPTOR.fields:
            name, inner = f"{field.containing_type.name}.{field.name}", field.message_type
            value = getattr(message, field.name)
            if inner is not None and inner.GetOptions().map_entry:
                entry = inner.fields_by_name["value"]
                if entry.message_type is not None:
                    self.fill(value["cpu"], depth + 1)
                elif entry.type in _NUMERIC:
                    value["cpu"] = self.next()
            elif inner is not None and depth < 7:
                self.fill(value.add() if field.is_repeated else value, depth + 1)
            elif name in COLUMNS:
                setattr(message, field.name, np.array([self.next()], COLUMNS[name]).tobytes())
            elif name == "ResourceLimit.resource":
                message.resource = "cpu"
            elif field.type in _NUMERIC and name not in INDICES:
                numbers = [self.next(), self.next()] if field.is_repeated else [self.next()]
                if field.is_repeated:
                    value.extend(numbers[:1])
                else:
                    setattr(message, field.name, numbers[0])
        return message

    def next(self) -> int:
        """Return an unused number that has no common divisor with many others."""
        self.count += 14
        return self.count


_NUMERIC = frozenset(
    (
        FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64,
    )
)  # fmt: skip


def numbers(message: Any) -> Iterator[tuple[str, float]]:
    """Yield the field and the value of every number in a message."""
    for field, value in message.ListFields():
        name, inner = f"{field.containing_type.name}.{field.name}", field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            if inner.fields_by_name["value"].enum_type is None:
                for one in value.values():
                    yield from numbers(one) if isinstance(one, Message) else [(name, one)]
        elif inner is not None:
            for one in value if field.is_repeated else (value,):
                yield from numbers(one)
        elif name in COLUMNS:
            yield from ((name, one) for one in np.frombuffer(value, COLUMNS[name]).tolist())
        elif field.type in _NUMERIC and name not in INDICES:
            yield from ((name, one) for one in (value if field.is_repeated else (value,)))


def test_no_number_survives_but_those_that_are_known_to(tmp_path: Path) -> None:
    filler = Numbers()
    kinds = (
        snapshot_pb2.ClusterSnapshot, snapshot_pb2.SnapshotDelta, plan_pb2.PlanRequest, plan_pb2.PlanResponse,
        plan_pb2.PlanSettings, plan_pb2.PlanState,
    )  # fmt: skip
    contents = [filler.fill(kind()) for kind in kinds]
    before = {value for message in contents for _, value in numbers(message)}
    assert len(before) > 100
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RecordingWriter(plain) as writer:
        for message in contents:
            writer.write(message)
    redact_file(plain, redacted)
    survivors = set()
    with redacted.open("rb") as opened:
        for frame in RecordingReader(str(redacted), opened):
            survivors |= {name for name, value in numbers(frame) if value in before}
    allowed = {name for names in NUMBERS_THAT_STAY.values() for name in names.split()}
    assert {name for name in survivors if name not in allowed and f"{name.partition('.')[0]}.*" not in allowed} == set()
    assert allowed == {name if name in allowed else f"{name.partition('.')[0]}.*" for name in survivors}
