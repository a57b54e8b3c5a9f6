"""Kubernetes objects to `ClusterSnapshot`. Resolves references between objects; other modules build the rows.

Deterministic: the same objects give the same bytes, whatever their order or files. Never reads files, clocks or
the environment.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, pairwise
from operator import lt
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.common.kubernetes.kinds.controllers import DaemonSet, PodTemplateSpec
from trimtab.common.kubernetes.kinds.nodes import CSINode, Node
from trimtab.common.kubernetes.kinds.pods import Pod
from trimtab.common.kubernetes.object_errors import FieldError, ObjectError
from trimtab.common.kubernetes.registry import BY_KIND, CONTROLLERS
from trimtab.common.kubernetes.signals.well_known import NAMESPACE_NAME
from trimtab.common.objects.absent import absent_from
from trimtab.common.objects.admission import pod_of_template
from trimtab.common.objects.attachments import unmounted_attachments
from trimtab.common.objects.budgets import budget_row
from trimtab.common.objects.capacity_requests import capacity_requests
from trimtab.common.objects.csi_drivers import required_drivers
from trimtab.common.objects.devices.pod_claims import ClaimObjects, claim_objects
from trimtab.common.objects.devices.table import DeviceObjects, DeviceTables
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.karpenter.offers import MachineOffer, given_offers
from trimtab.common.objects.karpenter.pools import karpenter_objects, nodes_of_deleted_claims, pool_groups
from trimtab.common.objects.kubelet_versions import minor_of_kubelets
from trimtab.common.objects.migration import Migration
from trimtab.common.objects.node_groups import Membership, add_daemon_set_pods, group_row, shared_node_error, size_notes
from trimtab.common.objects.nodes import node_notes, node_row, resource_names, unreported_note
from trimtab.common.objects.not_read import not_read_notes
from trimtab.common.objects.object_names import FREELY_NAMED, first_refused
from trimtab.common.objects.objects import Objects, by_key, name_of
from trimtab.common.objects.owners import is_listed, owner_row, pod_template, template_row
from trimtab.common.objects.pod_groups import (
    GROUP_KINDS,
    GroupMember,
    PodGroupObjects,
    PodGroupReader,
    group_objects,
)
from trimtab.common.objects.pod_rows import PodRow, pod_row, successor_of
from trimtab.common.objects.pod_specs import PodSpecTable, priority_classes
from trimtab.common.objects.pods import PodColumnsBuilder
from trimtab.common.objects.slack_requests import slack_requests
from trimtab.common.objects.value_notes import annotated, value_notes
from trimtab.common.objects.volumes import Storage
from trimtab.common.rpc.collection import collection_paused
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.words import counted

Progress = Callable[[int, int], None]
"""Called with (done, total), in one unit of work for the whole call; the last call has done == total."""

_STEP = 4096


class BuiltSnapshot(NamedTuple):
    """A snapshot, and notes for the user about its input. settings : what NodePools ask of plans; None = nothing."""

    snapshot: pb.ClusterSnapshot
    notes: list[str]
    settings: plan_pb2.PlanSettings | None = None


class Eviction(NamedTuple):
    """A recently evicted pod, with its row; `time` : of the eviction."""

    row: PodRow
    time: Timestamp


class Actuation(NamedTuple):
    """The part of an actuator's status that a snapshot contains. `deletions` : in progress; `evictions` : recent."""

    deletions: Sequence[pb.DeletionInProgress] = ()
    evictions: Sequence[Eviction] = ()


class Prebuilt(NamedTuple):
    """Results that a caller who watches a cluster already has.

    pods : rows of all pods, or the changed ones, by (namespace, name), in place of Pod objects
    group_of_instance : provider id to node group, as the cloud knows it; wins over selectors
    part : None = the objects are the whole cluster
    actuation : None = without an actuator; check : called from time to time, raises to end the work
    """

    pods: Sequence[PodRow]
    actuation: Actuation | None = None
    group_of_instance: Mapping[str, str] = MappingProxyType({})
    part: "ChangedPart | None" = None
    check: Callable[[], None] = lambda: None


