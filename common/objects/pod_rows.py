"""A pod as plain values: its whole content in a snapshot, before strings become indices into dictionaries.

A row costs a few microseconds and can be used in many snapshots. Terminal pods are kept, with
their phase. Errors: FieldError with the path below the pod.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from trimtab.common.kubernetes.kinds.pods import Pod, PodMeta, PodStatus
from trimtab.common.objects.annotated_numbers import Numbers, numbers_of
from trimtab.common.objects.devices.pod_claims import Claimant, PodClaimEntry, entries_of, kubernetes_group
from trimtab.common.objects.mounts import Mounts, mounts_of
from trimtab.common.objects.owners import (
    controller_of,
    is_daemon_pod,
    is_mirror_pod,
    is_of_other_kind,
    is_other_stateful_set,
    made_uid,
    owner_uid,
)
from trimtab.common.objects.pod_groups import group_name
from trimtab.common.objects.pod_specs import spec_key
from trimtab.common.objects.times import unix_s
from trimtab.v1 import snapshot_pb2 as pb

FLAG_READY, FLAG_MIRROR, FLAG_DAEMON, FLAG_GATED, FLAG_OTHER_KIND = 1, 2, 4, 8, 16
FLAG_UNSCHEDULABLE, FLAG_OTHER_STATEFUL_SET = 32, 64
_PHASES = {
    "Pending": pb.PodPhase.PENDING,
    "Running": pb.PodPhase.RUNNING,
    "Succeeded": pb.PodPhase.SUCCEEDED,
    "Failed": pb.PodPhase.FAILED,
}
_COST = re.compile(r"-?\d+\Z|\Z", re.ASCII)

Labels = tuple[tuple[str, str], ...]
"""Labels sorted by key."""


class PodRow(NamedTuple):
    """The content of a pod in a snapshot; "" and 0 mean absent, times are Unix seconds.

    node : name of its node; owner : key of its controller; pinned_node : the only node that its affinity allows;
    nominated_node : of a pod without a node, the one that the scheduler keeps for it
    created_s, deletion_s : metadata's times; deletion_cost : of its annotation
    phase : `PodPhase.Code`; flags : as in `PodTable.flags`
    numbers : of the annotations about disruption, and of those that the caller asks for
    claims : of devices; group : name of its group of pods
    spec_key : pods with equal keys, and equal claims by content, share a spec row, which is made of `pod`, any pod with
    that key, `mounts` and the claims
    uid, labels : metadata's
    """

    namespace: str
    name: str
    uid: str
    labels: Labels
    node: str
    owner: str
    pinned_node: str
    created_s: int
    deletion_s: int
    phase: int
    flags: int
    deletion_cost: int
    mounts: Mounts
    claims: tuple[PodClaimEntry, ...]
    group: str
    nominated_node: str
    spec_key: bytes
    pod: Pod
    numbers: Numbers = ()


def slack_of(row: PodRow) -> str | None:
    """Return the slack that a pod's own annotation requests."""
    annotations = row.pod.metadata.annotations if row.pod.metadata else None
    return annotations.slack if annotations else None


def claimant_of(row: PodRow) -> Claimant | None:
    """Return who claims devices; None if the pod claims none."""
    if not row.claims:
        return None
    return Claimant(row.namespace, row.name, row.uid, kubernetes_group(row.pod), row.claims)


def successor_of(row: PodRow) -> Claimant | None:
    """Return who claims devices in place of a pod: a pod like it, for which no claim has been made yet."""
    found = claimant_of(row)
    return found and found._replace(entries=tuple(entry._replace(made=None) for entry in found.entries))


def pod_row(pod: Pod, numbers: Sequence[str] = ()) -> PodRow:
    """Return the row of a pod. numbers : sorted keys of annotations that hold numbers."""
    meta, status = pod.metadata or PodMeta(), pod.status or PodStatus()
    namespace, name = meta.namespace or "default", meta.name or ""
    mounts = mounts_of(pod)
    key, pinned = spec_key(pod, mounts)
    controller = controller_of(meta.owner_references) if meta.owner_references else None
    flags = (FLAG_READY if _is_ready(status) else 0) | (FLAG_UNSCHEDULABLE if _is_unschedulable(status) else 0)
    flags |= FLAG_MIRROR if is_mirror_pod(pod, controller) else 0
    node = (pod.spec.node_name if pod.spec else None) or ""
    flags |= FLAG_DAEMON if is_daemon_pod(pod, controller) else 0
    if controller is not None:
        flags |= FLAG_OTHER_KIND if is_of_other_kind(controller) else 0
        flags |= FLAG_OTHER_STATEFUL_SET if is_other_stateful_set(controller) else 0
    # The fields in order: a row with names takes twice as long to make.
    return PodRow(
        namespace,
        name,
        meta.uid or made_uid("Pod", namespace, name),
        tuple(sorted(meta.labels.items())) if meta.labels else (),
        node,
        owner_uid(controller, namespace) if controller else "",
        pinned,
        unix_s(meta.creation_timestamp),
        unix_s(meta.deletion_timestamp),
        phase_code(status.phase),
        flags | (FLAG_GATED if pod.spec and pod.spec.scheduling_gates else 0),
        deletion_cost(meta.annotations.deletion_cost if meta.annotations else None),
        mounts,
        entries_of(pod),
        group_name(pod),
        "" if node else status.nominated_node_name or "",
        key,
        pod,
        _numbers(meta, status, numbers) if meta.annotations else (),
    )


def _numbers(meta: PodMeta, status: PodStatus, keys: Sequence[str]) -> Numbers:
    return numbers_of(meta.annotations, keys, unix_s(status.start_time or meta.creation_timestamp))


def phase_code(phase: str | None) -> int:
    """Return the `PodPhase.Code` of a phase's name."""
    return _PHASES.get(phase or "", pb.PodPhase.UNSPECIFIED)


def _is_ready(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _is_unschedulable(status: PodStatus) -> bool:
    """Return whether the scheduler has tried and failed. Source: Cluster Autoscaler, ArrangePodsBySchedulability."""
    for condition in status.conditions or ():
        if condition.type == "PodScheduled":
            return condition.status == "False" and condition.reason == "Unschedulable"
    return False


def deletion_cost(text: str | None) -> int:
    """Return the annotation, if it is a 32-bit integer as the ReplicaSet controller reads it, else 0."""
    if not text or not _COST.match(text) or (text[0] == "0" and text != "0") or len(text) > 100:
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0
