"""The pod table: one element per pod in parallel columns.

Pods come sorted by (namespace, name), bytewise. Each costs a few microseconds; what many share is computed once, in
`PodSpecTable` and the dictionaries. Terminal pods are kept, with their phase.

Errors: FieldError with the path below the pod.
"""

import sys
from array import array
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.objects.csi_drivers import NO_DRIVERS
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.mounts import NOTHING, Mounts
from trimtab.common.objects.pod_groups import GroupMember, member_of
from trimtab.common.objects.pod_rows import PodRow, claimant_of
from trimtab.common.objects.pod_specs import PodSpecTable
from trimtab.common.objects.volumes import Mounter, Storage, claim_row, disk_row
from trimtab.v1 import snapshot_pb2 as pb

_LONGEST_UID = 255
_STEP = 16_384
_SHORT = 63
"""Characters that are shorter than the longest uid in any encoding."""
K = TypeVar("K", bound=Hashable)


class PodColumnsBuilder:
    """Collects the columns of the pod table.

    storage : claims and volumes; None = no claim is known, and all of them count as usable
    """

    def __init__(self, dictionary: Dictionary, specs: PodSpecTable, storage: Storage | None) -> None:
        self._dictionary, self._specs, self._storage = dictionary, specs, storage
        self.rows: list[PodRow] = []
        self._spec = array("i")
        self._volume_pod, self._volume = array("i"), array("i")
        self.unknown_claims = 0
        # The pods of each group.
        self.members: dict[tuple[str, str], list[GroupMember]] = {}

    def add(self, row: PodRow) -> None:
        """Append a pod."""
        if len(row.uid) > _SHORT and len(row.uid.encode()) > _LONGEST_UID:
            problem = f"{row.uid[:60]}… is longer than {_LONGEST_UID} bytes"
            raise FieldError("metadata.uid", problem, "give the pod a proper one")
        index = None if row.claims else self._specs.known.get(row.spec_key)
        if index is None:
            claimant = claimant_of(row)
            index = self._specs.index(row.spec_key, row.pod, row.mounts, f"{row.namespace}/{row.name}", claimant)
        self._spec.append(index)
        if row.mounts is not NOTHING and (row.mounts.claims or row.mounts.disks):
            self._add_mounts(row.mounts, Mounter(row.namespace, row.uid, bool(row.node)))
        if row.group:
            self.members.setdefault((row.namespace, row.group), []).append(member_of(row.pod, row.phase))
        self.rows.append(row)

    def _add_mounts(self, mounts: Mounts, mounter: Mounter) -> None:
        required = NO_DRIVERS if self._storage is None else self._storage.required_drivers
        rows = [disk_row(disk, self._dictionary, required) for disk in mounts.disks]
        if self._storage is None:
            self.unknown_claims += len(mounts.claims)
        else:
            rows += [claim_row(claim, mounter, self._storage, self._dictionary) for claim in mounts.claims]
        for index in sorted({self._dictionary.volume(row) for row in rows}):
            self._volume_pod.append(len(self.rows))
            self._volume.append(index)

    def write(self, table: pb.PodTable) -> set[str]:
        """Write all columns into the table, empty ones where every element is 0 and the contract allows it.

        Returns the uids of all owners. Strings are numbered column by column.
        """
        rows, dictionary = self.rows, self._dictionary
        # Each field of `columns` holds that field of all rows.
        columns: Any = _columns(rows)
        table.count = len(rows)
        table.names, table.name_lengths = _text(columns.name)
        table.uids, table.uid_lengths = _text(columns.uid)
        table.namespace = _indices(columns.namespace, dictionary.string)
        table.spec = _bytes(self._spec)
        table.node = _indices(columns.node, dictionary.string)
        table.label_set = _unless_zero(_indices(columns.labels, dictionary.label_pairs))
        table.owner = _unless_zero(_indices(columns.owner, dictionary.string))
        table.deletion_cost = _unless_zero(_bytes(array("i", columns.deletion_cost)))
        table.pod_group = _unless_zero(_indices(columns.group, dictionary.string))
        table.pinned_node = _unless_zero(_indices(columns.pinned_node, dictionary.string))
        table.nominated_node = _unless_zero(_indices(columns.nominated_node, dictionary.string))
        table.volume_pod, table.volume = _bytes(self._volume_pod), _bytes(self._volume)
        table.created = _bytes(array("q", columns.created_s))
        table.deletion = _unless_zero(_bytes(array("q", columns.deletion_s)))
        self._write_numbers(table)
        table.phase, table.flags = bytes(columns.phase), bytes(columns.flags)
        return set(columns.owner) - {""}

    def _write_numbers(self, table: pb.PodTable) -> None:
        entries = [(i, key, value) for i, row in enumerate(self.rows) if row.numbers for key, value in row.numbers]
        table.number_pod = _bytes(array("i", [entry[0] for entry in entries]))
        table.number_key = _indices([entry[1] for entry in entries], self._dictionary.string)
        table.number = _bytes(array("d", [entry[2] for entry in entries]))


def _columns(rows: Sequence[PodRow]) -> PodRow:
    """Return a row with the list of each field. In steps, between which other threads run."""
    columns: list[list[Any]] = [[] for _ in PodRow._fields]
    for start in range(0, len(rows), _STEP):
        for column, values in zip(columns, zip(*rows[start : start + _STEP], strict=True), strict=True):
            column.extend(values)
    return PodRow._make(columns)


def _indices(values: Sequence[K], index: Callable[[K], int]) -> bytes:
    """Return a column of indices; each distinct value is looked up once, in the order of first use."""
    known = {value: index(value) for value in dict.fromkeys(values)}
    return _bytes(array("i", map(known.__getitem__, values)))


def _unless_zero(column: bytes) -> bytes:
    """Return a column; None if every element is 0."""
    return column if column.strip(b"\0") else b""


def _bytes(column: "array[int] | array[float]") -> bytes:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _text(texts: Sequence[str]) -> tuple[bytes, bytes]:
    joined = "".join(texts)
    data = joined.encode()
    lengths = map(len, texts) if len(data) == len(joined) else (len(text.encode()) for text in texts)
    return data, _bytes(array("i", lengths))
