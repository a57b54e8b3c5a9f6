"""The token of each string of a recording: equal strings have equal tokens, in the order of the strings. Decides which
strings stay: those with a meaning to Kubernetes or the planner. Never reads a message. Everything else is replaced,
including integers; integers that a selector compares become others in the same order (`integers`).
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from trimtab.common.kubernetes.signals import cluster_autoscaler
from trimtab.v1 import options_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.options_pb2 import Redaction

# fmt: off
KEPT = frozenset((
    "", "0", "A", "a", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler", "metadata.name",
    "TCP", "UDP", "SCTP", "0.0.0.0", "::", "true", "false", "amd64", "arm64", "linux", "windows",
    "cpu", "memory", "pods", "ephemeral-storage", "gpu", "cloud.google.com", "gke-accelerator",
    cluster_autoscaler.TO_BE_DELETED.key, cluster_autoscaler.DELETION_CANDIDATE.key,
    "ReplicaSet", "StatefulSet", "Deployment", "DaemonSet", "ReplicationController", "Job", "v1", "apps", "batch",
    "check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
    "PodGroup", "PodGroup.scheduling.volcano.sh", "Workload", "Pod", "deviceclass.resource.kubernetes.io",
    # Domains of keys; the part after a domain is replaced, except in the keys below.
    "kubernetes.io", "k8s.io", "topology.kubernetes.io", "failure-domain.beta.kubernetes.io", "beta.kubernetes.io",
    "node.kubernetes.io", "node-role.kubernetes.io", "node-restriction.kubernetes.io", "app.kubernetes.io",
    "node.cloudprovider.kubernetes.io", "cluster-autoscaler.kubernetes.io",
    "startup-taint.cluster-autoscaler.kubernetes.io", "status-taint.cluster-autoscaler.kubernetes.io",
    "ignore-taint.cluster-autoscaler.kubernetes.io",
    "apps.kubernetes.io", "statefulset.kubernetes.io", "batch.kubernetes.io",
))
# fmt: on
"""Strings that Kubernetes or the planner knows."""
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
"""Keys that Kubernetes knows."""
_OWN_DOMAIN = ".kubernetes.io"
"""Resources of its subdomains count as Kubernetes' own, so the token of such a domain has the same ending."""
_STARTS = ("", "0", "A", "a")
"""Anchors that always exist: one below each kind of first character that a valid string may have."""
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""Values of labels and names in their keys; and the part before the slash of a key."""
_PARTED = re.compile(r"[^/]+")
_NEW_NODE = re.compile(r"([^#]+)(#(?:[0-9]+|upcoming))")
"""Name of a node that does not exist, as `Places.nodes` has it: a node group, and which of its new nodes."""


def tokens_of(
    strings: Iterable[str], integers: Mapping[str, str] | None = None, nodes: Iterable[str] = ()
) -> dict[str, str]:
    """Return the token of each string that has one: kept strings, and all strings without a slash. integers : compared
    integers with their tokens; nodes : names of nodes, whose tokens are readable (`node-1`) and in the order of the
    names, but not in that of other strings: names of nodes are compared with one another only.

    The order of tokens without a slash, bytewise, is that of their strings: a token is that of the greatest anchor
    below (a kept string or an integer), "-" (which sorts before all other characters of names), and a number. A token
    is as valid in a label, and before the slash of its key, as its string. Strings with a slash consist of the tokens
    of their parts.
    """
    ordered = sorted(set(strings), key=str.encode)
    known = integers or {}
    tokens = {text: known.get(text, text) for text in ordered if text in KEPT or text in KEPT_KEYS or text in known}
    plain = [text for text in ordered if "/" not in text]
    anchors = sorted({*_STARTS, *(text for text in plain if text in tokens and text[:1] not in "-+")}, key=str.encode)
    anchor_bytes = [text.encode() for text in anchors]
    width = len(str(len(plain)))
    tokens.update(_nodes(nodes, tokens))
    for rank, text in enumerate(plain):
        if text not in tokens:
            anchor = anchors[bisect_right(anchor_bytes, text.encode()) - 1]
            start = f"{tokens.get(anchor, anchor)}-" if anchor else "!"
            tokens[text] = f"{start}{rank:0{width}}{_ending(text)}"
    return tokens


def _nodes(names: Iterable[str], tokens: Mapping[str, str]) -> dict[str, str]:
    """Return the tokens of nodes; none if one of them has a token already, which would break their order."""
    ordered = sorted(set(names), key=str.encode)
    if any(name in tokens or "/" in name for name in ordered):
        return {}
    width = len(str(len(ordered)))
    return {name: f"node-{rank:0{width}}{_ending(name)}" for rank, name in enumerate(ordered, 1)}


def atoms(text: str) -> Iterator[str]:
    """Yield the strings that need tokens for a text: itself, the parts of "namespace/name", of "a__b"; of the name of a
    new node, those of its node group.
    """
    if new := _NEW_NODE.fullmatch(text):
        text = new[1]
    yield text
    if "/" in text:
        yield from _PARTED.findall(text)
    if "__" in text:
        yield from text.split("__")


def replaced(text: str, tokens: Mapping[str, str]) -> str:
    """Return a text's replacement: zones part by part; keys of pods part by part where the parts are names; new nodes
    are named by their node group again.
    """
    if new := _NEW_NODE.fullmatch(text):
        return replaced(new[1], tokens) + new[2]
    if "__" in text and "/" not in text:
        return "__".join(tokens[part] for part in text.split("__"))
    if text in tokens:
        return tokens[text]
    return _PARTED.sub(lambda part: tokens[part[0]], text)


def _ending(text: str) -> str:
    """Return the ending that keeps a token as valid as its string, and a subdomain of Kubernetes' domain within it."""
    if text.endswith(_OWN_DOMAIN) and _DOMAIN.fullmatch(text):
        return _OWN_DOMAIN
    if _DOMAIN.fullmatch(text):
        return ""
    return "_0" if _NAME.fullmatch(text) else "!"


