"""Encoded pods to rows, quickly: pods of one workload differ in little, so the rest is worked out once.

A row has fields that only pass through it (names, times, labels, the node, the claims' names, the one node a pod is
pinned to). They are taken out of the message and placeholders put in; what is left is the key under which the row of
the first such pod is kept, and the fields are put back into that row. What the row says is decided by
`clients.kubernetes_objects.pod_rows` alone, as for files: a property test holds the two ways equal.
"""

from typing import Any, NamedTuple

from trimtab.k8s.v1 import core_pb2, meta_pb2

from clients.kubernetes_objects.kinds import Pod
from clients.kubernetes_objects.kinds.pods import PodAnnotations
from clients.kubernetes_objects.mounts import NOTHING, Claim, Mounts
from clients.kubernetes_objects.pod_rows import Labels, PodRow, pod_row
from clients.live_cluster.envelope import parsed
from clients.live_cluster.objects import json_names, to_struct

MOST_KEPT = 50_000
"""Distinct pods kept; a cluster has some thousands. When there are more, all are forgotten, which costs time only."""
PLACEHOLDER = "\x00"
"""In the place of names; no name of Kubernetes contains it."""
_NODE_NAME = "metadata.name"
_ANNOTATIONS = tuple(meta_pb2.StringEntry(key=name).SerializeToString() for name in json_names(PodAnnotations))
"""How the annotations that mean something begin when encoded: their key comes first."""


class _Taken(NamedTuple):
    """What was taken out of a pod's spec: its node, the node it is pinned to, names of claims in order."""

    node: str
    pinned: str
    claims: tuple[str, ...]


class PodReader:
    """Reads pods; keeps what they share. Not for several threads at a time."""

    def __init__(self) -> None:
        self._rows: dict[Any, PodRow] = {}
        self._labels: dict[tuple[bytes, ...], Labels] = {}
        self._strings: dict[str, str] = {}

    def read(self, raw: bytes) -> PodRow:
        """Return the row of an encoded pod. Errors: MalformedAnswerError, FieldError."""
        pod = parsed(core_pb2.RawPod, raw)
        pod.DiscardUnknownFields()
        meta, taken = pod.metadata, _take(pod.spec)
        entries = tuple(meta.labels)
        key = (
            meta.namespace,
            pod.spec.SerializeToString(),
            pod.status.SerializeToString(),
            tuple(meta.owner_references),
            tuple([one for one in meta.annotations if one.startswith(_ANNOTATIONS)]),
        )
        shared = self._rows.get(key)
        if shared is None:
            shared = self._add(key, pod)
        if shared.pinned_node != (PLACEHOLDER if taken.pinned else ""):
            return self._slowly(raw)
        labels = self._labels.get(entries)
        if labels is None:
            labels = self._labels[entries] = _labels(entries)
        return PodRow(
            shared.namespace,
            meta.name,
            meta.uid,
            labels,
            self._strings.setdefault(taken.node, taken.node),
            shared.owner,
            self._strings.setdefault(taken.pinned, taken.pinned),
            meta.creation_timestamp.seconds,
            meta.deletion_timestamp.seconds,
            shared.phase,
            shared.flags,
            shared.deletion_cost,
            shared.mounts if shared.mounts is NOTHING else _with_claims(shared.mounts, taken.claims, meta.name),
            shared.spec_key,
            shared.pod,
        )

    def _add(self, key: Any, pod: core_pb2.RawPod) -> PodRow:
        """Work a row out and keep it."""
        if len(self._rows) >= MOST_KEPT:
            self._rows.clear()
            self._labels.clear()
            self._strings.clear()
        plain = parsed(core_pb2.Pod, pod.SerializeToString())
        plain.metadata.name = plain.metadata.uid = PLACEHOLDER
        plain.metadata.ClearField("labels")
        row = self._rows[key] = pod_row(to_struct(plain, Pod))
        return row

    def _slowly(self, raw: bytes) -> PodRow:
        """Return the row of a pod that nothing can be taken out of."""
        return pod_row(to_struct(parsed(core_pb2.Pod, raw), Pod))


def _labels(entries: tuple[bytes, ...]) -> Labels:
    """Return encoded labels, sorted."""
    pairs = (parsed(meta_pb2.StringEntry, entry) for entry in entries)
    return tuple(sorted((pair.key, pair.value) for pair in pairs))


def _take(spec: core_pb2.PodSpec) -> _Taken:
    """Take out what only passes through, and volumes that mean nothing."""
    node = spec.node_name
    if node:
        spec.node_name = PLACEHOLDER
    claims: list[str] = []
    idle = []
    for index, volume in enumerate(spec.volumes):
        source = volume.volume_source
        if source.HasField("persistent_volume_claim"):
            claims.append(source.persistent_volume_claim.claim_name)
            source.persistent_volume_claim.claim_name = PLACEHOLDER + str(len(claims) - 1)
        elif not source.ByteSize():
            idle.append(index)
    for index in reversed(idle):
        del spec.volumes[index]
    return _Taken(node, _take_pin(spec) if spec.HasField("affinity") else "", tuple(claims))


def _take_pin(spec: core_pb2.PodSpec) -> str:
    """Take the node's name out of the node affinity of a DaemonSet's pod: one term with one field."""
    terms = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    if len(terms) != 1 or len(terms[0].match_fields) != 1:
        return ""
    field = terms[0].match_fields[0]
    if field.key != _NODE_NAME or field.operator != "In" or len(field.values) != 1:
        return ""
    name = field.values[0]
    field.values[0] = PLACEHOLDER
    return name


def _with_claims(mounts: Mounts, names: tuple[str, ...], pod: str) -> Mounts:
    """Put the names of claims back; those made for the pod begin with its name."""
    if not mounts.claims:
        return mounts
    claims = [
        Claim(pod + one.name[1:], True) if one.ephemeral else Claim(names[int(one.name[1:])], False)
        for one in mounts.claims
    ]
    return mounts._replace(claims=tuple(claims))