class ChangedPart(NamedTuple):
    """What the rows of a part of a cluster need of the rest of it, as for a delta.

    storage : claims and volumes, in place of objects; None = no claim is known
    claim_objects : claims of devices and what they refer to, likewise
    groups : keys of the groups of pods whose rows change; members, group_objects : what they follow from
    owners : uids of controllers that own pods, besides those of the changed pods
    group_of : node to node group, in place of the groups' own selectors; a node not named has none
    unmounted : of the changed nodes, attached volumes that no pod mounts, by driver
    """

    storage: Storage | None
    claim_objects: ClaimObjects
    groups: Set[tuple[str, str]]
    members: Mapping[tuple[str, str], Sequence[GroupMember]]
    group_objects: PodGroupObjects
    owners: Set[str]
    group_of: Mapping[str, str]
    unmounted: Mapping[str, Mapping[str, int]]


def build_snapshot(
    objects: Objects, progress: Progress | None = None, offers: Sequence[MachineOffer] | None = None
) -> BuiltSnapshot:
    """Return the snapshot of a cluster's objects. offers : machines that NodePools may have; None = the MachineOffer
    objects, without any those of the nodes.

    Errors: ObjectError for an object that Kubernetes would refuse, for two objects of one kind and name, and for a
    node in two groups. Cost: a few microseconds a pod.
    """
    with collection_paused():
        if not objects.of("NodePool"):
            return _Builder(objects).build(progress)
        if offers is None and "MachineOffer" in objects.given:
            offers = given_offers(_sorted_unique(objects, "MachineOffer"))
        pools = pool_groups(karpenter_objects(objects.by_kind), offers)
        groups = [*objects.of("NodeGroup"), *pools.groups]
        built = _Builder(replace(objects, by_kind={**objects.by_kind, "NodeGroup": groups})).build(progress)
    return BuiltSnapshot(built.snapshot, [*built.notes, *pools.notes], pools.settings)


def build_watched_snapshot(objects: Objects, prebuilt: Prebuilt) -> BuiltSnapshot:
    """Return the snapshot of a watched cluster, or of its changed part. Errors and cost as of `build_snapshot`."""
    with collection_paused():
        return _WatchedBuilder(objects, prebuilt).build(None)


