"""Convert encoded pods to rows: the parts that the pods of one workload share are converted once.

Some fields of a row are copied from the pod (names, times, labels, the node, names of claims, the claims of devices
that were made for it, the nodes that it is pinned to and nominated for, its deletion cost, numbers in annotations).
They are removed from the message, or replaced by placeholders. The rest of the message is the key of a cached row, into
which the fields are copied.
`trimtab.common.objects.pod_rows` alone decides what a row contains, as for files; a property test compares
the two.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from trimtab.common.kubernetes.envelope import parsed
from trimtab.common.kubernetes.kinds.pods import Pod, PodAnnotations
from trimtab.common.kubernetes.signals import well_known
from trimtab.common.objects.annotated_numbers import (
    DISRUPTION_COSTS,
    DO_NOT_DISRUPT,
    Numbers,
    number_of,
    pod_struct,
)
from trimtab.common.objects.devices.pod_claims import PodClaimEntry
from trimtab.common.objects.mounts import NOTHING, Claim, Mounts
from trimtab.common.objects.pod_groups import KUEUE_LABEL, kueue_group
from trimtab.common.objects.pod_rows import Labels, PodRow, deletion_cost, pod_row
from trimtab.common.objects.times import usable_s
from trimtab.common.watched.protobuf_objects import to_struct
from trimtab.common.watched.structs import json_names
from trimtab.k8s.v1 import core_pb2, meta_pb2

MOST_KEPT = 50_000
"""Most cached rows; a cluster has several thousand distinct pods. A full cache is emptied, which only costs time."""
PLACEHOLDER = "\x00"
"""Replaces names; no name in Kubernetes contains it."""
_NODE_NAME = "metadata.name"
_COST = meta_pb2.StringEntry(key=well_known.POD_DELETION_COST.key).SerializeToString()
_DO_NOT_DISRUPT = meta_pb2.StringEntry(key=DO_NOT_DISRUPT).SerializeToString()
_ANNOTATIONS = tuple(meta_pb2.StringEntry(key=name).SerializeToString() for name in json_names(PodAnnotations))
"""First bytes of the encoded annotations that are read: their key comes first."""

_TOKEN_VOLUME = b"kube-api-access-"
"""Prefix of the name of the volume with the service account's token; the rest differs in each pod."""
_TOKEN_SOURCE = 2 + len(_TOKEN_VOLUME) + 5
"""Offset of the source of such a volume: its name ends in five random letters."""
_TOKEN_VOLUME_RAW = bytes((0x0A, _TOKEN_SOURCE - 2)) + _TOKEN_VOLUME
_CLAIM, _PROJECTED = b"R", b"\xd2\x01"
"""Tags of the fields `persistentVolumeClaim` (10) and `projected` (26) of a volume's source."""


class _Volumes(NamedTuple):
    """Encoded volumes of a pod with placeholders, without the token volume; the names of its claims in order. `kept` :
    the volumes; `claims` : the names.
    """

    kept: tuple[bytes, ...] = ()
    claims: tuple[str, ...] = ()


_NO_VOLUMES = _Volumes()
_Key = tuple[bytes, str, tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]
"""The parts that pods of one workload share: spec and status, namespace, volumes, owners, annotations that are read."""
_parse = core_pb2.RawPod.FromString


