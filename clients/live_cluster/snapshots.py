"""Snapshots and deltas of a store: the whole cluster once, then what has changed since.

Decides what a delta must say: rows to look at again are made anew, keys that are gone since the last snapshot are
named. The rows are made by `clients.kubernetes_objects.build_snapshot`, of all objects or of the changed ones. A delta
costs what has changed, a whole snapshot some microseconds a pod; a cluster without change costs nothing.

Not for several threads at a time: `LiveCluster` holds the lock.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from trimtab.v1 import snapshot_pb2 as pb

from clients.kubernetes_api.errors import ClusterError
from clients.kubernetes_objects.build import Actuation, BuiltSnapshot, Known, build_snapshot
from clients.kubernetes_objects.kinds import NodeGroup
from clients.kubernetes_objects.migration import Migration
from clients.kubernetes_objects.node_groups import Membership
from clients.kubernetes_objects.objects import Objects
from clients.kubernetes_objects.volumes import Storage
from clients.live_cluster.resources import BY_KIND
from clients.live_cluster.store import OWNERS, Changes, Key, Store

K = TypeVar("K", str, Key)


class Taken(NamedTuple):
    """What `take` returns: exactly one of `snapshot` (whole) and `delta`; `is_empty` = nothing has changed.

    notes : what a person should know about the objects told, as of files
    """

    snapshot: pb.ClusterSnapshot | None
    delta: pb.SnapshotDelta | None
    is_empty: bool = False
    notes: tuple[str, ...] = ()


class _Told(NamedTuple):
    """Keys of the rows of the last snapshot."""

    pods: set[Key]
    nodes: set[str]
    groups: dict[str, NodeGroup]
    owners: dict[tuple[str, Key], str]
    budgets: set[Key]
    namespaces: set[str]


class SnapshotMaker:
    """Makes one line of snapshots: each delta is against the one before."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._told: _Told | None = None
        self._groups: dict[str, NodeGroup] = {}
        self._group_of: dict[str, str] = {}
        self._actuation: Actuation | None = None

    def forget(self) -> None:
        """Make the next one a whole snapshot."""
        self._told = None

    def take(self, groups: Sequence[NodeGroup], actuation: Actuation | None) -> Taken:
        """Return what has changed since the last call, or all. Errors: ClusterError, ObjectError."""
        self._refuse_problems()
        told, self._told = self._told, None
        changes = self._store.take_changes()
        by_name = {(group.metadata.name if group.metadata else None) or "": group for group in groups}
        if told is None:
            whole = self._whole(by_name, actuation)
            return Taken(whole.snapshot, None, notes=tuple(whole.notes))
        if not any(changes) and by_name == self._groups and actuation == self._actuation:
            self._told = told
            return Taken(None, pb.SnapshotDelta(changed=pb.ClusterSnapshot()), is_empty=True)
        changed_groups = self._regroup(by_name, changes.nodes)
        built = self._changed(changes, changed_groups, actuation)
        delta = pb.SnapshotDelta(changed=built.snapshot)
        _tell_deleted(delta, told, changes, self._store)
        delta.deleted_node_groups.extend(sorted(told.groups.keys() - by_name.keys()))
        self._actuation, self._told = actuation, told._replace(groups=by_name)
        return Taken(None, delta, notes=tuple(built.notes))

    def _refuse_problems(self) -> None:
        problems = sorted(self._store.problems.values())
        if problems:
            more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
            raise ClusterError(
                "objects of the cluster cannot be used, and leaving them out could remove nodes they need: "
                + "; ".join(problems[:3])
                + more
            )

    def _whole(self, groups: dict[str, NodeGroup], actuation: Actuation | None) -> BuiltSnapshot:
        """Make the whole snapshot, and remember what it told."""
        store = self._store
        rows = [store.pods[key] for key in sorted(store.pods)]
        objects = _objects({kind: list(store.objects[kind].values()) for kind in store.objects}, groups.values())
        nodes = {key[1]: node for key, node in store.objects["Node"].items()}
        built = build_snapshot(objects, known=Known(pods=rows, actuation=actuation))
        snapshot = built.snapshot
        listed = {owner.uid for owner in snapshot.owners}
        owners = {
            (kind, key): uid
            for kind in OWNERS
            for key, one in store.objects[kind].items()
            if (uid := one.metadata.uid or "") in listed
        }
        self._told = _Told(
            set(store.pods),
            set(nodes),
            groups,
            owners,
            set(store.objects["PodDisruptionBudget"]),
            {key[1] for key in store.objects["Namespace"]},
        )
        self._groups, self._actuation = groups, actuation
        self._group_of = {node.name: node.node_group for node in snapshot.nodes if node.node_group}
        return built

    def _regroup(self, groups: dict[str, NodeGroup], nodes: set[str]) -> list[NodeGroup]:
        """Bring the membership of nodes up to date; return the groups whose rows change. May add to `nodes`."""
        present = self._store.objects["Node"]
        if _membership(groups) != _membership(self._groups):
            nodes.update(key[1] for key in present)
        if not nodes:
            return []
        before = {name: 0 for name in groups} | _sizes(self._group_of)
        membership = Membership(groups.values())
        for name in nodes:
            self._group_of.pop(name, None)
            node = present.get(("", name))
            if node is not None:
                found = membership.groups_of(name, node)
                if len(found) > 1:
                    names = ", ".join(sorted(group.metadata.name or "" for group in found if group.metadata))
                    raise ClusterError(f"node {name} belongs to several node groups: {names}; their selectors overlap")
                if found and found[0].metadata:
                    self._group_of[name] = found[0].metadata.name or ""
        after = {name: 0 for name in groups} | _sizes(self._group_of)
        changed = [
            group
            for name, group in groups.items()
            if group != self._groups.get(name) or before.get(name) != after.get(name)
        ]
        self._groups = groups
        return changed

    def _changed(self, changes: Changes, groups: Iterable[NodeGroup], actuation: Actuation | None) -> BuiltSnapshot:
        """Make the rows that have changed."""
        store = self._store
        every = store.objects
        chosen: dict[str, list[Any]] = {
            "Node": _present(every["Node"], (("", name) for name in changes.nodes)),
            "CSINode": _present(every["CSINode"], (("", name) for name in changes.nodes)),
            "Namespace": _present(every["Namespace"], (("", name) for name in changes.namespaces)),
            "PodDisruptionBudget": _present(every["PodDisruptionBudget"], changes.budgets),
            "PriorityClass": list(every["PriorityClass"].values()) if changes.pods else [],
        }
        for kind in OWNERS:
            chosen[kind] = _present(every[kind], (key for of, key in changes.owners if of == kind))
        touched = [one for kind in OWNERS for one in chosen[kind]]
        known = Known(
            pods=[store.pods[key] for key in sorted(changes.pods) if key in store.pods],
            storage=Storage(
                every["PersistentVolumeClaim"],
                _ByName(every["PersistentVolume"]),
                _ByName(every["StorageClass"]),
                Migration(_ByName(every["Node"]), _ByName(every["CSINode"])),
            ),
            owners={uid for one in touched if (uid := one.metadata.uid or "") in store.pods_of},
            group_of=self._group_of,
            actuation=actuation if actuation != self._actuation else None,
        )
        return build_snapshot(_objects(chosen, groups), known=known)


