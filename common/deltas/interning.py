"""Convert snapshots to one persistent numbering, in which equal content has equal numbers.

Numbers are assigned by first appearance. A caller starts a new interner when the old one has grown. Index 0 is "" among
strings and the empty set among label sets, as on the wire.

Cost: reading the columns, plus a microsecond per row as long as each message has the same dictionaries as the one
before, or appends to them: equal bytes of a row then mean equal content. Otherwise about ten microseconds for each
node, label set and distinct spec.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.common.deltas.pod_columns import Int32, InternedDictionaries, PodTableColumns, PodTableReader
from trimtab.common.deltas.renumbering import NewIndices, may_name_spec, names_spec, renumber
from trimtab.v1 import snapshot_pb2 as pb


@dataclass(frozen=True)
class InternedSnapshot:
    """A snapshot to compare.

    message : the caller's, not copied: do not change it before the next difference is found; rows : by field of
    `ClusterSnapshot`, key to the row's bytes in interned numbers, in the order of the table; actuation : bytes
    likewise, None where absent; replaced_whole : bytes of each message of `WITH_OWN_DICTIONARY`; spec_strings : string
    indices, as in the message, of each pod spec. resources : names, in the order of the message; pods : the pod table
    in interned numbers.
    """

    message: pb.ClusterSnapshot
    resources: tuple[str, ...]
    pods: PodTableColumns
    rows: dict[str, dict[str, bytes]]
    actuation: bytes | None
    replaced_whole: dict[str, bytes]
    spec_strings: list[tuple[int, ...]]


WITH_OWN_DICTIONARY: Final = ("slack_requests", "devices", "capacity_requests")
"""Messages with dictionaries of their own; a delta replaces them whole."""
KEYS: dict[str, Any] = {
    "nodes": lambda row: row.name,
    "node_groups": lambda row: row.id,
    "owners": lambda row: row.uid,
    "pod_disruption_budgets": lambda row: f"{row.namespace}/{row.name}",
    "namespaces": lambda row: row.name,
    "pod_groups": lambda row: f"{row.namespace}/{row.name}",
}
"""The tables of rows, and the key of each."""
_ACTUATION: Final = "actuation_status"
_NAMING_SPECS: Final = {
    field.name
    for field in pb.ClusterSnapshot.DESCRIPTOR.fields
    if field.message_type and may_name_spec(field.message_type)
}
"""The tables whose rows name specs by index: equal bytes mean equal content only while specs keep their numbers."""


class _Encoded(NamedTuple):
    """A row in interned numbers, its key, the string indices that it has in the message, and whether it has an index of
    a pod spec. `data` : the row's bytes; `strings` : the indices; `names_spec` : whether it has a spec's.
    """

    key: str
    data: bytes
    strings: tuple[int, ...]
    names_spec: bool


class _Numbering(NamedTuple):
    """Strings and label sets of the last message; the interned numbers of its dictionaries' entries. `texts` : strings
    by index; `strings`, `label_sets`, `specs` : interned number by index.
    """

    texts: list[str]
    sets: tuple[bytes, bytes, bytes]
    strings: Int32
    label_sets: Int32
    specs: Int32


_Encode = Callable[[Any, NewIndices, Callable[[Any], str] | None], _Encoded]
_EMPTY: Final = np.zeros(0, np.int32)
_NONE: Final = _Numbering([], (b"", b"", b""), _EMPTY, _EMPTY, _EMPTY)


class _ReceivedTable(NamedTuple):
    """A table as received, row by row, and its rows in interned numbers: by bytes, in order, and by key. `raws` : the
    rows as received; `by_raw` : the encoded row of each; `encoded` : the same in the table's order.
    """

    raws: list[bytes]
    by_raw: dict[bytes, _Encoded]
    encoded: list[_Encoded]
    rows: dict[str, bytes]


class Interner:
    """Numbers strings, label sets, pod specs and volumes."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {"": 0}
        self.label_sets: dict[bytes, int] = {b"": 0}
        self.specs: dict[bytes, int] = {}
        self.volumes: dict[bytes, int] = {}
        # Rows of the last message, by table, for messages with the same numbering.
        self._remembered: dict[str, _ReceivedTable] = {}
        self._last = _NONE
        self._pods = PodTableReader()

    def size(self) -> int:
        """Return how many entries there are."""
        return len(self.strings) + len(self.label_sets) + len(self.specs) + len(self.volumes)

    def intern(self, message: pb.ClusterSnapshot) -> InternedSnapshot:
        """Number a snapshot. Raises ValueError, IndexError for one that breaks its contract."""
        last, self._last = self._last, _NONE
        texts = list(message.strings) or [""]
        sets = (message.label_sets.offsets, message.label_sets.keys, message.label_sets.values)
        goes_on = _extends(last.texts, texts) and all(
            new.startswith(old) for old, new in zip(last.sets, sets, strict=True)
        )
        if not goes_on:
            last, self._remembered = _NONE, {}
        strings = np.concatenate((last.strings, _lookup(self.strings, texts[len(last.texts) :])))
        label_sets = np.concatenate((last.label_sets, self._label_sets(sets, strings, len(last.label_sets))))
        numbers = NewIndices(strings.tolist().__getitem__, label_sets.tolist().__getitem__, int)
        as_it_is = _stands_for_itself(strings) and _stands_for_itself(label_sets)
        encoded_specs = self._table("pod_specs", message.pod_specs, numbers).encoded
        specs = _lookup(self.specs, [one.data for one in encoded_specs])
        if not _extends(last.specs.tolist(), specs.tolist()):
            for table in _NAMING_SPECS & self._remembered.keys():
                known = self._remembered[table].by_raw.items()
                self._remembered[table] = _ReceivedTable(
                    [], {raw: one for raw, one in known if not one.names_spec}, [], {}
                )
        plain = _as_it_is if as_it_is else _encode
        naming = plain if _stands_for_itself(specs) else _encode
        encoded_volumes = self._table("volumes", message.volumes, numbers, encode=plain).encoded
        volumes = _lookup(self.volumes, [one.data for one in encoded_volumes])
        numbers = numbers._replace(spec=specs.tolist().__getitem__)
        rows = {}
        for table, key in KEYS.items():
            encode = naming if table in _NAMING_SPECS else plain
            rows[table] = self._table(table, getattr(message, table), numbers, key, encode).rows
        acting = None
        if message.HasField(_ACTUATION):
            acting = self._table(_ACTUATION, [message.actuation_status], numbers).encoded[0].data
        pods = self._pods.read(message.pods, InternedDictionaries(strings, label_sets, specs, volumes))
        self._last = _Numbering(texts, sets, strings, label_sets, specs)
        spec_strings = [one.strings for one in encoded_specs]
        whole = {table: getattr(message, table).SerializeToString(deterministic=True) for table in WITH_OWN_DICTIONARY}
        return InternedSnapshot(message, tuple(message.resources), pods, rows, acting, whole, spec_strings)

    def _label_sets(self, sets: tuple[bytes, bytes, bytes], strings: Int32, first: int) -> Int32:
        """Return the number of each label set from `first` on; entries are sorted, as their order has no meaning."""
        offsets = np.frombuffer(sets[0], "<i4").astype(np.int64)
        if len(offsets) < 2:
            offsets = np.zeros(2, np.int64)
        offsets = offsets[first:]
        inside = slice(offsets[0], offsets[-1])
        keys, values = (strings[np.frombuffer(column, "<i4")[inside]] for column in sets[1:])
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((keys, owner))
        entries = np.stack((keys[order], values[order]), axis=1).astype("<i4").tobytes()
        bounds = (8 * (offsets - offsets[0])).tolist()
        return _lookup(self.label_sets, [entries[a:b] for a, b in pairwise(bounds)])

    def _table(
        self,
        table: str,
        rows: Sequence[Any],
        numbers: NewIndices,
        key: Callable[[Any], str] | None = None,
        encode: _Encode | None = None,
    ) -> _ReceivedTable:
        """Encode rows in interned numbers; keep them for the next message."""
        # Rows have no maps, so their bytes are a function of their content.
        raws = list(map(type(rows[0]).SerializeToString, rows)) if rows else []
        known = self._remembered.get(table)
        if known is None or known.raws != raws:
            by_raw = known.by_raw if known else {}
            found = [by_raw.get(raw) for raw in raws]
            encode = encode or _encode
            encoded = [one or encode(rows[i], numbers, key) for i, one in enumerate(found)]
            known = _ReceivedTable(
                raws, dict(zip(raws, encoded, strict=True)), encoded, _by_key(encoded) if key else {}
            )
        self._remembered[table] = known
        return known