class PodRowBuilder:
    """Converts pods; caches what they share. Not thread-safe. numbers : keys of annotations that hold numbers."""

    def __init__(self, numbers: Iterable[str] = ()) -> None:
        self._number_keys = tuple(sorted(set(numbers)))
        # The first bytes of those read from every pod and of those asked for.
        self._read_keys = {*self._number_keys, *DISRUPTION_COSTS} - {DO_NOT_DISRUPT}
        self._number_starts = tuple(
            meta_pb2.StringEntry(key=key).SerializeToString() for key in sorted(self._read_keys)
        )
        self._rows: dict[_Key, PodRow] = {}
        self._labels: dict[tuple[bytes, ...], Labels] = {}
        # The groups of labels that name one.
        self._kueue: dict[tuple[bytes, ...], str] = {}
        self._strings: dict[str, str] = {}
        self._plain_volumes: set[bytes] = set()
        # The part after the name in volumes with tokens.
        self._token_sources: set[bytes] = set()

    def read(self, raw: bytes) -> PodRow:
        """Return the row of an encoded pod. Errors: MalformedAnswerError, FieldError."""
        pod = _parsed(raw)
        meta, spec = pod.metadata, pod.spec
        node = spec.node_name
        if node:
            spec.node_name = PLACEHOLDER
        pinned = _take_pin(spec) if spec.HasField("affinity") else ""
        volumes = self._take_volumes(spec) if spec.volumes else _NO_VOLUMES
        annotations, cost = _annotations(meta.annotations)
        numbers = self._numbers(meta.annotations) if meta.annotations else ()
        name, uid, labels, owners = meta.name, meta.uid, tuple(meta.labels), tuple(meta.owner_references)
        created_s, deletion_s, namespace = (
            usable_s(meta.creation_timestamp.seconds),
            usable_s(meta.deletion_timestamp.seconds),
            meta.namespace,
        )
        pod.ClearField("metadata")
        nominated = "" if node else pod.status.nominated_node_name
        made = _take_own_status(pod.status)
        key = (pod.SerializeToString(), namespace, volumes.kept, owners, annotations)
        shared = self._rows.get(key)
        if shared is None:
            shared = self._add(key)
        if shared.pinned_node != (PLACEHOLDER if pinned else "") or _is_protected(annotations):
            return self._slowly(raw)
        strings, mounts = self._strings, shared.mounts
        return _row(
            (
                shared.namespace,
                name,
                uid,
                self._labels.get(labels) or self._add_labels(labels),
                strings.setdefault(node, node),
                shared.owner,
                strings.setdefault(pinned, pinned),
                created_s,
                deletion_s,
                shared.phase,
                shared.flags,
                cost,
                mounts if mounts is NOTHING else _with_claims(mounts, volumes.claims, name),
                _made(shared.claims, made) if made else shared.claims,
                shared.group or self._kueue.get(labels, ""),
                strings.setdefault(nominated, nominated),
                shared.spec_key,
                shared.pod,
                numbers,
            )
        )

    def _add(self, key: _Key) -> PodRow:
        """Convert the first pod of its kind and cache its row."""
        if len(self._rows) >= MOST_KEPT:
            self._rows.clear()
            self._labels.clear()
            self._kueue.clear()
            self._strings.clear()
            self._plain_volumes.clear()
            self._token_sources.clear()
        content, namespace, kept_volumes, owners, annotations = key
        pod = parsed(core_pb2.RawPod, content)
        pod.metadata.namespace = namespace
        pod.metadata.owner_references.extend(owners)
        pod.metadata.annotations.extend(annotations)
        pod.spec.volumes.extend(kept_volumes)
        plain = parsed(core_pb2.Pod, pod.SerializeToString())
        plain.metadata.name = plain.metadata.uid = PLACEHOLDER
        row = self._rows[key] = pod_row(to_struct(plain, Pod))
        return row

    def _add_labels(self, entries: tuple[bytes, ...]) -> Labels:
        """Return encoded labels sorted by key, and keep them."""
        pairs = (parsed(meta_pb2.StringEntry, entry) for entry in entries)
        labels = self._labels[entries] = tuple(sorted((pair.key, pair.value) for pair in pairs))
        if group := kueue_group(dict(labels).get(KUEUE_LABEL)):
            self._kueue[entries] = group
        return labels

    def _take_volumes(self, spec: core_pb2.RawPodSpec) -> _Volumes:
        """Remove the volumes; the token volume, whose name is different in each pod, is dropped."""
        claims: list[str] = []
        kept = []
        plain, token_sources = self._plain_volumes, self._token_sources
        for raw in spec.volumes:
            if raw in plain:
                kept.append(raw)
                continue
            if raw.startswith(_TOKEN_VOLUME_RAW) and raw[_TOKEN_SOURCE:] in token_sources:
                continue
            source = _source(raw)
            if raw.startswith(_CLAIM, source):
                volume = parsed(core_pb2.Volume, raw)
                mount = volume.volume_source.persistent_volume_claim
                claims.append(mount.claim_name)
                mount.claim_name = PLACEHOLDER + str(len(claims) - 1)
                kept.append(volume.SerializeToString())
            elif not (raw.startswith(_PROJECTED, source) and raw.startswith(_TOKEN_VOLUME, 2)):
                plain.add(raw)
                kept.append(raw)
            elif raw.startswith(_TOKEN_VOLUME_RAW):
                token_sources.add(raw[_TOKEN_SOURCE:])
        spec.ClearField("volumes")
        return _Volumes(tuple(kept), tuple(claims))

    def _numbers(self, entries: Iterable[bytes]) -> Numbers:
        """Return the numbers in annotations."""
        found = [parsed(meta_pb2.StringEntry, one) for one in entries if one.startswith(self._number_starts)]
        return tuple(sorted((one.key, number_of(one.value)) for one in found if one.key in self._read_keys))

    def _slowly(self, raw: bytes) -> PodRow:
        """Return the row of a pod whose fields cannot be replaced by placeholders."""
        pod = to_struct(parsed(core_pb2.Pod, raw), pod_struct(self._number_keys))
        return pod_row(pod, self._number_keys)