Replace = Callable[[str], str]

REDACTED = "redacted"
_AMOUNT = re.compile(r"[0-9]+%?")
"""Readable values of amounts; unreadable ones may contain anything."""


@cache
def redaction(field: FieldDescriptor) -> int:
    """Return what the contract says of a field: a `Redaction.Code`."""
    return int(field.GetOptions().Extensions[options_pb2.redaction])


def walk(message: Message, replace: Replace) -> None:
    """Pass every string through `replace`, in place, and clear the fields that are left out."""
    for lengths in _columns_of_lengths(message.DESCRIPTOR):
        _walk_texts(message, f"{lengths.removesuffix('_lengths')}s", lengths, replace)
    for field, value in message.ListFields():
        treatment = redaction(field)
        if treatment == Redaction.LEFT_OUT:
            message.ClearField(field.name)
        elif treatment == Redaction.PRESENCE or (treatment == Redaction.AMOUNT and not _AMOUNT.fullmatch(value)):
            setattr(message, field.name, REDACTED)
        elif treatment == Redaction.UNSPECIFIED:
            _walk_field(message, field, value, replace)


@cache
def _columns_of_lengths(kind: Descriptor) -> tuple[str, ...]:
    """Return the columns with the lengths of texts: those of "name_lengths" are in "names"."""
    return tuple(field.name for field in kind.fields if field.name.endswith("_lengths"))


def _walk_field(message: Message, field: FieldDescriptor, value: Any, replace: Replace) -> None:
    """Pass the strings of one field through `replace`."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _walk_map(field, value, replace, inner.fields_by_name["value"].message_type is not None)
    elif inner is not None:
        for one in value if field.is_repeated else (value,):
            walk(one, replace)
    elif field.type != FieldDescriptor.TYPE_STRING:
        return
    elif field.is_repeated:
        value[:] = [replace(text) for text in value]
    else:
        setattr(message, field.name, replace(value))


def _walk_map(field: FieldDescriptor, value: Any, replace: Replace, is_message: bool) -> None:
    """Replace the keys of a map, and its values if they are names."""
    entries = dict(value.items())
    value.clear()
    for key, item in entries.items():
        if is_message:
            value[replace(key)].CopyFrom(item)
        elif field.name in ("match_labels",):
            value[replace(key)] = replace(item)
        else:
            value[replace(key)] = item


def _walk_texts(table: Message, data: str, lengths: str, replace: Replace) -> None:
    """Replace the texts of a column. data, lengths : the fields of both."""
    texts = [replace(text).encode() for text in texts_of(getattr(table, data), getattr(table, lengths))]
    setattr(table, data, b"".join(texts))
    setattr(table, lengths, np.array([len(text) for text in texts], dtype="<i4").tobytes())


class DeviceNames(NamedTuple):
    """Names in the devices of a recording. kept : of drivers and capacities, and quantities, which stay as they are;
    pools : of pools.
    """

    kept: set[str]
    pools: set[str]

    def see(self, devices: pb.Devices) -> None:
        """Take the names of a message."""
        slices, claims = devices.slices, devices.claims
        columns = (slices.driver, claims.result_driver, claims.capacity_name, claims.capacity_amount)
        for column, names in (*((one, self.kept) for one in columns), (slices.pool, self.pools)):
            names.update(devices.strings[index] for index in np.unique(np.frombuffer(column, "<i4")).tolist())
        self.kept.update(one.driver for one in devices.taint_rules)
        self.kept.update(one.driver for template in devices.templates for one in template.slices)


def texts_of(data: bytes, lengths: bytes) -> list[str]:
    """Return the texts of a column of texts."""
    ends = np.cumsum(np.frombuffer(lengths, dtype="<i4"), dtype=np.int64).tolist()
    return [data[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
