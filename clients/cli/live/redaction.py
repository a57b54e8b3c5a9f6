"""A recording without its names: every decision over it stays what it was.

Names, uids, label keys and values, resources, addresses: every string but well-known ones is replaced, the same one by
the same token everywhere, and names in the same order as before, since ties are broken by name. Kept are strings that
mean something to the planner: Kubernetes' own label and taint keys and domains, `kube-system` and the like, and
integers if some selector compares them. Texts for people and the planner's own digests are left out. Decides nothing
about a cluster.

The file is read twice: first for all strings, then to write it anew.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from trimtab.v1 import plan_pb2, recording_pb2
from trimtab.v1 import snapshot_pb2 as pb

from clients.recording import RecordingReader, RecordingWriter

Replace = Callable[[str], str]

# fmt: off
KEPT = frozenset((
    "", "0", "A", "a", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler", "metadata.name",
    "TCP", "UDP", "SCTP", "0.0.0.0", "::", "true", "false", "amd64", "arm64", "linux", "windows",
    "cpu", "memory", "pods", "ephemeral-storage", "gpu", "cloud.google.com", "gke-accelerator",
    "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler",
    "ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "ReplicationController", "Job",
    # Domains of keys; what follows a domain is replaced, but in the keys below.
    "kubernetes.io", "k8s.io", "topology.kubernetes.io", "failure-domain.beta.kubernetes.io", "beta.kubernetes.io",
    "node.kubernetes.io", "node-role.kubernetes.io", "node-restriction.kubernetes.io", "app.kubernetes.io",
    "node.cloudprovider.kubernetes.io", "cluster-autoscaler.kubernetes.io",
    "startup-taint.cluster-autoscaler.kubernetes.io", "status-taint.cluster-autoscaler.kubernetes.io",
    "ignore-taint.cluster-autoscaler.kubernetes.io",
    "apps.kubernetes.io", "statefulset.kubernetes.io", "batch.kubernetes.io",
))
# fmt: on
"""Strings without meaning to anybody but Kubernetes and the planner."""
_KEYS = {
    "kubernetes.io": "hostname os arch metadata.name",
    "topology.kubernetes.io": "zone region",
    "failure-domain.beta.kubernetes.io": "zone region",
    "beta.kubernetes.io": "os arch instance-type",
    "node.kubernetes.io": "instance-type not-ready unreachable unschedulable memory-pressure disk-pressure pid-pressure"
    " network-unavailable out-of-service",
    "node-role.kubernetes.io": "control-plane master worker",
    "node.cloudprovider.kubernetes.io": "uninitialized shutdown",
    "app.kubernetes.io": "name instance version component part-of managed-by",
    "apps.kubernetes.io": "pod-index",
    "statefulset.kubernetes.io": "pod-name",
    "batch.kubernetes.io": "job-name controller-uid job-completion-index",
    "cloud.google.com": "gke-accelerator",
}
KEPT_KEYS = frozenset(f"{domain}/{word}" for domain, words in _KEYS.items() for word in words.split())
"""Keys that Kubernetes gives its meaning."""
INTEGER = re.compile(r"-?[0-9]+")
_OWN_DOMAIN = ".kubernetes.io"
"""Resources of domains below it count as Kubernetes' own: the token of such a domain ends so too."""
_COMPARING = (pb.LabelOperator.GT, pb.LabelOperator.LT)
# fmt: off
_UNTOUCHED = frozenset((
    "PodSpec.unsupported", "Owner.kind", "Owner.api_version", "PodDisruptionBudget.min_available",
    "PodDisruptionBudget.max_unavailable", "ScaleUpSettings.expanders", "PodCostTarget.owner_kinds",
    "PodCostStrategy.strategy", "SlackSettings.granularity", "SlackSettings.strategy", "StageTime.stage",
    "PlanRequest.base_version", "PlanRequest.state_version", "PlanResponse.snapshot_version",
    "PlanResponse.state_version", "UnremovableNode.failed_predicates", "Placeholder.kind",
    "NodeAssumption.pods_to_move_digest",
))
# fmt: on
"""Fields whose strings are no names of this cluster."""
_CLEARED = ("detail", "notes", "comment", "hints", "basis")
_STARTS = ("", "0", "A", "a")
"""Anchors that there are always: below each kind of first character that a valid string may have."""
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""What Kubernetes takes for a label's value or the name in its key, and for what stands before the key's slash."""
_PARTED = re.compile(r"[^/]+")
_WORDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]*")


def redact_file(source: Path, target: Path) -> None:
    """Write `source`, a recording, to `target` without its names. Errors: RecordingError."""
    strings: set[str] = set()
    compares = False

    def collect(text: str) -> str:
        strings.update(_atoms(text))
        return text

    with source.open("rb") as opened:
        reader = RecordingReader(str(source), opened)
        for message in _contents(reader):
            compares = compares or _compares_integers(message)
            _walk(message, collect)
    tokens = tokens_of(strings, compares)
    uids: dict[str, str] = {}
    with source.open("rb") as opened:
        reader = RecordingReader(str(source), opened)
        header = recording_pb2.RecordingHeader(create_time=reader.header.create_time, redacted=True)
        header.producer = reader.header.producer
        last = plan_pb2.PlanState()
        with RecordingWriter(target, header) as writer:
            for message in _contents(reader):
                goes_on = isinstance(message, plan_pb2.PlanRequest) and message.state == last
                if isinstance(message, plan_pb2.PlanResponse):
                    last = plan_pb2.PlanState()
                    last.CopyFrom(message.state)
                redact(message, tokens, uids)
                if goes_on:
                    _name_state(message)
                writer.write(message)


def redact(message: Any, tokens: dict[str, str], uids: dict[str, str]) -> None:
    """Replace all strings of a frame's content. `uids`: new pod to new uid, carried from frame to frame."""
    _walk(message, lambda text: _replaced(text, tokens))
    if isinstance(message, pb.ClusterSnapshot):
        uids.clear()
        uids.update(_uids(message))
    elif isinstance(message, pb.SnapshotDelta):
        for pod in message.deleted_pods:
            uids.pop(pod, None)
        uids.update(_uids(message.changed))
    elif isinstance(message, plan_pb2.PlanResponse):
        for node in message.scale_down.unneeded:
            _redo_digest(node, uids)


