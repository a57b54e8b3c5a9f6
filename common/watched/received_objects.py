"""Whole objects of one request, from bytes to rows and structs, as they arrive.

Decides how bytes become the plain values that snapshots are made of, by the reader of files: JSON, one object or a list
of them, and of built-in kinds Kubernetes' own protobuf encoding in its envelope. Keeps no bytes. An object that cannot
be used is refused with kind, name, field and remedy.

Memory is reserved before it is allocated, estimated from the texts: what decoding takes for a moment, and what stays.
Cost: about 10 microseconds a pod of JSON, in slices of at most 128 objects.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from trimtab.common.kubernetes import envelope
from trimtab.common.kubernetes.errors import MalformedAnswerError
from trimtab.common.kubernetes.kinds.pods import Pod
from trimtab.common.kubernetes.object_errors import FieldError, InvalidInputError, ObjectError
from trimtab.common.kubernetes.registry import BY_KIND, CONTROLLERS, registered_kind
from trimtab.common.objects.annotated_numbers import pod_struct
from trimtab.common.objects.build import check_names
from trimtab.common.objects.decode import ItemReader, add_text, check_version, is_list_text, skip
from trimtab.common.objects.devices.pod_claims import kubernetes_group
from trimtab.common.objects.objects import Objects, is_read, key_of
from trimtab.common.objects.owners import controller_of, made_uid
from trimtab.common.objects.pod_rows import Labels, PodRow, pod_row
from trimtab.common.objects.pod_texts import PodTexts
from trimtab.common.rpc.collection import MANY, collection_paused, exclude_long_lived
from trimtab.common.watched.pod_reader import PodRowBuilder
from trimtab.common.watched.protobuf_objects import message_type, to_json
from trimtab.k8s.v1 import core_pb2, meta_pb2

Key = tuple[str, str]
"""(namespace, name); the namespace is "" for kinds without."""
Reserve = Callable[[int, str], None]
"""Called with bytes and their use before they are allocated, with a negative number once they are free again."""
MOST_OBJECTS: Final = 8_000_000
"""Most objects of one request: 5,000,000 pods, and what belongs to them."""
MOST_OBJECT_BYTES: Final = 4 << 20
"""Bytes of one object or list; an API server accepts objects of 1.5 MiB."""
_BATCH: Final = 128
_MOST_SHARED: Final = 100_000
_ROW_BYTES: Final = 900
"""A pod's row, with its name, its uid, its place in the indices of a store, and what a snapshot is built from."""
_USE: Final = "objects as they are read"


def decoded_bytes(text: bytes) -> int:
    """Return the most memory that objects take once decoded: texts, lists and structs have headers."""
    strings = text.count(b'"') // 2
    return 2 * len(text) + 80 * strings + 300 * text.count(b"{") + 100 * text.count(b"[")


class ObjectChanges:
    """The objects of one request."""

    def __init__(self) -> None:
        self.pods: dict[Key, PodRow] = {}
        self.objects: dict[tuple[str, Key], Any] = {}
        """All others, by kind and key."""
        self.deleted: set[tuple[str, Key]] = set()
        self.listed: set[str] = set()
        """Kinds that a list was put of, with or without objects."""
        self.notes: list[str] = []
        self.skipped: Counter[str] = Counter()
        """"apiVersion kind" to the number of objects that are not read."""
        self.kept_bytes = 0
        """Estimated memory of everything here."""

    def __len__(self) -> int:
        return len(self.pods) + len(self.objects) + len(self.deleted)


class SharedParts:
    """What pods have in common, from one request of a caller to the next: decoded specs, texts, labels, and of each
    kind the first pod. Nothing depends on it but time and memory. Requests may use it at the same time.

    numbers : keys of the pods' annotations that hold numbers
    """

    def __init__(self, numbers: Iterable[str]) -> None:
        self.numbers = tuple(sorted(set(numbers)))
        self.specs = PodTexts(pod_struct(self.numbers))
        self.texts: dict[str, str] = {}
        self.labels: dict[Labels, Labels] = {}
        self.pods: dict[Any, Pod] = {}

    def bound(self) -> None:
        """Forget everything if there is too much of it."""
        for kept in (self.texts, self.labels, self.pods):
            if len(kept) > _MOST_SHARED:
                kept.clear()