class _Builder:
    """The state of one call, for objects of files."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._sorted = {kind: _sorted_unique(objects, kind) for kind in objects.by_kind}
        self._snapshot = pb.ClusterSnapshot()
        self._notes = [*objects.notes, *not_read_notes(objects)]
        templates = [group.spec.template for group in self._of("NodeGroup") if group.spec and group.spec.template]
        self._dictionary = Dictionary(sorted(resource_names([*self._of("Node"), *templates])))
        self._priorities = priority_classes(self._of("PriorityClass"))
        self._claims = self._claim_objects()
        self._specs = PodSpecTable(self._dictionary, self._priorities, self._claims)
        self._required_drivers = required_drivers(self._of("CSIDriver"))

    def build(self, progress: Progress | None) -> BuiltSnapshot:
        """Build every table, the dictionaries last."""
        owners = self._pods(progress)
        self._nodes()
        self._owners(owners)
        self._pod_groups()
        self._note_specs()
        for budget in self._of("PodDisruptionBudget"):
            with self._naming("PodDisruptionBudget", budget):
                self._snapshot.pod_disruption_budgets.append(budget_row(budget, self._dictionary))
        self._namespaces()
        self._slack()
        self._devices()
        self._capacity_requests()
        self._dictionary.write(self._snapshot)
        self._note_absent_kinds()
        return BuiltSnapshot(self._snapshot, self._notes)

    def _rows(self) -> Sequence[PodRow]:
        """Return rows in place of Pod objects."""
        return ()

    def _slack(self) -> None:
        requests = slack_requests(self._sorted, self._priorities, self._rows(), self._claims)
        if requests is not None:
            self._snapshot.slack_requests.CopyFrom(requests)

    def _claim_objects(self) -> ClaimObjects:
        return claim_objects(self._sorted, {"ResourceClaim", "ResourceClaimTemplate"} & self._objects.given)

    def _devices(self) -> None:
        devices, notes = DeviceTables().build(DeviceObjects.of(self._of, self._of("NodeGroup")))
        if devices is not None:
            devices.kubernetes_minor = minor_of_kubelets(self._of("Node"))
            self._snapshot.devices.CopyFrom(devices)
        self._notes.extend(notes)

    def _capacity_requests(self) -> None:
        requests = capacity_requests(self._sorted, self._priorities, self._claims)
        if requests is not None:
            self._snapshot.capacity_requests.CopyFrom(requests)

    def _note_absent_kinds(self) -> None:
        self._notes += absent_from(self._objects, self._snapshot)
        self._notes += value_notes(self._objects, annotated(self._objects.of("Pod")))

    def _of(self, kind: str) -> list[Any]:
        return self._sorted.get(kind, [])

    @contextmanager
    def _naming(self, kind: str, obj: Any) -> Iterator[None]:
        try:
            yield
        except FieldError as error:
            raise self._objects.error(kind, obj, error) from None

    def _pods(self, progress: Progress | None) -> set[str]:
        storage = self._storage()
        builder = PodColumnsBuilder(self._dictionary, self._specs, storage)
        self._add_pods(builder, progress)
        self._unmounted = self._count_unmounted(builder.rows, storage)
        owners = builder.write(self._snapshot.pods)
        self._members = builder.members
        self._actuation()
        self._note_specs()
        if builder.unknown_claims:
            self._notes.append(
                f"{builder.unknown_claims} mounts of PersistentVolumeClaims count as usable on every node, because the "
                "input has no PersistentVolumeClaim; add `kubectl get pvc,pv,storageclass,csinode -A` to check them"
            )
        return owners

    def _count_unmounted(self, rows: Sequence[PodRow], storage: Storage | None) -> Mapping[str, Mapping[str, int]]:
        """Return the attached volumes that no pod mounts, by node and driver."""
        volumes = {volume.metadata.name: volume for volume in self._of("PersistentVolume")}
        return unmounted_attachments(self._of("VolumeAttachment"), rows, storage.claims if storage else {}, volumes)

    def _note_specs(self) -> None:
        """Add the notes on pod specs that were read since the last call."""
        self._notes.extend(sorted(set(self._specs.notes)))
        self._specs.notes.clear()

    def _actuation(self) -> None:
        """Add the actuator's status: files have none."""

    def _add_pods(self, builder: PodColumnsBuilder, progress: Progress | None) -> None:
        pods: list[Pod] = self._of("Pod")
        for start in range(0, len(pods), _STEP):
            for pod in pods[start : start + _STEP]:
                try:
                    builder.add(pod_row(pod, self._objects.numbers))
                except FieldError as error:
                    raise self._objects.error("Pod", pod, error) from None
            if progress is not None:
                progress(min(start + _STEP, len(pods)), len(pods))

    def _storage(self) -> Storage | None:
        if "PersistentVolumeClaim" not in self._objects.given:
            return None
        if "PersistentVolume" not in self._objects.given and any(
            claim.spec and claim.spec.volume_name for claim in self._of("PersistentVolumeClaim")
        ):
            self._notes.append("the input has bound PersistentVolumeClaims but no PersistentVolume: they fit nowhere")
        return Storage(
            {(c.metadata.namespace, c.metadata.name): c for c in self._of("PersistentVolumeClaim")},
            {volume.metadata.name: volume for volume in self._of("PersistentVolume")},
            {one.metadata.name: one for one in self._of("StorageClass")},
            Migration([node.metadata.name for node in self._of("Node")], self._csi_nodes()),
            self._required_drivers,
        )

    def _csi_nodes(self) -> dict[str, CSINode]:
        return {one.metadata.name: one for one in self._of("CSINode")}

    def _nodes(self) -> None:
        nodes: dict[str, Node] = {node.metadata.name: node for node in self._of("Node")}
        limits = self._csi_nodes()
        group_of = self._group_of(nodes)
        sizes = Counter(group_of.values())
        for group in self._of("NodeGroup"):
            with self._naming("NodeGroup", group):
                row = group_row(group, sizes[group.metadata.name], self._dictionary)
                add_daemon_set_pods(group, row, self._specs)
            self._snapshot.node_groups.append(row)
            self._notes.extend(size_notes(group, row))
            self._note_absent(group, nodes)
        leaving = nodes_of_deleted_claims(self._of("NodeClaim"))
        for name, node in nodes.items():
            with self._naming("Node", node):
                taken = self._unmounted.get(name, {})
                found = node_row(node, limits.get(name), self._dictionary, self._required_drivers, taken)
            found.node_group = group_of.get(name, "")
            found.being_deleted |= name in leaving
            self._snapshot.nodes.append(found)
        self._notes.extend(node_notes(nodes.values(), self._snapshot.nodes))
        self._note_unreported(nodes)

    def _note_unreported(self, nodes: dict[str, Node]) -> None:
        self._notes.extend(unreported_note(nodes.values()))

    def _membership(self) -> Membership:
        return Membership(self._of("NodeGroup"))

    def _group_of(self, nodes: dict[str, Node]) -> Mapping[str, str]:
        """Return the name of the group of each node that has one. Errors: ObjectError for a node in two groups."""
        membership = self._membership()
        group_of: dict[str, str] = {}
        for name, node in nodes.items():
            for group in membership.groups_of(name, node):
                group_name = group.metadata.name if group.metadata and group.metadata.name else ""
                other = group_of.setdefault(name, group_name)
                if other != group_name:
                    raise self._objects.error("NodeGroup", group, shared_node_error(name, other))
        return group_of

    def _note_absent(self, group: Any, nodes: dict[str, Node]) -> None:
        absent = sorted(set((group.spec and group.spec.nodes) or ()) - nodes.keys())
        if absent:
            shown = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
            self._notes.append(
                f"NodeGroup {group.metadata.name} names {counted(len(absent), 'node')} not in the input: {shown}"
            )

    def _owners(self, wanted: set[str]) -> None:
        """Add the rows of controllers that own a pod of the input, or want replicas and may have owned one before, and
        those of all DaemonSets with a template.
        """
        rows = []
        for kind in CONTROLLERS:
            for controller in self._of(kind):
                with self._naming(kind, controller):
                    row = owner_row(kind, controller, self._dictionary)
                    if isinstance(controller, DaemonSet):
                        template = pod_template(controller, self._dictionary, self._specs)
                        row.pod_template.CopyFrom(template) if template is not None else None
                    if is_listed(row, wanted):
                        rows.append((row.uid, kind, controller, row))
        rows.sort(key=lambda one: one[:2])
        for previous, (uid, kind, controller, row) in zip([None, *rows], rows, strict=False):
            if previous is not None and previous[0] == uid:
                other = f"{previous[1]} {name_of(previous[1], previous[2])}"
                error = FieldError("metadata.uid", f"{uid} is the uid of {other} too", "leave one of the two out")
                raise self._objects.error(kind, controller, error)
            self._snapshot.owners.append(row)

    def _pod_groups(self) -> None:
        """Add the groups of pods that exist."""
        if not self._members and not self._of("PodGroup"):
            return
        objects = self._group_objects()
        reader = PodGroupReader(self._members, objects, self._dictionary.string, self._template)
        self._snapshot.pod_groups.extend(reader.rows([*objects.groups, *self._members]))

    def _group_objects(self) -> PodGroupObjects:
        return group_objects({kind: by_key(self._of(kind)) for kind in GROUP_KINDS})

    def _template(self, template: PodTemplateSpec, namespace: str, name: str) -> pb.TemplatePod:
        pod = pod_of_template(template, namespace, name)
        return template_row(pod, self._dictionary, self._specs, f"a pod of {namespace}/{name}")

    def _namespaces(self) -> None:
        for one in self._of("Namespace"):
            name = one.metadata.name
            labels = {NAMESPACE_NAME.key: name} | (one.metadata.labels or {})
            self._snapshot.namespaces.append(pb.Namespace(name=name, label_set=self._dictionary.label_set(labels)))


