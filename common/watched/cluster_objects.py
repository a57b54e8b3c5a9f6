"""The objects of one cluster from request to request: what has changed, and the snapshot or the delta that follows.

An object means what it means in a file; a delta leads to what all objects together would have led to. An update that
fails changes nothing. The last update can be taken back once, for a caller that did not get its answer.

Not thread-safe. Cost: several microseconds a pod for all objects, then in proportion to the changes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import Any, Final, NamedTuple

from trimtab.common.kubernetes.kinds.karpenter import OfferObject
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.registry import CONTROLLERS
from trimtab.common.objects.absent import absent_notes
from trimtab.common.objects.build import Actuation
from trimtab.common.objects.karpenter.pool_settings import with_pool_settings
from trimtab.common.objects.karpenter.pools import PoolGroups
from trimtab.common.objects.kubelet_versions import minor_of_kubelets
from trimtab.common.objects.not_read import not_read_notes
from trimtab.common.objects.objects import Objects
from trimtab.common.objects.value_notes import AnnotatedPod, value_notes
from trimtab.common.watched.actuation import Read, read_status
from trimtab.common.watched.cloud_groups import cloud_groups, group_of_instance, undeclared_groups, with_cloud_settings
from trimtab.common.watched.pod_history import PodHistory
from trimtab.common.watched.pool_groups import store_pool_groups
from trimtab.common.watched.received_objects import Key, ObjectChanges
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.v1 import actuator_pb2, plan_pb2

_GROUP, _OFFER = "NodeGroup", "MachineOffer"
_OF_POOLS: Final = frozenset({"NodePool", "NodeClaim", "Node", _GROUP, _OFFER})
_FOLLOWED: Final = _OF_POOLS | {"PriorityClass"}
_DECISIVE: Final = frozenset({"PersistentVolumeClaim", "ResourceClaim", "ResourceClaimTemplate"})
"""Kinds of which it matters whether there are none or nothing is known of them."""
MOST_NOTES: Final = 20
"""Most notes of one request that are passed on; the rest are only counted."""
_OBJECT_BYTES: Final = 1000
_STEP: Final = 4096


class ClusterUpdate(NamedTuple):
    """The next snapshot. update : the cluster, or what has changed; notes : about the objects, for people."""

    update: SnapshotUpdate
    notes: list[str]


class ClusterObjects:
    """The objects of a cluster."""

    def __init__(self, numbers: Iterable[str] = (), check: Callable[[], None] = lambda: None) -> None:
        """`numbers` : keys of the pods' annotations that hold numbers; `check` : called from time to time while a
        snapshot is made; raises to end that.
        """
        self._check = check
        self.numbers = tuple(sorted(set(numbers)))
        self._store = WatchedObjects(self.numbers, PodHistory(most_departed=0))
        # Our own kinds, by name.
        self._groups: dict[str, NodeGroup] = {}
        self._offers: dict[str, OfferObject] = {}
        self._own: dict[str, dict[str, Any]] = {_GROUP: self._groups, _OFFER: self._offers}
        self._listed: set[str] = set()
        self._pools = PoolGroups([], plan_pb2.PlanSettings(), [])
        self._minor = 0
        # Uids of controllers, and those that several have: only a whole snapshot says which of them is wrong.
        self._uids: dict[tuple[str, Key], str] = {}
        self._uid_counts = Counter[str]()
        self._shared_uids: set[str] = set()
        self._had_shared_uids = False
        self._maker = SnapshotMaker(self._store, self._kubernetes_minor, self._given, check)
        self._decisive: Set[str] = frozenset()
        self._undo: ObjectChanges | None = None
        # Bytes and objects so far, for the average.
        self._seen_bytes, self._seen = 0, 0

    def size(self) -> int:
        """Return the approximate memory in bytes."""
        every: list[dict[Any, Any]] = [*self._own.values(), *self._store.objects.values()]
        count = len(self._store.pods) + sum(len(of) for of in every)
        return count * max(self._seen_bytes // max(self._seen, 1), _OBJECT_BYTES)

    def update(
        self, changes: ObjectChanges, status: actuator_pb2.ActuatorStatus | None, *, is_repeated: bool = False
    ) -> ClusterUpdate:
        """Apply changes; return what follows from the last update to them. status : of the actuator; None = none;
        is_repeated : take the last update back before.

        Errors: ObjectError, KubernetesError; nothing has changed then.
        """
        pools, minor, redo = self._pools, self._minor, None
        if is_repeated and self._undo is not None:
            redo = self._apply(self._undo)
        try:
            undo = self._apply(changes)
            try:
                found = self._update(changes, status, is_repeated)
            except BaseException:
                self._apply(undo)
                raise
        except BaseException:
            self._pools, self._minor = pools, minor
            self._maker.forget_minor()
            if redo is not None:
                self._apply(redo)
            raise
        self._seen_bytes, self._seen = self._seen_bytes + changes.kept_bytes, self._seen + len(changes)
        if is_repeated or not found.update.is_empty:
            self._undo = undo
        return found

    def settings(
        self, given: plan_pb2.PlanSettings, status: actuator_pb2.ActuatorStatus | None
    ) -> plan_pb2.PlanSettings:
        """Return settings completed by what NodePools ask, and by the cloud's settings for its groups."""
        asked = self._pools.settings
        return with_cloud_settings(with_pool_settings(given, asked) if asked.ByteSize() else given, status)

    def _update(
        self, changes: ObjectChanges, status: actuator_pb2.ActuatorStatus | None, is_repeated: bool
    ) -> ClusterUpdate:
        kinds = {kind for kind, _ in (*changes.objects, *changes.deleted)} if not is_repeated else _FOLLOWED
        if _OF_POOLS & kinds:
            self._pools = self._pool_groups()
        if "Node" in kinds:
            self._follow_kubelets()
        declared = [self._groups[name] for name in sorted(self._groups)]
        read = read_status(status, self._store.history) if status is not None else Read(Actuation(), [])
        decisive = _DECISIVE & self._given()
        if decisive != self._decisive or "PriorityClass" in kinds or self._shared_uids or self._had_shared_uids:
            self._maker.forget()
        groups = cloud_groups([*declared, *self._pools.groups], status)
        update = self._maker.next_update(groups, read.actuation, group_of_instance(status))
        self._decisive, self._had_shared_uids = decisive, bool(self._shared_uids)
        notes = [*changes.notes, *not_read_notes(Objects(skipped=changes.skipped)), *update.notes, *self._pools.notes]
        notes += [*read.notes, *undeclared_groups(groups, status), *self._notes_as_of_files(changes, update)]
        return ClusterUpdate(update, few(list(dict.fromkeys(notes))))

    def _notes_as_of_files(self, changes: ObjectChanges, update: SnapshotUpdate) -> list[str]:
        """Return notes on kinds that are missing and on values, of the objects that have come."""
        given, rows = self._given(), changes.pods.values()
        by_kind: dict[str, list[Any]] = {}
        for (kind, _), one in changes.objects.items():
            by_kind.setdefault(kind, []).append(one)
        made = update.snapshot if update.delta is None else update.delta.changed
        alike, count = {id(row.pod): row.pod for row in rows}, Counter(id(row.pod) for row in rows)
        has_owners = any(self._store.objects[kind] for kind in CONTROLLERS)
        pods = ((pod, count[key]) for key, pod in alike.items())
        notes = absent_notes(pods, given, made.pod_specs if made is not None else (), has_owners=has_owners)
        annotated = [
            AnnotatedPod(f"{row.namespace}/{row.name}", row.node, meta.annotations)
            for row in rows
            if (meta := row.pod.metadata) is not None and meta.annotations is not None
        ]
        return notes + value_notes(Objects(by_kind=by_kind, given=set(given)), annotated)

    def _pool_groups(self) -> PoolGroups:
        declared = [self._groups[name] for name in sorted(self._groups)]
        return store_pool_groups(self._store, declared, given=list(self._offers.values()))

    def _follow_kubelets(self) -> None:
        """Have the devices built again if the minor version of the nodes has changed."""
        minor = self._kubernetes_minor()
        if minor != self._minor:
            self._minor = minor
            self._maker.forget_minor()
            self._store.changes.devices.add(("Node", ("", "")))

    def _kubernetes_minor(self) -> int:
        return minor_of_kubelets(self._store.objects["Node"].values())

    def _given(self) -> Set[str]:
        """Return the kinds that have objects, or of which a list was put."""
        kinds = {kind for kind, objects in self._store.objects.items() if objects} | self._listed
        return kinds | ({"Pod"} if self._store.pods else set()) | ({_GROUP} if self._groups else set())

    def _apply(self, changes: ObjectChanges) -> ObjectChanges:
        """Apply changes to the store; return those that take them back."""
        undo = _Undo()
        undo.listed, self._listed = self._listed, self._listed | changes.listed
        if isinstance(changes, _Undo):
            self._listed = changes.listed
        try:
            for kind, key in changes.deleted:
                self._note_old(undo, kind, key)
                self._drop(kind, key)
            for number, (key, row) in enumerate(changes.pods.items()):
                if number % _STEP == 0 and not isinstance(changes, _Undo):
                    self._check()
                self._note_old(undo, "Pod", key)
                self._store.put_row(row)
            for (kind, key), one in changes.objects.items():
                self._note_old(undo, kind, key)
                self._put(kind, key, one)
        except BaseException:
            if not isinstance(changes, _Undo):
                self._apply(undo)
            raise
        return undo

    def _put(self, kind: str, key: Key, one: Any) -> None:
        if kind in self._own:
            self._own[kind][key[1]] = one
            return
        if kind in CONTROLLERS:
            self._follow_uid(kind, key, one.metadata.uid)
        self._store.put_struct(kind, one)

    def _follow_uid(self, kind: str, key: Key, uid: str | None) -> None:
        """Note the uid of a controller; None = it is gone."""
        old = self._uids.pop((kind, key), None)
        if uid:
            self._uids[kind, key] = uid
        for changed in {old, uid} - {None, ""}:
            self._count_uid(changed or "", (changed == uid) - (changed == old))

    def _count_uid(self, uid: str, more: int) -> None:
        count = self._uid_counts[uid] = self._uid_counts[uid] + more
        (self._shared_uids.add if count > 1 else self._shared_uids.discard)(uid)
        if not count:
            del self._uid_counts[uid]

    def _note_old(self, undo: ObjectChanges, kind: str, key: Key) -> None:
        old: Any
        if kind == "Pod":
            old = self._store.pods.get(key)
        else:
            own = self._own.get(kind)
            old = own.get(key[1]) if own is not None else self._store.objects[kind].get(key)
        if old is None:
            undo.deleted.add((kind, key))
        elif kind == "Pod":
            undo.pods[key] = old
        else:
            undo.objects[kind, key] = old

    def _drop(self, kind: str, key: Key) -> None:
        if kind in self._own:
            self._own[kind].pop(key[1], None)
            return
        if kind in CONTROLLERS:
            self._follow_uid(kind, key, None)
        self._store.forget(kind, key)


class _Undo(ObjectChanges):
    """Changes back to a state before; `listed` : the kinds of that state."""


def few(notes: list[str]) -> list[str]:
    """Return the first notes, and the number of others."""
    more = len(notes) - MOST_NOTES
    return notes if more <= 0 else [*notes[:MOST_NOTES], f"and {more} more notes of this kind"]