def _parsed(raw: bytes) -> core_pb2.RawPod:
    """Return an encoded pod without unknown fields. Errors: MalformedAnswerError."""
    try:
        pod = _parse(raw)
    except DecodeError:
        pod = parsed(core_pb2.RawPod, raw)  # raises the error that names the problem
    pod.DiscardUnknownFields()
    return pod


def _annotations(entries: Iterable[bytes]) -> tuple[tuple[bytes, ...], int]:
    """Return the encoded annotations that are read, without the deletion cost; and the deletion cost."""
    kept, cost = [], 0
    for entry in entries:
        if entry.startswith(_ANNOTATIONS):
            if entry.startswith(_COST):
                cost = deletion_cost(parsed(meta_pb2.StringEntry, entry).value)
            else:
                kept.append(entry)
    return tuple(kept), cost


def _is_protected(annotations: tuple[bytes, ...]) -> bool:
    """Return whether a pod may be protected from disruption, which depends on its own start."""
    return any(annotation.startswith(_DO_NOT_DISRUPT) for annotation in annotations)


def _row(values: tuple[Any, ...]) -> PodRow:
    """Return a row from its values in order; faster than the constructor with names."""
    return tuple.__new__(PodRow, values)


def _source(raw: bytes) -> int:
    """Return the offset of the content of a volume's source; the end for a form that the API server does not send.

    A volume is its name (field 1, at most 63 bytes), then its source (field 2); the source's length may take several
    bytes, all but the last with the high bit set.
    """
    at = raw[1] + 2 if len(raw) > 1 and raw[0] == 0x0A else len(raw)
    if len(raw) < at + 3 or raw[at] != 0x12:
        return len(raw)
    at += 1
    while raw[at] & 0x80 and at < len(raw) - 1:
        at += 1
    return at + 1


def _take_pin(spec: core_pb2.RawPodSpec) -> str:
    """Remove and return the node's name in the node affinity of a DaemonSet's pod: one term with one field."""
    terms = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    if len(terms) != 1 or len(terms[0].match_fields) != 1:
        return ""
    field = terms[0].match_fields[0]
    if field.key != _NODE_NAME or field.operator != "In" or len(field.values) != 1:
        return ""
    name = field.values[0]
    field.values[0] = PLACEHOLDER
    return name


def _take_own_status(status: core_pb2.PodStatus) -> dict[str, str] | None:
    """Remove what differs in each pod; return the names of the claims that were made for it, by name within the pod."""
    made = None
    status.ClearField("start_time")
    status.ClearField("nominated_node_name")
    if status.resource_claim_statuses:
        made = {one.name: one.resource_claim_name for one in status.resource_claim_statuses}
        status.ClearField("resource_claim_statuses")
    status.ClearField("extended_resource_claim_status")
    return made


def _made(claims: tuple[PodClaimEntry, ...], made: Mapping[str, str]) -> tuple[PodClaimEntry, ...]:
    """Insert the names of the claims that were made from templates."""
    return tuple(entry._replace(made=made.get(entry.name)) if entry.template else entry for entry in claims)


def _with_claims(mounts: Mounts, names: tuple[str, ...], pod: str) -> Mounts:
    """Insert the names of claims; the name of an ephemeral claim begins with the pod's."""
    if not mounts.claims:
        return mounts
    claims = []
    for claim in mounts.claims:
        if not claim.name.startswith(PLACEHOLDER):
            claims.append(claim)
        elif claim.ephemeral:
            claims.append(Claim(pod + claim.name[1:], True))
        else:
            claims.append(Claim(names[int(claim.name[1:])], False))
    return mounts._replace(claims=tuple(claims))
