"""Naive twin of `trimtab.planner.snapshot.decode`: a message as lists of rows with all strings resolved, one loop for
each.

It checks and numbers nothing; rows are sorted by their keys.
"""

import math
import struct
from typing import Any

from trimtab.planner.model.values import (
    AffinityTerm,
    DeletionInProgress,
    DisruptionBudget,
    HostPort,
    LabelRequirement,
    MountedVolume,
    NodeAffinityTerm,
    Owner,
    PodClaim,
    PodGroup,
    PodRequirements,
    SpreadConstraint,
    TaintSpec,
    TemplatePod,
    TolerationSpec,
    WeightedAffinityTerm,
)
from trimtab.v1 import snapshot_pb2 as pb

Rows = dict[str, list[Any]]


class Reader:
    """Reads one message."""

    def __init__(self, message: pb.ClusterSnapshot) -> None:
        self._m = message
        self._text = [*message.strings] or [""]

    def rows(self) -> Rows:
        """Return every table."""
        m = self._m
        return {
            "pods": sorted(self._pods(), key=lambda row: row[:2]),
            "nodes": sorted(self._node(one) for one in m.nodes),
            "groups": [self._group(one) for one in sorted(m.node_groups, key=lambda one: one.id)],
            "owners": sorted(self._owner(one) for one in m.owners),
            "budgets": sorted((self._budget(one) for one in m.pod_disruption_budgets), key=lambda one: one[:2]),
            "namespaces": sorted((one.name, self._labels(one.label_set)) for one in m.namespaces),
            "pod_groups": sorted((self._pod_group(one) for one in m.pod_groups), key=lambda one: one[:2]),
            "deletions": sorted(
                DeletionInProgress(one.node, one.node_group, one.drain, time_ns(one.start_time))
                for one in m.actuation_status.deletions
            ),
            "evictions": sorted(
                (self._eviction(one) for one in m.actuation_status.recent_evictions), key=lambda row: row[:3]
            ),
        }

    def _labels(self, index: int) -> tuple[tuple[str, str], ...]:
        sets = self._m.label_sets
        if not sets.offsets:
            return ()
        offsets, keys, values = int32(sets.offsets), int32(sets.keys), int32(sets.values)
        entries = range(offsets[index], offsets[index + 1])
        return tuple(sorted((self._text[keys[i]], self._text[values[i]]) for i in entries))

    def _pods(self) -> list[Any]:
        table = self._m.pods
        count = table.count
        names, uids = texts(table.names, table.name_lengths), texts(table.uids, table.uid_lengths)
        namespace, spec, node = int32(table.namespace), int32(table.spec), int32(table.node)
        label_set, owner = int32(table.label_set, count), int32(table.owner, count)
        created, deletion = int64(table.created, count), int64(table.deletion, count)
        flags, cost = table.flags or bytes(count), int32(table.deletion_cost, count)
        pinned, group = int32(table.pinned_node, count), int32(table.pod_group, count)
        nominated = int32(table.nominated_node, count)
        mounts: list[set[MountedVolume]] = [set() for _ in range(count)]
        for pod, volume in zip(int32(table.volume_pod), int32(table.volume), strict=True):
            mounts[pod].add(self._volume(self._m.volumes[volume]))
        numbers: list[list[tuple[str, float]]] = [[] for _ in range(count)]
        values = [one for (one,) in struct.iter_unpack("<d", table.number)]
        for pod, key, value in zip(int32(table.number_pod), int32(table.number_key), values, strict=True):
            numbers[pod].append((self._text[key], value if math.isfinite(value) else math.inf))
        return [
            (
                self._text[namespace[i]],
                names[i],
                uids[i],
                self._spec(self._m.pod_specs[spec[i]]),
                self._labels(label_set[i]),
                self._text[node[i]],
                self._text[owner[i]],
                created[i],
                deletion[i],
                table.phase[i],
                flags[i],
                cost[i],
                self._text[pinned[i]],
                tuple(sorted(mounts[i], key=lambda volume: volume.id)),
                tuple(sorted(numbers[i])),
                self._text[group[i]],
                self._text[nominated[i]],
            )
            for i in range(count)
        ]

    def _node(self, m: pb.Node) -> Any:
        names = self._m.resources
        allocatable = {names[i]: amount for i, amount in enumerate(m.allocatable) if amount}
        capacity = {names[i]: amount for i, amount in enumerate(m.capacity) if amount} if m.capacity else allocatable
        return (
            m.name,
            m.provider_id,
            self._labels(m.label_set),
            tuple(sorted({TaintSpec(self._text[t.key], self._text[t.value], t.effect) for t in m.taints})),
            m.unschedulable,
            tuple(sorted(allocatable.items())),
            tuple(sorted(capacity.items())),
            m.ready,
            time_ns(m.ready_transition_time),
            time_ns(m.create_time),
            m.node_group,
            m.scale_down_disabled,
            m.deletion_delayed,
            m.do_not_disrupt,
            m.being_deleted,
            m.price_per_hour if m.HasField("price_per_hour") else None,
            tuple(sorted((self._text[one.driver], one.count) for one in m.attach_limits)),
            tuple(sorted(self._text[name] for name in m.declared_features)),
            tuple(sorted(map(self._text.__getitem__, m.volume_drivers.names)))
            if m.HasField("volume_drivers")
            else None,
        )

    def _template(self, m: pb.NodeTemplate) -> Any:
        names = ("label_set", "taints", "allocatable", "capacity", "attach_limits", "declared_features")
        drivers = m.volume_drivers if m.HasField("volume_drivers") else None
        return self._node(pb.Node(ready=True, volume_drivers=drivers, **{name: getattr(m, name) for name in names}))

    def _template_pods(self, m: pb.NodeTemplate) -> list[Any]:
        return [
            (one.namespace, self._spec(self._m.pod_specs[one.spec]), self._labels(one.label_set))
            for one in m.daemonset_pods
        ]

    def _group(self, m: pb.NodeGroup) -> Any:
        price = m.price_per_hour if m.HasField("price_per_hour") else math.nan
        return (
            m.id,
            m.min_size,
            m.max_size,
            m.target_size,
            self._template(m.template) if m.HasField("template") else None,
            repr(price),
            m.health,
            time_ns(m.backoff_until),
            m.zero_or_max,
            time_ns(m.last_scale_up_time),
            time_ns(m.last_deletion_time),
            time_ns(m.last_failure_time),
            sorted(map(str, self._template_pods(m.template))),
        )

    def _owner(self, m: pb.Owner) -> Owner:
        desired = m.desired_replicas if m.HasField("desired_replicas") else -1
        current = m.current_replicas if m.HasField("current_replicas") else -1
        selector = self._selector(m, "selector")
        counts = (desired, current)
        above = m.controller, m.revision
        template = None
        if m.kind == "DaemonSet" and m.HasField("pod_template"):
            spec = self._spec(self._m.pod_specs[m.pod_template.spec])
            template = TemplatePod(m.pod_template.namespace, spec, self._labels(m.pod_template.label_set))
        amounts = {self._m.resources[one.resource]: one.amount for one in m.pod_requests if one.amount}
        asked = tuple(sorted(amounts.items()))
        return Owner(m.uid, m.kind, m.name, m.namespace, *counts, m.api_version, selector, *above, template, asked)

    def _pod_group(self, m: pb.PodGroup) -> PodGroup:
        if m.problem:
            return PodGroup(m.namespace, m.name, m.object, m.problem)
        template = None
        if m.HasField("pod_template"):
            spec = self._spec(self._m.pod_specs[m.pod_template.spec])
            template = TemplatePod(m.pod_template.namespace, spec, self._labels(m.pod_template.label_set))
        return PodGroup(
            m.namespace,
            m.name,
            m.object,
            "",
            m.min_count if m.policy == pb.PodGroupPolicy.GANG else 0,
            self._text[m.topology_key],
            m.disruption_mode == pb.PodGroupDisruptionMode.POD_GROUP,
            m.priority if m.HasField("priority") else None,
            time_ns(m.create_time),
            m.desired_count if m.HasField("desired_count") else -1,
            template,
        )

    def _budget(self, m: pb.PodDisruptionBudget) -> DisruptionBudget:
        return DisruptionBudget(
            m.namespace,
            m.name,
            self._selector(m, "selector"),
            m.status.disruptions_allowed if m.HasField("status") else -1,
            m.status.current_healthy,
            m.status.desired_healthy,
            m.status.expected_pods,
            m.status.observed,
            tuple(sorted(m.status.disrupted_pods)),
            m.always_allow_unhealthy,
            m.min_available,
            m.max_unavailable,
        )

    def _eviction(self, m: pb.RecentEviction) -> Any:
        spec = self._spec(self._m.pod_specs[m.spec]) if m.HasField("spec") else None
        return (m.namespace, m.name, m.uid, spec, self._labels(m.label_set), m.owner, time_ns(m.evict_time))

    def _requirements(self, messages: Any) -> tuple[LabelRequirement, ...]:
        return tuple(
            LabelRequirement(self._text[m.key], m.operator, tuple(sorted({self._text[i] for i in m.values})))
            for m in messages
        )

    def _selector(self, holder: Any, field: str) -> tuple[LabelRequirement, ...] | None:
        return self._requirements(getattr(holder, field).requirements) if holder.HasField(field) else None

    def _terms(self, holder: Any) -> tuple[NodeAffinityTerm, ...] | None:
        if not holder.HasField("node_affinity"):
            return None
        return tuple(
            NodeAffinityTerm(self._requirements(term.match_expressions), self._requirements(term.match_fields))
            for term in holder.node_affinity.terms
        )

    def _affinity(self, terms: Any) -> tuple[AffinityTerm, ...]:
        return tuple(
            AffinityTerm(
                self._selector(term, "selector"),
                tuple(sorted({self._text[i] for i in term.namespaces})),
                self._selector(term, "namespace_selector"),
                self._text[term.topology_key],
            )
            for term in terms
        )

    def _spec(self, m: pb.PodSpec) -> PodRequirements:
        t = self._text
        return PodRequirements(
            requests=tuple(sorted((self._m.resources[r.resource], r.amount) for r in m.requests if r.amount)),
            node_selector=tuple(sorted((t[one.key], t[one.value]) for one in m.node_selector)),
            node_affinity=self._terms(m),
            tolerations=tuple(
                sorted(
                    {TolerationSpec(t[one.key], one.operator or 1, t[one.value], one.effect) for one in m.tolerations}
                )
            ),
            host_ports=tuple(
                sorted(
                    {HostPort(t[one.protocol] or "TCP", t[one.host_ip] or "0.0.0.0", one.port) for one in m.host_ports}
                )
            ),
            pod_affinity=self._affinity(m.pod_affinity),
            pod_anti_affinity=self._affinity(m.pod_anti_affinity),
            topology_spread=self._spread(m),
            preferred_pod_anti_affinity=tuple(
                WeightedAffinityTerm(one.weight, *self._affinity([one.term])) for one in m.preferred_pod_anti_affinity
            ),
            priority=m.priority,
            scheduler_name=t[m.scheduler_name],
            restart_policy=m.restart_policy,
            termination_grace_period_s=(
                m.termination_grace_period.seconds if m.HasField("termination_grace_period") else 30
            ),
            safe_to_evict=m.safe_to_evict,
            local_storage=m.local_storage,
            unsupported=tuple(sorted(m.unsupported)),
            topology_spread_timeout_s=m.topology_spread_timeout.seconds
            if m.HasField("topology_spread_timeout")
            else -1,
            enable_ds_eviction=int(m.enable_ds_eviction) if m.HasField("enable_ds_eviction") else -1,
            exclusive_disks=tuple(sorted({t[i] for i in m.exclusive_disks})),
            read_only_disks=tuple(sorted({t[i] for i in m.read_only_disks})),
            scale_up_delay_s=m.scale_up_delay.seconds if m.HasField("scale_up_delay") else -1,
            ignored_by_slack=m.ignored_by_slack,
            node_features=tuple(sorted({t[i] for i in m.node_features})),
            # Claims of random clusters have no spec.
            claims=tuple(PodClaim(one.name, one.shared_claim, None, one.problem) for one in m.claims),
            capacity_request=t[m.capacity_request],
            never_preempts=m.never_preempts,
            requests_by_vpa=m.requests_by_vpa,
        )

    def _spread(self, m: pb.PodSpec) -> tuple[SpreadConstraint, ...]:
        return tuple(
            SpreadConstraint(
                one.max_skew,
                self._text[one.topology_key],
                self._selector(one, "selector"),
                one.min_domains if one.HasField("min_domains") else 1,
                one.honor_node_affinity if one.HasField("honor_node_affinity") else True,
                one.honor_node_taints,
                tuple(sorted({self._text[i] for i in one.match_label_keys})),
            )
            for one in m.topology_spread
        )

    def _volume(self, m: pb.Volume) -> MountedVolume:
        t = self._text
        zone_labels = tuple(sorted((t[one.key], t[one.value]) for one in m.zone_labels))
        terms = self._terms(m)
        return MountedVolume(
            m.id, m.state, t[m.driver], t[m.handle], terms, zone_labels, m.read_write_once_pod, m.detail,
            t[m.required_driver],
        )  # fmt: skip


def read_rows(message: pb.ClusterSnapshot) -> Rows:
    """Return the rows of a message."""
    return Reader(message).rows()


def int32(data: bytes, count: int = 0) -> list[int]:
    """Return an int32 column as a list; zeros where it is empty."""
    return [value for (value,) in struct.iter_unpack("<i", data)] or [0] * count


def int64(data: bytes, count: int = 0) -> list[int]:
    """Return an int64 column as a list; zeros where it is empty."""
    return [value for (value,) in struct.iter_unpack("<q", data)] or [0] * count


def texts(data: bytes, lengths: bytes) -> list[str]:
    """Return the texts in a string of bytes."""
    found, start = [], 0
    for length in int32(lengths):
        found.append(data[start : start + length].decode())
        start += length
    return found


def time_ns(time: Any) -> int:
    """Return a timestamp in nanoseconds; 0 for none."""
    return int(time.seconds) * 1_000_000_000 + int(time.nanos)
