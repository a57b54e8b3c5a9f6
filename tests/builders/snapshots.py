"""Clusters as plain rows with all strings in place, written as `ClusterSnapshot` or `SnapshotDelta` in any numbering.

A `Cluster` has the content; `write` writes it as a message, with rows and dictionaries shuffled by a seed and with
unreferenced entries. Random ones are drawn by `tests.builders.random_clusters`.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tests.builders.device_snapshots import NO_WORLD, DeviceWorld, write_devices
from tests.builders.rows import Labels, NodeRow, PodRow, length_of
from trimtab.planner.model.values import (
    AffinityTerm,
    DeletionInProgress,
    DisruptionBudget,
    LabelRequirement,
    MountedVolume,
    NodeAffinityTerm,
    Owner,
    PodGroup,
    PodRequirements,
    SlackRequest,
    SpreadConstraint,
)
from trimtab.planner.slack.specs import SpecWriter, add_claims
from trimtab.v1 import snapshot_pb2 as pb

LabelPairs = tuple[tuple[str, str], ...]
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "example.com/licence")


class Group(NamedTuple):
    """One node group."""

    min_size: int = 0
    max_size: int = 10
    target_size: int = 1
    template: NodeRow | None = None
    price: float | None = None
    health: int = 0
    backoff_ns: int = 0
    zero_or_max: bool = False
    last_scale_up_ns: int = 0
    last_deletion_ns: int = 0
    last_failure_ns: int = 0
    daemonset_pods: tuple[tuple[str, PodRequirements, LabelPairs], ...] = ()
    """Namespace, spec and labels of pods in the template."""


class Eviction(NamedTuple):
    """A recently evicted pod."""

    uid: str
    spec: PodRequirements | None
    labels: LabelPairs
    owner: str
    evict_ns: int


@dataclass(frozen=True)
class Cluster:
    """All rows by key: the key of a node or pod counts, not the names in its row.

    volumes : those written even if no pod mounts them; those of pods need not be listed.
    """

    pods: Mapping[tuple[str, str], PodRow] = field(default_factory=dict)
    volumes: Mapping[str, MountedVolume] = field(default_factory=dict)
    nodes: Mapping[str, NodeRow] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)
    budgets: Mapping[tuple[str, str], DisruptionBudget] = field(default_factory=dict)
    namespaces: Mapping[str, LabelPairs] = field(default_factory=dict)
    deletions: Mapping[str, DeletionInProgress] = field(default_factory=dict)
    evictions: Mapping[tuple[str, str], Eviction] = field(default_factory=dict)
    slack: tuple[SlackRequest, ...] = ()
    devices: DeviceWorld = NO_WORLD
    pod_groups: Mapping[tuple[str, str], PodGroup] = field(default_factory=dict)


def write(cluster: Cluster, seed: int = 0, in_order: bool = False) -> pb.ClusterSnapshot:
    """Write a cluster as a message; the seed shuffles rows and dictionaries, `in_order` keeps pods in theirs."""
    return _Writer(cluster, random.Random(seed), in_order).write()


def write_delta(before: Cluster, after: Cluster, seed: int = 0) -> pb.SnapshotDelta:
    """Write what turns one cluster into another."""
    tables: dict[str, Any] = {}
    for table in ("pods", "nodes", "groups", "owners", "budgets", "namespaces", "pod_groups"):
        old, new = getattr(before, table), getattr(after, table)
        tables[table] = {key: row for key, row in new.items() if key not in old or old[key] != row}
    if before.slack != after.slack:
        tables["slack"] = after.slack
    if before.devices != after.devices:
        tables["devices"] = after.devices
    acting = (before.deletions, before.evictions) != (after.deletions, after.evictions)
    if acting:
        tables |= {"deletions": after.deletions, "evictions": after.evictions}
    delta = pb.SnapshotDelta(changed=write(replace(Cluster(volumes=after.volumes), **tables), seed))
    if acting:
        delta.changed.actuation_status.SetInParent()
    else:
        delta.changed.ClearField("actuation_status")
    if before.slack != after.slack:
        delta.changed.slack_requests.SetInParent()
    if before.devices != after.devices:
        delta.changed.devices.SetInParent()
    delta.deleted_pods.extend(f"{ns}/{name}" for ns, name in before.pods.keys() - after.pods.keys())
    delta.deleted_nodes.extend(before.nodes.keys() - after.nodes.keys())
    delta.deleted_node_groups.extend(before.groups.keys() - after.groups.keys())
    delta.deleted_owners.extend(before.owners.keys() - after.owners.keys())
    gone = before.budgets.keys() - after.budgets.keys()
    delta.deleted_pod_disruption_budgets.extend(f"{ns}/{name}" for ns, name in gone)
    delta.deleted_namespaces.extend(before.namespaces.keys() - after.namespaces.keys())
    delta.deleted_pod_groups.extend(f"{ns}/{name}" for ns, name in before.pod_groups.keys() - after.pod_groups.keys())
    return delta


class _Writer:
    """Numbers strings, label sets, specs and volumes in shuffled order while it writes rows."""

    def __init__(self, cluster: Cluster, chance: random.Random, in_order: bool) -> None:
        self._cluster = cluster
        self._chance = chance
        self._in_order = in_order
        self._strings = ["", *self._shuffled(["unused", "b", "a", "zone"])]
        self._string_rows = {text: row for row, text in enumerate(self._strings)}
        self._resources = self._shuffled(RESOURCES)
        rows = [*cluster.pods.values(), *cluster.evictions.values()]
        nodes = [*cluster.nodes.values(), *(g.template for g in cluster.groups.values() if g.template)]
        daemons = [pod for group in cluster.groups.values() for pod in group.daemonset_pods]
        templates = [one.pod_template for one in (*cluster.owners.values(), *cluster.pod_groups.values())]
        daemons += [(one.namespace, one.spec, one.labels) for one in templates if one is not None]
        sets = (
            {labels for _, _, labels in daemons}
            | {pairs(row.labels) for row in (*cluster.pods.values(), *nodes)}
            | {row.labels for row in cluster.evictions.values()}
            | set(cluster.namespaces.values())
            | {(("unused", "x"),)}
        )
        self._label_sets: list[LabelPairs] = [(), *self._shuffled(sorted(sets))]
        rows_by_set = [(labels, row) for row, labels in enumerate(self._label_sets)]
        self._label_set_rows = dict(reversed(rows_by_set))  # the empty set can be there twice: the first stands for it
        self._specs = self._shuffled(
            list(
                dict.fromkeys(
                    [
                        PodRequirements(priority=77),
                        *(row.spec for row in rows if row.spec),
                        *(pod[1] for pod in daemons),
                    ]
                )
            )
        )
        asked = {name for spec in self._specs for name, _ in spec.requests}
        self._resources += sorted(asked - set(RESOURCES))
        self._spec_rows = {spec: row for row, spec in enumerate(self._specs)}
        self._volumes = dict(cluster.volumes) | {one.id: one for pod in cluster.pods.values() for one in pod.volumes}
        self._volume_ids = self._shuffled(self._volumes)

    def write(self) -> pb.ClusterSnapshot:
        """Write all tables, the strings last."""
        out, cluster = pb.ClusterSnapshot(resources=self._resources), self._cluster
        self._write_label_sets(out.label_sets)
        out.pod_specs.extend(self._spec(spec) for spec in self._specs)
        out.volumes.extend(self._volume(self._volumes[one]) for one in self._volume_ids)
        self._write_pods(out.pods)
        out.nodes.extend(self._node(name, row) for name, row in self._shuffled([*cluster.nodes.items()]))
        out.node_groups.extend(self._group(*item) for item in self._shuffled([*cluster.groups.items()]))
        out.owners.extend(self._owner(row) for row in self._shuffled([*cluster.owners.values()]))
        out.pod_disruption_budgets.extend(self._budget(row) for row in self._shuffled([*cluster.budgets.values()]))
        out.pod_groups.extend(self._pod_group(row) for row in self._shuffled([*cluster.pod_groups.values()]))
        for name, labels in self._shuffled([*cluster.namespaces.items()]):
            out.namespaces.add(name=name, label_set=self._label_sets.index(labels))
        self._write_actuation(out.actuation_status)
        if cluster.slack:
            out.slack_requests.CopyFrom(slack_requests(self._shuffled(cluster.slack)))
        if cluster.devices != NO_WORLD:
            out.devices.CopyFrom(write_devices(cluster.devices, self._chance.randrange(1 << 30)))
        out.strings.extend(self._strings)
        return out

    def _shuffled(self, rows: Iterable[Any]) -> list[Any]:
        listed = list(rows)
        self._chance.shuffle(listed)
        return listed

    def _string(self, text: str) -> int:
        if text not in self._string_rows:
            self._string_rows[text] = len(self._strings)
            self._strings.append(text)
        return self._string_rows[text]

    def _write_label_sets(self, out: pb.LabelSets) -> None:
        keys: list[int] = []
        values: list[int] = []
        offsets = [0]
        for labels in self._label_sets:
            for key, value in self._shuffled(labels):
                keys.append(self._string(key))
                values.append(self._string(value))
            offsets.append(len(keys))
        out.offsets, out.keys, out.values = int32(offsets), int32(keys), int32(values)

    def _write_pods(self, out: pb.PodTable) -> None:
        rows = list(self._cluster.pods.items())
        rows = sorted(rows) if self._in_order else self._shuffled(rows)
        names, uids = [key[1].encode() for key, _ in rows], [uid(*row).encode() for row in rows]
        pods = [pod for _, pod in rows]
        out.count = len(rows)
        out.namespace = int32([self._string(key[0]) for key, _ in rows])
        out.names, out.name_lengths = b"".join(names), int32(map(len, names))
        out.uids, out.uid_lengths = b"".join(uids), int32(map(len, uids))
        out.spec = int32([self._spec_rows[pod.spec] for pod in pods])
        out.label_set = int32([self._label_set_rows[pairs(pod.labels)] for pod in pods])
        out.node = int32([self._string(pod.node) for pod in pods])
        out.owner = int32([self._string(pod.owner) for pod in pods])
        out.created = np.array([pod.created_s for pod in pods], "<i8").tobytes()
        out.deletion = np.array([pod.deletion_s for pod in pods], "<i8").tobytes()
        out.phase = bytes(pod.phase for pod in pods)
        out.flags = bytes(pod.flags for pod in pods)
        out.deletion_cost = int32([pod.deletion_cost for pod in pods])
        out.pinned_node = int32([self._string(pod.pinned) for pod in pods])
        if any(pod.nominated for pod in pods):
            out.nominated_node = int32([self._string(pod.nominated) for pod in pods])
        if any(pod.pod_group for pod in pods):
            out.pod_group = int32([self._string(pod.pod_group) for pod in pods])
        mounts = [(i, volume) for i, pod in enumerate(pods) for volume in self._shuffled(pod.volumes)]
        out.volume_pod = int32([i for i, _ in mounts])
        out.volume = int32([self._volume_ids.index(volume.id) for _, volume in mounts])
        numbers = [(i, key, value) for i, pod in enumerate(pods) for key, value in self._shuffled(pod.numbers)]
        out.number_pod = int32([i for i, _, _ in numbers])
        out.number_key = int32([self._string(key) for _, key, _ in numbers])
        out.number = np.array([value for _, _, value in numbers], "<f8").tobytes()

    def _pairs(self, out: Any, labels: LabelPairs) -> None:
        for key, value in self._shuffled(labels):
            out.add(key=self._string(key), value=self._string(value))

    def _requirements(self, out: Any, requirements: Iterable[LabelRequirement]) -> None:
        for one in requirements:
            values = [self._string(value) for value in self._shuffled(one.values)]
            out.add(key=self._string(one.key), operator=one.operator, values=values)

    def _selector(self, out: pb.LabelSelector, selector: tuple[LabelRequirement, ...] | None) -> None:
        if selector is not None:
            out.SetInParent()
            self._requirements(out.requirements, selector)

    def _terms(self, out: pb.NodeSelector, terms: tuple[NodeAffinityTerm, ...] | None) -> None:
        if terms is not None:
            out.SetInParent()
            for term in terms:
                message = out.terms.add()
                self._requirements(message.match_expressions, term.match_expressions)
                self._requirements(message.match_fields, term.match_fields)

    def _spec(self, spec: PodRequirements) -> pb.PodSpec:
        out = pb.PodSpec(
            priority=spec.priority,
            scheduler_name=self._string(spec.scheduler_name),
            restart_policy=spec.restart_policy,
            termination_grace_period=length_of(spec.termination_grace_period_s),
            safe_to_evict=spec.safe_to_evict,
            local_storage=spec.local_storage,
            unsupported=self._shuffled(spec.unsupported),
            topology_spread_timeout=length_of(spec.topology_spread_timeout_s),
            enable_ds_eviction=None if spec.enable_ds_eviction < 0 else bool(spec.enable_ds_eviction),
            scale_up_delay=length_of(spec.scale_up_delay_s),
            ignored_by_slack=spec.ignored_by_slack,
            never_preempts=spec.never_preempts,
            requests_by_vpa=spec.requests_by_vpa,
            exclusive_disks=[self._string(one) for one in self._shuffled(spec.exclusive_disks)],
            read_only_disks=[self._string(one) for one in self._shuffled(spec.read_only_disks)],
            node_features=[self._string(one) for one in self._shuffled(spec.node_features)],
        )
        for name, amount in self._shuffled(spec.requests):
            out.requests.add(resource=self._resources.index(name), amount=amount)
        self._pairs(out.node_selector, spec.node_selector)
        self._terms(out.node_affinity, spec.node_affinity)
        for one in self._shuffled(spec.tolerations):
            key, value = self._string(one.key), self._string(one.value)
            out.tolerations.add(key=key, operator=one.operator, value=value, effect=one.effect)
        for port in self._shuffled(spec.host_ports):
            protocol = "" if port.protocol == "TCP" else port.protocol
            out.host_ports.add(protocol=self._string(protocol), host_ip=self._string(port.host_ip), port=port.port)
        self._affinity(out.pod_affinity, spec.pod_affinity)
        self._affinity(out.pod_anti_affinity, spec.pod_anti_affinity)
        for one in spec.preferred_pod_anti_affinity:
            message = out.preferred_pod_anti_affinity.add(weight=one.weight)
            holder = pb.PodSpec()
            self._affinity(holder.pod_affinity, [one.term])
            message.term.CopyFrom(holder.pod_affinity[0])
        for constraint in spec.topology_spread:
            self._spread(out.topology_spread.add(), constraint)
        add_claims(out, spec.claims, tuple(self._shuffled(spec.extended_device_requests)))
        return out

    def _affinity(self, out: Any, terms: Iterable[AffinityTerm]) -> None:
        for term in terms:
            namespaces = [self._string(one) for one in self._shuffled(term.namespaces)]
            message = out.add(topology_key=self._string(term.topology_key), namespaces=namespaces)
            self._selector(message.selector, term.selector)
            self._selector(message.namespace_selector, term.namespace_selector)

    def _spread(self, out: pb.TopologySpreadConstraint, constraint: SpreadConstraint) -> None:
        out.max_skew, out.topology_key = constraint.max_skew, self._string(constraint.topology_key)
        out.min_domains = constraint.min_domains
        out.honor_node_affinity, out.honor_node_taints = constraint.honor_node_affinity, constraint.honor_node_taints
        out.match_label_keys.extend(self._string(key) for key in self._shuffled(constraint.match_label_keys))
        self._selector(out.selector, constraint.selector)

    def _volume(self, volume: MountedVolume) -> pb.Volume:
        out = pb.Volume(
            id=volume.id,
            state=volume.state,
            driver=self._string(volume.driver),
            handle=self._string(volume.handle),
            read_write_once_pod=volume.read_write_once_pod,
            detail=volume.detail,
            required_driver=self._string(volume.required_driver),
        )
        self._terms(out.node_affinity, volume.node_affinity)
        self._pairs(out.zone_labels, volume.zone_labels)
        return out

    def _node(self, name: str, node: NodeRow) -> pb.Node:
        out = pb.Node(
            name=name,
            provider_id=node.provider_id,
            label_set=self._label_set_rows[pairs(node.labels)],
            unschedulable=node.unschedulable,
            allocatable=self._amounts(node.allocatable),
            capacity=self._amounts(node.capacity) if node.capacity else [],
            ready=node.ready,
            node_group=node.group,
            scale_down_disabled=node.scale_down_disabled,
            deletion_delayed=node.deletion_delayed,
            do_not_disrupt=node.do_not_disrupt,
            being_deleted=node.being_deleted,
            price_per_hour=node.price,
        )
        set_time(out.ready_transition_time, node.ready_ns)
        set_time(out.create_time, node.created_ns)
        for taint in self._shuffled(node.taints):
            out.taints.add(key=self._string(taint.key), value=self._string(taint.value), effect=taint.effect)
        for driver, count in self._shuffled(node.attach_limits):
            out.attach_limits.add(driver=self._string(driver), count=count)
        out.declared_features.extend(self._string(name) for name in self._shuffled(node.declared_features))
        if node.volume_drivers is not None:
            out.volume_drivers.SetInParent()
            out.volume_drivers.names.extend(self._string(name) for name in self._shuffled(node.volume_drivers))
        return out

    def _template(self, out: pb.NodeTemplate, group: Group) -> None:
        node = self._node("", group.template or NodeRow())
        out.label_set = node.label_set
        for name in ("taints", "allocatable", "capacity", "attach_limits", "declared_features"):
            getattr(out, name).extend(getattr(node, name))
        if node.HasField("volume_drivers"):
            out.volume_drivers.CopyFrom(node.volume_drivers)
        for namespace, spec, labels in self._shuffled(group.daemonset_pods):
            index = self._specs.index(spec)
            out.daemonset_pods.add(namespace=namespace, spec=index, label_set=self._label_sets.index(labels))

    def _amounts(self, amounts: dict[str, int]) -> list[int]:
        listed = [amounts.get(name, 0) for name in self._resources]
        while listed and not listed[-1]:
            listed.pop()
        return listed or [0]

    def _group(self, key: str, group: Group) -> pb.NodeGroup:
        out = pb.NodeGroup(
            id=key,
            min_size=group.min_size,
            max_size=group.max_size,
            target_size=group.target_size,
            price_per_hour=group.price,
            health=group.health,
            zero_or_max=group.zero_or_max,
        )
        set_time(out.backoff_until, group.backoff_ns)
        set_time(out.last_scale_up_time, group.last_scale_up_ns)
        set_time(out.last_deletion_time, group.last_deletion_ns)
        set_time(out.last_failure_time, group.last_failure_ns)
        if group.template is not None:
            self._template(out.template, group)
        return out

    def _owner(self, owner: Owner) -> pb.Owner:
        out = pb.Owner(
            uid=owner.uid,
            kind=owner.kind,
            name=owner.name,
            namespace=owner.namespace,
            desired_replicas=None if owner.desired_replicas < 0 else owner.desired_replicas,
            current_replicas=None if owner.current_replicas < 0 else owner.current_replicas,
            api_version=owner.api_version,
            controller=owner.controller,
            revision=owner.revision or None,
        )
        self._selector(out.selector, owner.selector)
        for name, amount in self._shuffled(owner.pod_requests):
            out.pod_requests.add(resource=self._resources.index(name), amount=amount)
        if owner.pod_template is not None:
            namespace, spec, labels = owner.pod_template
            out.pod_template.namespace = namespace
            out.pod_template.spec, out.pod_template.label_set = self._specs.index(spec), self._label_sets.index(labels)
        return out

    def _pod_group(self, group: PodGroup) -> pb.PodGroup:
        out = pb.PodGroup(
            namespace=group.namespace,
            name=group.name,
            object=group.object,
            problem=group.problem,
            policy=pb.PodGroupPolicy.GANG if group.min_count else pb.PodGroupPolicy.BASIC,
            min_count=group.min_count,
            topology_key=self._string(group.topology_key),
            disruption_mode=pb.PodGroupDisruptionMode.POD_GROUP if group.moves_whole else 0,
            priority=group.priority,
            desired_count=None if group.desired_count < 0 else group.desired_count,
            slack=group.slack,
        )
        set_time(out.create_time, group.created_ns)
        if group.pod_template is not None:
            namespace, spec, labels = group.pod_template
            out.pod_template.namespace = namespace
            out.pod_template.spec, out.pod_template.label_set = self._specs.index(spec), self._label_sets.index(labels)
        return out

    def _budget(self, budget: DisruptionBudget) -> pb.PodDisruptionBudget:
        out = pb.PodDisruptionBudget(
            namespace=budget.namespace,
            name=budget.name,
            always_allow_unhealthy=budget.always_allow_unhealthy,
            min_available=budget.min_available,
            max_unavailable=budget.max_unavailable,
        )
        self._selector(out.selector, budget.selector)
        if budget.disruptions_allowed >= 0:
            status = out.status
            status.SetInParent()
            status.disruptions_allowed, status.current_healthy = budget.disruptions_allowed, budget.current_healthy
            status.desired_healthy, status.expected_pods = budget.desired_healthy, budget.expected_pods
            status.observed = budget.observed
            status.disrupted_pods.extend(self._shuffled(budget.disrupted_pods))
        return out

    def _write_actuation(self, out: pb.ActuationStatus) -> None:
        for row in self._shuffled(self._cluster.deletions.values()):
            message = out.deletions.add(node=row.node, node_group=row.node_group, drain=row.drain)
            set_time(message.start_time, row.start_ns)
        for (namespace, name), gone in self._shuffled(self._cluster.evictions.items()):
            eviction = out.recent_evictions.add(namespace=namespace, name=name, uid=gone.uid, owner=gone.owner or None)
            eviction.label_set = self._label_sets.index(gone.labels)
            if gone.spec is not None:
                eviction.spec = self._specs.index(gone.spec)
            set_time(eviction.evict_time, gone.evict_ns)


def slack_requests(requests: Iterable[SlackRequest]) -> pb.SlackRequests:
    """Write slack requests with a dictionary of their own."""
    writer, rows = SpecWriter(), []
    for one in requests:
        row = pb.SlackRequest(object=one.object, problem=one.problem, namespace=one.namespace, amount=one.amount)
        row.spec, row.label_set = writer.spec(one.spec), writer.label_set(one.labels)
        for name in ("scale", "replicas", "percentage"):
            if getattr(one, name) >= 0:
                setattr(row, name, getattr(one, name))
        row.limits.extend(writer.amounts(one.limits))
        row.is_gang, row.topology_key = one.is_gang, writer.string(one.topology_key)
        rows.append(row)
    return pb.SlackRequests(dictionary=writer.finish(), requests=rows)


def pairs(labels: Labels) -> LabelPairs:
    """Return labels as sorted pairs."""
    return tuple(sorted(labels.items()))


def uid(key: tuple[str, str], pod: PodRow) -> str:
    """Return a pod's uid; key : its namespace and name."""
    return pod.uid or "-".join(("uid", *key))


def set_time(out: Any, time_ns: int) -> None:
    """Set a timestamp; 0 leaves it absent."""
    if time_ns:
        out.seconds, out.nanos = divmod(time_ns, 1_000_000_000)


def int32(values: Iterable[int]) -> bytes:
    """Return a little-endian int32 column."""
    return np.array(list(values), "<i4").tobytes()