class _ByName(Mapping[str, Any]):
    """Objects without namespace, by name."""

    def __init__(self, objects: dict[Key, Any]) -> None:
        self._objects = objects

    def __getitem__(self, name: str) -> Any:
        return self._objects["", name]

    def __iter__(self) -> Iterator[str]:
        return (key[1] for key in self._objects)

    def __len__(self) -> int:
        return len(self._objects)


def _tell_deleted(delta: pb.SnapshotDelta, told: _Told, changes: Changes, store: Store) -> None:
    """Name the rows that were told and are no more; bring `told` up to date."""
    objects = store.objects
    for namespace, name in _gone(told.pods, changes.pods, store.pods):
        delta.deleted_pods.append(f"{namespace}/{name}")
    nodes = {key[1] for key in (("", name) for name in changes.nodes) if key in objects["Node"]}
    delta.deleted_nodes.extend(_gone(told.nodes, changes.nodes, nodes))
    for namespace, name in _gone(told.budgets, changes.budgets, objects["PodDisruptionBudget"]):
        delta.deleted_pod_disruption_budgets.append(f"{namespace}/{name}")
    namespaces = {name for name in changes.namespaces if ("", name) in objects["Namespace"]}
    delta.deleted_namespaces.extend(_gone(told.namespaces, changes.namespaces, namespaces))
    listed = {owner.uid for owner in delta.changed.owners}
    deleted = set()
    for kind, key in changes.owners:
        before = told.owners.pop((kind, key), "")
        one = objects[kind].get(key)
        uid = (one.metadata.uid if one is not None else None) or ""
        if uid in listed:
            told.owners[kind, key] = uid
        if before and before != told.owners.get((kind, key)):
            deleted.add(before)
    delta.deleted_owners.extend(sorted(deleted - listed))


def _gone(told: set[K], touched: set[K], present: Container[K]) -> list[K]:
    """Return the touched keys that were told and are no more, sorted; bring `told` up to date."""
    now = {key for key in touched if key in present}
    gone = sorted((touched - now) & told)
    told |= now
    told -= set(gone)
    return gone


def _membership(groups: Mapping[str, NodeGroup]) -> dict[str, Any]:
    """Return what decides which nodes belong to which group."""
    return {name: group.spec and (group.spec.node_selector, group.spec.nodes) for name, group in groups.items()}


def _present(objects: Mapping[Key, Any], keys: Iterable[Key]) -> list[Any]:
    return [objects[key] for key in keys if key in objects]


def _sizes(group_of: Mapping[str, str]) -> dict[str, int]:
    return Counter(group_of.values())


def _objects(by_kind: dict[str, list[Any]], groups: Iterable[NodeGroup]) -> Objects:
    """Return objects as a builder takes them; kinds of which there are none are known to have none."""
    return Objects(by_kind={**by_kind, "NodeGroup": list(groups)}, given=set(BY_KIND))