class _WatchedBuilder(_Builder):
    """The state of one call for a watched cluster: pods are rows, and nodes may be new."""

    def __init__(self, objects: Objects, prebuilt: Prebuilt) -> None:
        self._prebuilt = prebuilt
        super().__init__(objects)

    def _rows(self) -> Sequence[PodRow]:
        return self._prebuilt.pods

    def _slack(self) -> None:
        if self._prebuilt.part is None:  # otherwise the workloads are only a part of the cluster
            super()._slack()

    def _claim_objects(self) -> ClaimObjects:
        part = self._prebuilt.part
        return super()._claim_objects() if part is None else part.claim_objects

    def _pod_groups(self) -> None:
        part = self._prebuilt.part
        if part is None:
            super()._pod_groups()
            return
        reader = PodGroupReader(part.members, part.group_objects, self._dictionary.string, self._template)
        self._snapshot.pod_groups.extend(reader.rows(part.groups))

    def _devices(self) -> None:
        """Who watches a cluster keeps the tables from one snapshot to the next."""

    def _note_absent_kinds(self) -> None:
        """A watched cluster lacks no kind."""

    def _note_unreported(self, nodes: dict[str, Node]) -> None:
        """A new node may not have reported yet."""

    def _note_absent(self, group: Any, nodes: dict[str, Node]) -> None:
        if self._prebuilt.part is None:
            super()._note_absent(group, nodes)

    def _storage(self) -> Storage | None:
        part = self._prebuilt.part
        return super()._storage() if part is None else part.storage

    def _count_unmounted(self, rows: Sequence[PodRow], storage: Storage | None) -> Mapping[str, Mapping[str, int]]:
        part = self._prebuilt.part
        return super()._count_unmounted(rows, storage) if part is None else part.unmounted

    def _membership(self) -> Membership:
        return Membership(self._of("NodeGroup"), self._prebuilt.group_of_instance)

    def _group_of(self, nodes: dict[str, Node]) -> Mapping[str, str]:
        part = self._prebuilt.part
        return super()._group_of(nodes) if part is None else part.group_of

    def _owners(self, wanted: set[str]) -> None:
        part = self._prebuilt.part
        super()._owners(wanted if part is None else wanted | part.owners)

    def _add_pods(self, builder: PodColumnsBuilder, progress: Progress | None) -> None:
        del progress  # rows take no time to show
        rows = self._rows()
        refused = first_refused([row.name for row in rows], [row.namespace for row in rows])
        if refused is not None:
            row = rows[refused[0]]
            raise ObjectError("", "Pod", f"{row.namespace}/{row.name}", refused[1])
        for number, row in enumerate(rows):
            if number % _STEP == 0:
                self._prebuilt.check()
            try:
                builder.add(row)
            except FieldError as error:
                raise ObjectError("", "Pod", f"{row.namespace}/{row.name}", error) from None

    def _actuation(self) -> None:
        actuation = self._prebuilt.actuation
        if actuation is None:
            return
        status = self._snapshot.actuation_status
        status.SetInParent()
        status.deletions.extend(actuation.deletions)
        for row, time in actuation.evictions:
            status.recent_evictions.add(
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                spec=self._specs.index(
                    row.spec_key, row.pod, row.mounts, f"{row.namespace}/{row.name}", successor_of(row)
                ),
                label_set=self._dictionary.label_pairs(row.labels),
                owner=row.owner or None,
                evict_time=time,
            )


