"""The pod table: one element per pod in parallel columns.

Pods come sorted by (namespace, name), bytewise. Each costs a few microseconds; what many share is worked out once, in
`PodSpecTable` and the dictionaries. Terminal pods are kept, with their phase.

Errors: FieldError with the path below the pod.
"""

import sys
from array import array

from trimtab.v1 import snapshot_pb2 as pb

from clients.kubernetes_objects.dictionary import Dictionary
from clients.kubernetes_objects.errors import FieldError
from clients.kubernetes_objects.mounts import Mounts
from clients.kubernetes_objects.pod_rows import PodRow
from clients.kubernetes_objects.pod_specs import PodSpecTable
from clients.kubernetes_objects.volumes import Mounter, Storage, claim_row, disk_row

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

    def add(self, row: PodRow) -> None:
        """Append a pod."""
        _check_length("metadata.name", row.name, _LONGEST_NAME)
        _check_length("metadata.uid", row.uid, _LONGEST_UID)
        columns, string = self._columns, self._dictionary.string
        spec = self._specs.index(row.spec_key, row.pod, row.mounts, f"{row.namespace}/{row.name}")
        if row.owner:
            self.owners.add(row.owner)
        self._uids.append(row.uid)
        columns["namespace"].append(string(row.namespace))
        columns["spec"].append(spec)
        columns["label_set"].append(self._dictionary.label_pairs(row.labels))
        columns["node"].append(string(row.node))
        columns["owner"].append(string(row.owner))
        columns["deletion_cost"].append(row.deletion_cost)
        columns["pinned_node"].append(string(row.pinned_node))
        self._created.append(row.created_s)
        self._deletion.append(row.deletion_s)
        self._phase.append(row.phase)
        self._flags.append(row.flags)
        if row.mounts.claims or row.mounts.disks:
            self._add_mounts(row.mounts, Mounter(row.namespace, row.uid))
        self._names.append(row.name)

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
        table.names, table.name_lengths = _text(self._names)
        table.uids, table.uid_lengths = _text(self._uids)
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


def _text(texts: list[str]) -> tuple[bytes, bytes]:
    joined = "".join(texts)
    data = joined.encode()
    lengths = map(len, texts) if len(data) == len(joined) else (len(text.encode()) for text in texts)
    return data, _bytes(array("i", lengths))


def _check_length(field: str, text: str, longest: int) -> None:
    if len(text) * 4 > longest and len(text.encode()) > longest:
        raise FieldError(field, f"{text[:60]}… is longer than {longest} bytes", "give the pod a proper one")