def _name_state(request: plan_pb2.PlanRequest) -> None:
    """Name the state of the last answer instead of giving it: who replays has it, with hints that are its own."""
    if request.HasField("state"):
        request.ClearField("state")
        request.state_version = request.state_version or "redacted"


def tokens_of(strings: Iterable[str], keep_integers: bool = False) -> dict[str, str]:
    """Return the token of each string that has one: kept strings themselves, and all without a slash.

    The order of tokens without a slash, bytewise, is that of their strings: a token is the greatest anchor below (a
    kept string), "-" (which sorts before all else that names are made of), and a number. What may stand in a label, or
    before the slash of its key, may do so afterwards, and what may not, may not. Strings with a slash are put together
    from the tokens of their parts.
    """
    ordered = sorted(set(strings), key=str.encode)
    tokens = {
        text: text
        for text in ordered
        if text in KEPT or text in KEPT_KEYS or (keep_integers and INTEGER.fullmatch(text))
    }
    plain = [text for text in ordered if "/" not in text]
    anchors = sorted({*_STARTS, *(text for text in plain if text in tokens and text[:1] != "-")}, key=str.encode)
    anchor_bytes = [text.encode() for text in anchors]
    width = len(str(len(plain)))
    for rank, text in enumerate(plain):
        if text not in tokens:
            anchor = anchors[bisect_right(anchor_bytes, text.encode()) - 1]
            tokens[text] = f"{anchor}{'-' if anchor else '!'}{rank:0{width}}{_ending(text)}"
    return tokens


def _ending(text: str) -> str:
    """Return what keeps a token as valid as its string, and a domain below Kubernetes' own there."""
    if text.endswith(_OWN_DOMAIN) and _DOMAIN.fullmatch(text):
        return _OWN_DOMAIN
    if _DOMAIN.fullmatch(text):
        return ""
    return "_0" if _NAME.fullmatch(text) else "!"


def _compares_integers(message: Message) -> bool:
    """Say whether a selector somewhere in a message compares integers."""
    if isinstance(message, pb.LabelRequirement):
        return message.operator in _COMPARING
    return any(
        _compares_integers(one)
        for field, value in message.ListFields()
        if field.message_type is not None and not field.message_type.GetOptions().map_entry
        for one in (value if field.is_repeated else (value,))
    )