class ObjectReader:
    """Reads the objects of one request. shared : of the caller's requests before."""

    def __init__(self, shared: SharedParts, reserve: Reserve, check: Callable[[], None] = lambda: None) -> None:
        """`check` raises when the request has no time left; it is called between slices."""
        self.shared, self.numbers = shared, shared.numbers
        self.changes = ObjectChanges()
        self._reserve, self._check = reserve, check
        # Objects of this request that the garbage collector still visits.
        self._young = 0
        self._items = Objects(numbers=self.numbers)
        self._json = ItemReader(("", ""), "", self._items, shared.specs)
        self._messages = PodRowBuilder(self.numbers)
        shared.bound()

    def put(self, texts: Sequence[bytes]) -> None:
        """Add objects. Errors: InvalidInputError, ObjectError; those of `reserve` and `check`."""
        before = len(self.changes)
        with collection_paused():
            self._put(texts)
        self._young += len(self.changes) - before
        if self._young >= MANY:
            self._young = 0
            exclude_long_lived()

    def _put(self, texts: Sequence[bytes]) -> None:
        batch: list[Raw] = []
        for text in texts:
            if len(text) > MOST_OBJECT_BYTES:
                raise InvalidInputError(
                    f"an object has {len(text)} bytes; send lists in pieces, and objects of at most {MOST_OBJECT_BYTES}"
                )
            if text.startswith(envelope.MAGIC):
                self._put_message(text)
            elif is_list_text(text):
                self._put_list(text)
            else:
                batch.append(Raw(text))
            if len(batch) == _BATCH:
                self._put_batch(batch)
                batch = []
        if batch:
            self._put_batch(batch)

    def delete(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """Note that an object is gone. Errors: InvalidInputError for a key that no object can have."""
        if not kind or not name:
            raise InvalidInputError(
                f"delete: {kind or 'a key'} {name!r} has no {'name' if kind else 'kind'}; give both"
            )
        if not is_read(api_version, kind):
            return
        kind = registered_kind(api_version, kind)
        key = (namespace or "default" if BY_KIND[kind].is_namespaced else "", name)
        if (kind, key) in self.changes.objects or (kind == "Pod" and key in self.changes.pods):
            raise _twice(kind, key, "it is put and deleted in one request", "do one of the two")
        self._reserve(300, _USE)
        self.changes.kept_bytes += 300
        self.changes.deleted.add((kind, key))

    def _put_batch(self, batch: list[Raw]) -> None:
        self._check()
        size = decoded_bytes(b"".join(batch))
        self._reserve(size, _USE)
        self._json.add(batch)
        self._take(size)

    def _put_list(self, text: bytes) -> None:
        self._check()
        size = decoded_bytes(text)
        self._reserve(size, _USE)
        length = add_text(text, "", self._items)
        if text[length:].strip():
            raise InvalidInputError("more than one document in one element of `put`; give each object its own")
        self._take(size)

    def _put_message(self, body: bytes) -> None:
        """Add an object, or the items of a list, in Kubernetes' protobuf encoding."""
        self._check()
        size = 20 * len(body)
        self._reserve(size, _USE)
        try:
            inside = envelope.unwrap(body)
            api_version, kind = inside.type_meta.api_version, inside.type_meta.kind
            item = kind.removesuffix("List")
            if item != kind and is_read(api_version, item):
                self._items.listed.add(registered_kind(api_version, item))
                raws = list(envelope.parsed(meta_pb2.RawList, inside.raw).items)
            else:
                item, raws = kind, [inside.raw]
            self._put_raws(api_version, item, raws)
        except MalformedAnswerError as error:
            raise InvalidInputError(f"not Kubernetes objects: {error}; send what the API server returns") from None
        self._take(size)

    def _put_raws(self, api_version: str, kind: str, raws: Sequence[bytes]) -> None:
        if not is_read(api_version, kind):
            for _ in raws:
                skip(api_version, kind, "", self._items)
            return
        check_version(api_version, registered_kind(api_version, kind), "", self._items)
        if kind == "Pod":
            for raw in raws:
                self._put_pod(raw)
            return
        message = message_type(registered_kind(api_version, kind))
        if message is None:
            raise InvalidInputError(f"{kind}: this kind is read only as JSON; send its objects as JSON")
        for start in range(0, len(raws), _BATCH):
            self._put_batch([Raw(to_json(message, api_version, kind, raw)) for raw in raws[start : start + _BATCH]])

    def _put_pod(self, raw: bytes) -> None:
        try:
            row = self._messages.read(raw)
        except FieldError as error:
            meta = envelope.parsed(core_pb2.Pod, raw).metadata
            raise ObjectError("", "Pod", f"{meta.namespace or 'default'}/{meta.name}", error) from None
        namespace = row.namespace or "default"
        self._add_row(row._replace(namespace=namespace, uid=row.uid or made_uid("Pod", namespace, row.name)))

    def _take(self, size: int) -> None:
        """Move what has been decoded into the changes; give back the memory that only decoding took."""
        items, changes = self._items, self.changes
        decoded, items.by_kind = items.by_kind, {}
        items.files.clear()
        pods = decoded.pop("Pod", [])
        known, had, skipped = len(self.shared.pods), len(changes.pods), len(changes.skipped)
        for pod in pods:
            try:
                row = pod_row(pod, self.numbers)
            except FieldError as error:
                raise items.error("Pod", pod, error) from None
            self._add_row(self._shared(row))
        others = sum(map(len, decoded.values()))
        for kind, objects in decoded.items():
            for one in objects:
                self._add_object(kind, one)
            check_names(items, kind, objects)
        added = len(changes.pods) - had
        # Distinct pods are kept whole, as are all other objects.
        own = size if others else size * max(len(self.shared.pods) - known, 0) // max(len(pods), 1)
        kept = min(size, own) + _ROW_BYTES * added + 300 * (len(items.skipped) - skipped)
        self._reserve(kept - size, "objects")
        changes.kept_bytes += kept
        changes.listed, changes.notes, changes.skipped = items.listed, items.notes, Counter(items.skipped)
        if len(changes) > MOST_OBJECTS:
            raise InvalidInputError(f"there are more than {MOST_OBJECTS} objects; send those of one cluster")

    def _add_row(self, row: PodRow) -> None:
        if not row.name:
            raise ObjectError("", "Pod", f"{row.namespace}/(without name)", _nameless())
        key = (row.namespace, row.name)
        if key in self.changes.pods or ("Pod", key) in self.changes.deleted:
            raise _twice("Pod", key)
        self.changes.pods[key] = row

    def _add_object(self, kind: str, one: Any) -> None:
        if one.metadata is None or not one.metadata.name:
            raise self._items.error(kind, one, _nameless())
        namespace, name = key_of(one)
        key = (namespace if BY_KIND[kind].is_namespaced else "", name)
        if (kind, key) in self.changes.objects or (kind, key) in self.changes.deleted:
            raise _twice(kind, key)
        if kind in CONTROLLERS and not one.metadata.uid:
            one.metadata.uid = made_uid(kind, namespace, name)
        self.changes.objects[kind, key] = one

    def _shared(self, row: PodRow) -> PodRow:
        """Return a row that shares with the rows before it what is equal: texts, labels, and the pod itself."""
        texts, pod = self.shared.texts, row.pod
        annotations = pod.metadata.annotations if pod.metadata else None
        beside = msgspec.msgpack.encode(annotations) if annotations is not None else b""
        owner = controller_of(pod.metadata.owner_references) if pod.metadata and pod.metadata.owner_references else None
        kind = owner.kind if owner is not None else ""
        shared = self.shared.pods.setdefault((row.spec_key, row.group, kubernetes_group(pod), beside, kind), pod)
        values: tuple[Any, ...] = (
            texts.setdefault(row.namespace, row.namespace),
            row.name,
            row.uid,
            self.shared.labels.setdefault(row.labels, row.labels),
            texts.setdefault(row.node, row.node),
            texts.setdefault(row.owner, row.owner),
            texts.setdefault(row.pinned_node, row.pinned_node),
            *row[7:17],
            shared,
            row.numbers,
        )
        return tuple.__new__(PodRow, values)


def _nameless() -> FieldError:
    return FieldError("metadata.name", "it is missing", "give every object a name")


def _twice(kind: str, key: Key, problem: str = "", remedy: str = "send each object once") -> ObjectError:
    shown = f"{key[0]}/{key[1]}" if key[0] else key[1]
    return ObjectError("", kind, shown, FieldError("", problem or "it is given twice in one request", remedy))