def _extends(before: list[Any], after: list[Any]) -> bool:
    return after[: len(before)] == before


def _stands_for_itself(numbers: Int32) -> bool:
    return np.array_equal(numbers, np.arange(len(numbers)))


def _by_key(rows: list[_Encoded]) -> dict[str, bytes]:
    found = {one.key: one.data for one in rows}
    if len(found) < len(rows):
        raise ValueError("a key is given twice")
    return found


def _as_it_is(row: Any, numbers: NewIndices, key: Callable[[Any], str] | None) -> _Encoded:  # noqa: ARG001
    """Encode a row of a message whose numbers equal the interned ones; its strings are not listed."""
    return _Encoded(key(row) if key else "", row.SerializeToString(), (), names_spec(row))


def _encode(row: Any, numbers: NewIndices, key: Callable[[Any], str] | None) -> _Encoded:
    copy = type(row)()
    copy.CopyFrom(row)
    used: dict[int, None] = {}

    def string(index: int) -> int:
        used[index] = None
        return numbers.string(index)

    renumber(copy, numbers._replace(string=string))
    data = copy.SerializeToString(deterministic=True)
    return _Encoded(key(row) if key else "", data, tuple(used), names_spec(row))


def _lookup(known: dict[Any, int], values: Iterable[Any]) -> Int32:
    return np.array([known.setdefault(value, len(known)) for value in values], np.int32)
