"""The pod table: one element per pod in parallel columns.

Pods come sorted by (namespace, name), bytewise. Each costs a few microseconds; what many share is worked out once, in
`PodSpecTable` and the dictionaries. Terminal pods are kept, with their phase.

Errors: FieldError with the path below the pod.
"""

import re
import sys
from array import array

from trimtab.v1 import snapshot_pb2 as pb

from clients.kubernetes_objects.dictionary import Dictionary
from clients.kubernetes_objects.errors import FieldError
from clients.kubernetes_objects.kinds.pods import Pod, PodMeta, PodStatus
from clients.kubernetes_objects.mounts import NOTHING, Mounts, mounts_of
from clients.kubernetes_objects.owners import controller_of, is_daemon_pod, is_mirror_pod, made_uid, owner_uid
from clients.kubernetes_objects.pod_specs import PodSpecTable
from clients.kubernetes_objects.times import unix_s
from clients.kubernetes_objects.volumes import Mounter, Storage, claim_row, disk_row

FLAG_READY, FLAG_MIRROR, FLAG_DAEMON, FLAG_GATED = 1, 2, 4, 8
_PHASES = {
    "Pending": pb.PodPhase.PENDING,
    "Running": pb.PodPhase.RUNNING,
    "Succeeded": pb.PodPhase.SUCCEEDED,
    "Failed": pb.PodPhase.FAILED,
}
_COST = re.compile(r"-?\d+\Z|\Z", re.ASCII)
_LONGEST_NAME, _LONGEST_UID = 253, 255


class PodColumnsBuilder:
    """Collects the columns of the pod table.

    storage : what claims are looked up in; None = no claim is known, so all of them count as usable
    """

    def __init__(self, dictionary: Dictionary, specs: PodSpecTable, storage: Storage | None) -> None:
        self._dictionary, self._specs, self._storage = dictionary, specs, storage
        self._names: list[str] = []
        self._uids: list[str] = []
        self._columns = {
            name: array("i")
            for name in ("namespace", "spec", "label_set", "node", "owner", "deletion_cost", "pinned_node",
                         "volume_pod", "volume")
        }  # fmt: skip
        self._created, self._deletion = array("q"), array("q")
        self._phase, self._flags = bytearray(), bytearray()
        self.owners: set[str] = set()
        self.unknown_claims = 0

    def add(self, pod: Pod) -> None:
        """Append a pod."""
        meta, status, columns = pod.metadata or PodMeta(), pod.status or PodStatus(), self._columns
        string = self._dictionary.string
        namespace, name = meta.namespace or "default", meta.name or ""
        mounts = mounts_of(pod)
        spec, pinned = self._specs.index(pod, mounts)
        controller = controller_of(meta.owner_references) if meta.owner_references else None
        owner = owner_uid(controller, namespace) if controller else ""
        if owner:
            self.owners.add(owner)
        self._uids.append(meta.uid or made_uid("Pod", namespace, name))
        columns["namespace"].append(string(namespace))
        columns["spec"].append(spec)
        columns["label_set"].append(self._dictionary.label_set(meta.labels))
        columns["node"].append(string(pod.spec.node_name if pod.spec else None))
        columns["owner"].append(string(owner))
        columns["deletion_cost"].append(_deletion_cost(meta))
        columns["pinned_node"].append(string(pinned))
        self._created.append(unix_s(meta.creation_timestamp))
        self._deletion.append(unix_s(meta.deletion_timestamp))
        self._phase.append(_phase(status.phase))
        flags = FLAG_READY if _is_ready(status) else 0
        flags |= FLAG_MIRROR if is_mirror_pod(pod, controller) else 0
        flags |= FLAG_DAEMON if is_daemon_pod(pod, controller) else 0
        self._flags.append(flags | (FLAG_GATED if pod.spec and pod.spec.scheduling_gates else 0))
        if mounts is not NOTHING:
            self._add_mounts(mounts, Mounter(namespace, self._uids[-1]))
        self._names.append(name)

    def _add_mounts(self, mounts: Mounts, mounter: Mounter) -> None:
        rows = [disk_row(disk, self._dictionary) for disk in mounts.disks]
        if self._storage is None:
            self.unknown_claims += len(mounts.claims)
        else:
            rows += [claim_row(claim, mounter, self._storage, self._dictionary) for claim in mounts.claims]
        for index in sorted({self._dictionary.volume(row) for row in rows}):
            self._columns["volume_pod"].append(len(self._names))
            self._columns["volume"].append(index)

    def write(self, table: pb.PodTable) -> None:
        """Write all columns into the table; empty ones where every element is 0 and the contract allows it."""
        table.count = len(self._names)
        table.names, table.name_lengths = _text("metadata.name", self._names, _LONGEST_NAME)
        table.uids, table.uid_lengths = _text("metadata.uid", self._uids, _LONGEST_UID)
        for name in ("namespace", "spec", "node"):
            setattr(table, name, _bytes(self._columns[name]))
        for name in ("label_set", "owner", "deletion_cost", "pinned_node"):
            if any(self._columns[name]):
                setattr(table, name, _bytes(self._columns[name]))
        for name in ("volume_pod", "volume"):
            setattr(table, name, _bytes(self._columns[name]))
        table.created = _bytes(self._created)
        table.deletion = _bytes(self._deletion) if any(self._deletion) else b""
        table.phase, table.flags = bytes(self._phase), bytes(self._flags)


def _bytes(column: "array[int]") -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _text(field: str, texts: list[str], longest: int) -> tuple[bytes, bytes]:
    joined = "".join(texts)
    data = joined.encode()
    lengths = array("i", map(len, texts) if len(data) == len(joined) else (len(text.encode()) for text in texts))
    if lengths and not 1 <= min(lengths) <= max(lengths) <= longest:
        bad = next(text for text, length in zip(texts, lengths, strict=True) if not 1 <= length <= longest)
        raise FieldError(field, f"{bad[:60]!r} is empty or longer than {longest} bytes", "give the pod a proper one")
    return data, _bytes(lengths)


def _phase(phase: str | None) -> int:
    return _PHASES.get(phase or "", pb.PodPhase.UNSPECIFIED)


def _is_ready(status: PodStatus) -> bool:
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def _deletion_cost(meta: PodMeta) -> int:
    """The annotation, if it is a 32-bit integer as the ReplicaSet controller reads it, else 0."""
    text = meta.annotations.deletion_cost if meta.annotations else None
    if not text or not _COST.match(text) or (text[0] == "0" and text != "0") or len(text) > 100:
        return 0
    value = int(text)
    return value if -(2**31) <= value < 2**31 else 0
