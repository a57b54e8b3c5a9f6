"""Snapshots and deltas of a store: the whole cluster once, then the changes since.

Decides the content of a delta: changed rows are built again, keys that are gone since the last snapshot are listed.
`build_watched_snapshot` builds the rows, from all objects or the changed ones. The cost of a
delta is proportional to the changes; a whole snapshot takes several microseconds per pod.

Not thread-safe: `LiveCluster` holds the lock.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from trimtab.common.deltas.renumbering import WITH_OWN_DICTIONARY
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.object_errors import ObjectError
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.common.objects.attachments import unmounted_attachments
from trimtab.common.objects.build import (
    Actuation,
    BuiltSnapshot,
    ChangedPart,
    Prebuilt,
    build_watched_snapshot,
)
from trimtab.common.objects.capacity_requests import capacity_requests
from trimtab.common.objects.csi_drivers import required_drivers
from trimtab.common.objects.devices.pod_claims import ClaimObjects, provided_resources
from trimtab.common.objects.devices.table import DeviceObjects, DeviceTables, declared_slices
from trimtab.common.objects.migration import Migration
from trimtab.common.objects.node_groups import Membership, shared_node_error
from trimtab.common.objects.objects import Objects
from trimtab.common.objects.owners import WORKLOADS
from trimtab.common.objects.pod_groups import GroupMember, group_objects, member_of
from trimtab.common.objects.pod_rows import PodRow
from trimtab.common.objects.pod_specs import priority_classes
from trimtab.common.objects.slack_requests import slack_requests
from trimtab.common.objects.volumes import Storage
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.common.watched.watched_objects import BUFFERS, OWNERS, Changes, Key, WatchedObjects
from trimtab.v1 import snapshot_pb2 as pb

K = TypeVar("K", str, Key)


class _SentKeys(NamedTuple):
    """Keys of the rows of the last snapshot. `pods`, `budgets`, `pod_groups` : (namespace, name); `nodes`,
    `namespaces` : names; `groups` : declared groups by name; `owners` : the uid of each (kind, key).
    """

    pods: set[Key]
    nodes: set[str]
    groups: dict[str, NodeGroup]
    owners: dict[tuple[str, Key], str]
    budgets: set[Key]
    namespaces: set[str]
    pod_groups: set[Key]


class _Before(NamedTuple):
    """The state before a delta: those keys of the last snapshot that the delta touches. `changes` : what the watches
    brought; `sent` : the keys; `groups` : declared groups by name; `group_of` : by node; `group_of_instance` : by
    provider id; `actuation`, `replaced` : as last sent.
    """

    changes: Changes
    sent: _SentKeys
    groups: dict[str, NodeGroup]
    group_of: dict[str, str]
    group_of_instance: Mapping[str, str]
    actuation: Actuation | None
    replaced: Mapping[str, bytes]


class SnapshotMaker:
    """Makes one sequence of snapshots: each delta is relative to the one before."""

    def __init__(
        self,
        store: WatchedObjects,
        minor: Callable[[], int] = lambda: 0,
        given: Callable[[], Set[str]] = lambda: frozenset(WATCHED),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`minor` : returns the minor version of the cluster's Kubernetes, 0 = unknown; called once for each whole
        snapshot of a cluster with devices. `given` : returns the kinds of which the store has all objects there are.
        `check` : called from time to time; raises to end the work.
        """
        self._store, self._read_minor, self._given, self._check = store, minor, given, check
        self._minor: int | None = None
        self._sent: _SentKeys | None = None
        # State before the last delta; None = the last snapshot was whole.
        self._before: _Before | None = None
        self._groups: dict[str, NodeGroup] = {}
        self._group_of: dict[str, str] = {}
        # Provider id to node group, as last known by the cloud.
        self._group_of_instance: Mapping[str, str] = {}
        self._actuation: Actuation | None = None
        self._tables = DeviceTables()
        # The messages that deltas replace whole, encoded, as last sent.
        self._replaced: Mapping[str, bytes] = {}

    def forget(self) -> None:
        """Make the next `next_update` return a whole snapshot."""
        self._sent = None

    def requeue(self) -> None:
        """Make the next `next_update` return the last changes again, plus those since: they did not arrive."""
        sent, before, self._before = self._sent, self._before, None
        if sent is None or before is None:
            self.forget()
            return
        changes, had = before.changes, before.sent
        self._store.add_changes(changes)
        _restore(sent.pods, changes.pods, had.pods)
        _restore(sent.budgets, changes.budgets, had.budgets)
        _restore(sent.nodes, changes.nodes, had.nodes)
        _restore(sent.namespaces, changes.namespaces, had.namespaces)
        _restore(sent.pod_groups, changes.pod_groups, had.pod_groups)
        for key in changes.owners:
            sent.owners.pop(key, None)
        sent.owners.update(had.owners)
        self._sent = sent._replace(groups=had.groups)
        self._groups, self._group_of, self._group_of_instance = before.groups, before.group_of, before.group_of_instance
        self._actuation, self._replaced = before.actuation, before.replaced

    def forget_minor(self) -> None:
        """Make the next devices ask for the minor version again."""
        self._minor = None

    def next_update(
        self,
        groups: Sequence[NodeGroup],
        actuation: Actuation | None,
        group_of_instance: Mapping[str, str] = MappingProxyType({}),
    ) -> SnapshotUpdate:
        """Return the changes since the last call, or the whole cluster. Errors: KubernetesError, ObjectError; the next
        call then returns the same changes, plus those since.

        group_of_instance : provider id to node group, as the cloud knows it
        """
        self._refuse_problems()
        sent, self._before = self._sent, None
        changes = self._store.take_changes()
        held = self._groups, self._group_of, self._group_of_instance, self._actuation, self._replaced
        try:
            return self._next_update(changes, groups, actuation, group_of_instance)
        except BaseException:
            self._store.add_changes(changes)
            self._sent = sent
            self._groups, self._group_of, self._group_of_instance, self._actuation, self._replaced = held
            raise

    def _next_update(
        self,
        changes: Changes,
        groups: Sequence[NodeGroup],
        actuation: Actuation | None,
        group_of_instance: Mapping[str, str],
    ) -> SnapshotUpdate:
        sent, self._sent = self._sent, None
        held = self._groups, self._group_of, self._group_of_instance, self._actuation, self._replaced
        by_name = {(group.metadata.name if group.metadata else None) or "": group for group in groups}
        moved = self._moved(group_of_instance)
        if sent is None:
            whole, self._minor = self._whole(by_name, actuation), None
            whole.notes.extend(self._add_devices(whole.snapshot, groups))
            return SnapshotUpdate(whole.snapshot, None, notes=tuple(whole.notes))
        changes.nodes.update(moved)
        if not any(changes) and by_name == self._groups and actuation == self._actuation:
            self._sent, self._before = sent, _Before(changes, _touched(sent, changes), *held)
            return SnapshotUpdate(None, pb.SnapshotDelta(changed=pb.ClusterSnapshot()), is_empty=True)
        changed_groups = self._regroup(by_name, changes.nodes)
        built = self._changed(changes, changed_groups, actuation)
        delta = pb.SnapshotDelta(changed=built.snapshot)
        # Their pods may claim devices.
        if changes.owners or changes.buffers or changes.devices or changes.pod_groups:
            self._add_requests(delta.changed)
        if changes.devices or declared_slices(groups) != declared_slices(held[0].values()):
            built.notes.extend(self._add_devices(delta.changed, groups))
        before = _Before(changes, _touched(sent, changes), *held)
        _add_deleted_keys(delta, sent, changes, self._store)
        delta.deleted_node_groups.extend(sorted(sent.groups.keys() - by_name.keys()))
        self._actuation, self._sent, self._before = actuation, sent._replace(groups=by_name), before
        return SnapshotUpdate(None, delta, notes=tuple(built.notes))

    def _refuse_problems(self) -> None:
        problems = sorted(self._store.problems.values())
        if problems:
            more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
            raise KubernetesError(
                "objects of the cluster cannot be used, and leaving them out could remove nodes they need: "
                + "; ".join(problems[:3])
                + more
            )

    def _whole(self, groups: dict[str, NodeGroup], actuation: Actuation | None) -> BuiltSnapshot:
        """Build the whole snapshot, and keep its keys."""
        store = self._store
        rows = _sorted_rows(store.pods)
        objects = self._objects({kind: list(store.objects[kind].values()) for kind in store.objects}, groups.values())
        nodes = {key[1]: node for key, node in store.objects["Node"].items()}
        known = Prebuilt(pods=rows, actuation=actuation, group_of_instance=self._group_of_instance, check=self._check)
        built = build_watched_snapshot(objects, known)
        snapshot = built.snapshot
        listed = {owner.uid for owner in snapshot.owners}
        owners = {
            (kind, key): uid
            for kind in OWNERS
            for key, one in store.objects[kind].items()
            if (uid := one.metadata.uid or "") in listed
        }
        self._sent = _SentKeys(
            set(store.pods),
            set(nodes),
            groups,
            owners,
            set(store.objects["PodDisruptionBudget"]),
            {key[1] for key in store.objects["Namespace"]},
            {(group.namespace, group.name) for group in snapshot.pod_groups},
        )
        self._replaced = {
            table: getattr(snapshot, table).SerializeToString(deterministic=True) for table in WITH_OWN_DICTIONARY
        }
        self._groups, self._actuation = groups, actuation
        self._group_of = {node.name: node.node_group for node in snapshot.nodes if node.node_group}
        return built

    def _moved(self, group_of_instance: Mapping[str, str]) -> list[str]:
        """Store the group of each instance; return the nodes whose group has changed."""
        before, self._group_of_instance = self._group_of_instance, group_of_instance
        if before == group_of_instance:
            return []
        changed = {instance for instance, _ in before.items() ^ group_of_instance.items()}
        present = self._store.objects["Node"].items()
        return [key[1] for key, node in present if node.spec and node.spec.provider_id in changed]

    def _add_requests(self, changed: pb.ClusterSnapshot) -> None:
        """Add the requests for slack and the ProvisioningRequests, each if they have changed."""
        objects = self._store.objects
        asking = {kind: _in_order(objects[kind]) for kind in (*WORKLOADS, *BUFFERS)}
        pods = [self._store.pods[key] for key in sorted(self._store.asking_pods)]
        classes = priority_classes(objects["PriorityClass"].values())
        claims = self._claim_objects()
        self._replace(changed, "slack_requests", slack_requests(asking, classes, pods, claims))
        self._replace(changed, "capacity_requests", capacity_requests(asking, classes, claims))

    def _add_devices(self, changed: pb.ClusterSnapshot, groups: Sequence[NodeGroup]) -> list[str]:
        """Add the devices and claims if they have changed; return notes."""
        by_kind = self._store.objects
        found, notes = self._tables.build(DeviceObjects.of(lambda kind: _in_order(by_kind[kind]), groups))
        if found is not None:
            self._minor = self._read_minor() if self._minor is None else self._minor
            found.kubernetes_minor = self._minor
        return notes if self._replace(changed, "devices", found) else []

    def _replace(self, changed: pb.ClusterSnapshot, table: str, found: Message | None) -> bool:
        """Add a message that deltas replace whole if it has changed; None = there is none. Return whether it has."""
        encoded = b"" if found is None else found.SerializeToString(deterministic=True)
        if encoded == self._replaced[table]:
            return False
        self._replaced = {**self._replaced, table: encoded}
        getattr(changed, table).SetInParent()
        if found is not None:
            getattr(changed, table).CopyFrom(found)
        return True

    def _regroup(self, groups: dict[str, NodeGroup], nodes: set[str]) -> list[NodeGroup]:
        """Update the membership of nodes; return the groups whose rows change. May add to `nodes`."""
        present = self._store.objects["Node"]
        if _membership(groups) != _membership(self._groups):
            nodes.update(key[1] for key in present)
        if not nodes and groups == self._groups:
            return []
        before = {name: 0 for name in groups} | _sizes(self._group_of)
        membership = Membership(groups.values(), self._group_of_instance)
        self._group_of = dict(self._group_of)
        for name in nodes:
            self._group_of.pop(name, None)
            node = present.get(("", name))
            if node is not None:
                found = membership.groups_of(name, node)
                if len(found) > 1:
                    one, other = sorted((group.metadata and group.metadata.name) or "" for group in found)[:2]
                    raise ObjectError("", "NodeGroup", other, shared_node_error(name, one))
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

    def _members(self, groups: Iterable[Key]) -> dict[Key, list[GroupMember]]:
        store = self._store
        rows = {key: [store.pods[pod] for pod in sorted(store.pods_in.get(key, ()))] for key in groups}
        return {key: [member_of(row.pod, row.phase) for row in found] for key, found in rows.items()}

    def _claim_objects(self) -> ClaimObjects:
        every = self._store.objects
        resources = provided_resources(every["DeviceClass"].values())
        are_known = bool({"ResourceClaim", "ResourceClaimTemplate"} & self._given())
        return ClaimObjects(
            every["ResourceClaim"], every["ResourceClaimTemplate"], every["PodGroup"], resources, are_known=are_known
        )

    def _storage(self) -> Storage | None:
        """Return claims and volumes; None if no claim is known."""
        every = self._store.objects
        if "PersistentVolumeClaim" not in self._given():
            return None
        return Storage(
            every["PersistentVolumeClaim"],
            _ByName(every["PersistentVolume"]),
            _ByName(every["StorageClass"]),
            Migration(_ByName(every["Node"]), _ByName(every["CSINode"])),
            required_drivers(every["CSIDriver"].values()),
        )

    def _objects(self, by_kind: dict[str, list[Any]], groups: Iterable[NodeGroup]) -> Objects:
        """Return objects in the builder's form."""
        return Objects(by_kind={**by_kind, "NodeGroup": list(groups)}, given=set(self._given()))

    def _unmounted(self, nodes: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
        every = self._store.objects
        attachments, pods = self._store.attached.on(nodes)
        return unmounted_attachments(
            _present(every["VolumeAttachment"], attachments),
            _present(self._store.pods, pods),
            every["PersistentVolumeClaim"],
            _ByName(every["PersistentVolume"]),
        )

    def _changed(self, changes: Changes, groups: Iterable[NodeGroup], actuation: Actuation | None) -> BuiltSnapshot:
        """Build the rows that have changed."""
        store = self._store
        every = store.objects
        made = changes.pods, changes.owners, changes.pod_groups
        chosen: dict[str, list[Any]] = {
            "Node": _present(every["Node"], (("", name) for name in changes.nodes)),
            "CSIDriver": list(every["CSIDriver"].values()),
            "CSINode": _present(every["CSINode"], (("", name) for name in changes.nodes)),
            "NodeClaim": list(every["NodeClaim"].values()) if changes.nodes else [],
            "Namespace": _present(every["Namespace"], (("", name) for name in changes.namespaces)),
            "PodDisruptionBudget": _present(every["PodDisruptionBudget"], changes.budgets),
            "PriorityClass": list(every["PriorityClass"].values()) if any(made) else [],
        }
        for kind in OWNERS:
            chosen[kind] = _present(every[kind], (key for of, key in changes.owners if of == kind))
        touched = [one for kind in OWNERS for one in chosen[kind]]
        part = ChangedPart(
            self._storage(),
            self._claim_objects(),
            changes.pod_groups,
            self._members(changes.pod_groups),
            group_objects(every),
            owners={uid for one in touched if (uid := one.metadata.uid or "") in store.pods_of},
            group_of=self._group_of,
            unmounted=self._unmounted(changes.nodes),
        )
        known = Prebuilt(
            pods=[store.pods[key] for key in sorted(changes.pods) if key in store.pods],
            actuation=actuation if actuation != self._actuation else None,
            part=part,
            check=self._check,
        )
        return build_watched_snapshot(self._objects(chosen, groups), known)


def _sorted_rows(pods: Mapping[Key, PodRow]) -> list[PodRow]:
    """Return the rows of pods by namespace and name, sorted in steps: no other thread runs during one."""
    names: dict[str, list[str]] = {}
    for namespace, name in pods:
        names.setdefault(namespace, []).append(name)
    return [pods[namespace, name] for namespace in sorted(names) for name in sorted(names[namespace])]


def _in_order(objects: Mapping[Key, Any]) -> list[Any]:
    return [objects[key] for key in sorted(objects)]


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


def _add_deleted_keys(delta: pb.SnapshotDelta, sent: _SentKeys, changes: Changes, store: WatchedObjects) -> None:
    """List the rows that were sent and are gone; update `sent`."""
    objects = store.objects
    for namespace, name in _gone(sent.pods, changes.pods, store.pods):
        delta.deleted_pods.append(f"{namespace}/{name}")
    nodes = {key[1] for key in (("", name) for name in changes.nodes) if key in objects["Node"]}
    delta.deleted_nodes.extend(_gone(sent.nodes, changes.nodes, nodes))
    for namespace, name in _gone(sent.budgets, changes.budgets, objects["PodDisruptionBudget"]):
        delta.deleted_pod_disruption_budgets.append(f"{namespace}/{name}")
    namespaces = {name for name in changes.namespaces if ("", name) in objects["Namespace"]}
    delta.deleted_namespaces.extend(_gone(sent.namespaces, changes.namespaces, namespaces))
    groups = {(group.namespace, group.name) for group in delta.changed.pod_groups}
    for namespace, name in _gone(sent.pod_groups, changes.pod_groups, groups):
        delta.deleted_pod_groups.append(f"{namespace}/{name}")
    listed = {owner.uid for owner in delta.changed.owners}
    deleted = set()
    for kind, key in changes.owners:
        before = sent.owners.pop((kind, key), "")
        one = objects[kind].get(key)
        uid = (one.metadata.uid if one is not None else None) or ""
        if uid in listed:
            sent.owners[kind, key] = uid
        if before and before != sent.owners.get((kind, key)):
            deleted.add(before)
    delta.deleted_owners.extend(sorted(deleted - listed))


def _touched(sent: _SentKeys, changes: Changes) -> _SentKeys:
    """Return the keys of the last snapshot that the changes touch, and all of its groups."""
    return _SentKeys(
        sent.pods & changes.pods,
        sent.nodes & changes.nodes,
        sent.groups,
        {key: sent.owners[key] for key in changes.owners if key in sent.owners},
        sent.budgets & changes.budgets,
        sent.namespaces & changes.namespaces,
        sent.pod_groups & changes.pod_groups,
    )


def _restore(keys: set[K], touched: set[K], present: set[K]) -> None:
    """Undo a delta's changes to the keys of the last snapshot, in place."""
    keys -= touched
    keys |= present


def _gone(sent: set[K], touched: set[K], present: Container[K]) -> list[K]:
    """Return the touched keys that were sent and are gone, sorted; update `sent`."""
    missing = {key for key in touched if key not in present}
    gone = sorted(missing & sent)
    sent |= touched
    sent -= missing
    return gone


def _membership(groups: Mapping[str, NodeGroup]) -> dict[str, Any]:
    """Return the fields that decide which nodes belong to which group."""
    return {name: group.spec and (group.spec.node_selector, group.spec.nodes) for name, group in groups.items()}


def _present(objects: Mapping[Key, Any], keys: Iterable[Key]) -> list[Any]:
    return [objects[key] for key in keys if key in objects]


def _sizes(group_of: Mapping[str, str]) -> dict[str, int]:
    return Counter(group_of.values())