def check_names(objects: Objects, kind: str, items: list[Any]) -> None:
    """Check names and namespaces as the API server does. Errors: ObjectError."""
    if kind in FREELY_NAMED:
        return
    namespaces = [] if not BY_KIND[kind].is_namespaced else [one.metadata.namespace for one in items]
    refused = first_refused([one.metadata.name for one in items], namespaces)
    if refused is not None:
        raise objects.error(kind, items[refused[0]], refused[1])


def _sorted_unique(objects: Objects, kind: str) -> list[Any]:
    """Return the objects of a kind sorted by (namespace, name). Errors: ObjectError for no name or a duplicate."""
    items = objects.of(kind)
    for at, one in enumerate(items):
        if kind == "Pod" and one.metadata is not None and not one.metadata.name and one.metadata.generate_name:
            one.metadata.name = f"{one.metadata.generate_name}{at}"
        if one.metadata is None or not one.metadata.name:
            error = FieldError("metadata.name", "it is missing", "give every object a name")
            raise objects.error(kind, one, error)
    check_names(objects, kind, items)
    keys = [one.metadata.name for one in items]
    if BY_KIND[kind].is_namespaced:
        keys = list(zip([one.metadata.namespace for one in items], keys, strict=True))
    if all(map(lt, keys, islice(keys, 1, None))):  # as kubectl lists them
        return list(items)
    items = [items[at] for at in sorted(range(len(items)), key=keys.__getitem__)]
    for one, other in pairwise(items):
        if one.metadata.name == other.metadata.name and name_of(kind, one) == name_of(kind, other):
            first, second = (objects.file_of(kind, obj) or "the input" for obj in (one, other))
            problem = f"it is given twice, in {first} and in {second}"
            raise objects.error(kind, other, FieldError("", problem, "leave one of the two out"))
    return items