def _contents(reader: RecordingReader) -> Iterator[Any]:
    for frame in reader:
        which = frame.WhichOneof("frame")
        if which is not None:
            yield getattr(frame, which)


def _atoms(text: str) -> Iterator[str]:
    """The strings that a field may be put together from: itself, the parts of "namespace/name", of "a__b"."""
    yield text
    if "/" in text:
        yield from _PARTED.findall(text)
    if "__" in text:
        yield from text.split("__")


def _replaced(text: str, tokens: dict[str, str]) -> str:
    """Return a string's replacement: zones part by part; keys of pods part by part where the parts are names."""
    if "__" in text and "/" not in text:
        return "__".join(tokens[part] for part in text.split("__"))
    if text in tokens:
        return tokens[text]
    return _PARTED.sub(lambda part: tokens[part[0]], text)


def _walk(message: Message, replace: Replace) -> None:
    """Put every string through `replace`, in place, and clear what is for people."""
    kind = message.DESCRIPTOR.name
    if isinstance(message, pb.PodTable):
        _walk_texts(message, replace)
    for field, value in message.ListFields():
        if field.name in _CLEARED:
            message.ClearField(field.name)
        elif f"{kind}.{field.name}" not in _UNTOUCHED:
            _walk_field(message, field, value, replace)


def _walk_field(message: Message, field: FieldDescriptor, value: Any, replace: Replace) -> None:
    """Put the strings of one field through `replace`."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _walk_map(field, value, replace, inner.fields_by_name["value"].message_type is not None)
    elif inner is not None:
        for one in value if field.is_repeated else (value,):
            _walk(one, replace)
    elif field.type != FieldDescriptor.TYPE_STRING:
        return
    elif field.is_repeated:
        value[:] = [replace(text) for text in value]
    elif field.name == "selector":  # in kubectl's notation
        setattr(message, field.name, _WORDS.sub(lambda word: replace(word[0]), value))
    else:
        setattr(message, field.name, replace(value))


def _walk_map(field: FieldDescriptor, value: Any, replace: Replace, is_message: bool) -> None:
    """Replace the keys of a map, and its values where they are names: `destinations` alone has such."""
    entries = dict(value.items())
    value.clear()
    for key, item in entries.items():
        if is_message:
            value[replace(key)].CopyFrom(item)
        elif field.name in ("destinations", "node_labels"):
            value[replace(key)] = replace(item)
        else:
            value[replace(key)] = item


def _walk_texts(table: pb.PodTable, replace: Replace) -> None:
    """Replace names and uids of pods."""
    for data, lengths in (("names", "name_lengths"), ("uids", "uid_lengths")):
        texts = [replace(text).encode() for text in _texts(getattr(table, data), getattr(table, lengths))]
        setattr(table, data, b"".join(texts))
        setattr(table, lengths, np.array([len(text) for text in texts], dtype="<i4").tobytes())


def _texts(data: bytes, lengths: bytes) -> list[str]:
    ends = np.cumsum(np.frombuffer(lengths, dtype="<i4"), dtype=np.int64).tolist()
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]


def _uids(snapshot: pb.ClusterSnapshot) -> dict[str, str]:
    """Return the uid of each pod of a snapshot, by "namespace/name"."""
    table = snapshot.pods
    spaces = [snapshot.strings[index] for index in np.frombuffer(table.namespace, dtype="<i4").tolist()]
    names, uids = _texts(table.names, table.name_lengths), _texts(table.uids, table.uid_lengths)
    return {f"{space}/{name}": uid for space, name, uid in zip(spaces, names, uids, strict=True)}


def _redo_digest(node: plan_pb2.UnneededNode, uids: dict[str, str]) -> None:
    """Make the digest of the pods to be moved anew, of their new uids, as `NodeAssumption` defines it."""
    moved = sorted(uids[pod] for pod in node.destinations if pod in uids)
    if node.assumption.pods_to_move_digest:
        text = "".join(uid + "\n" for uid in moved)
        node.assumption.pods_to_move_digest = hashlib.sha256(text.encode()).hexdigest()[:16]
