"""The scheduler's rules over the contract's snapshot, word for word and slowly: one pod, one node, one loop each.

Shares no code with the planner. Proves that `ClusterSnapshot` carries all that the scheduler decides by, and tells a
fault of the reader (this disagrees too) from a fault of the planner (this agrees).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tests.parity.agreement import Verdict
from trimtab.v1 import snapshot_pb2 as pb

OP, EFFECT, STATE = pb.LabelOperator, pb.TaintEffect, pb.VolumeState
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
BETA_TO_STABLE = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
Labels = dict[str, str]


class NaivePod(NamedTuple):
    key: str
    namespace: str
    labels: Labels
    spec: pb.PodSpec
    pinned: str
    terminating: bool
    gated: bool
    volumes: tuple[int, ...]


class NaiveNode(NamedTuple):
    row: pb.Node
    labels: Labels
    pods: list[NaivePod]


def _column(data: bytes, count: int, dtype: str = "<i4") -> list[int]:
    return np.frombuffer(data, dtype).tolist() if data else [0] * count


class NaiveCluster:
    """A decoded snapshot into which pods can be placed. `waiting` are the pods on no node, by key."""

    def __init__(self, snapshot: pb.ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.strings = snapshot.strings
        self.resources = list(snapshot.resources)
        self.label_sets = self._label_sets()
        self.namespaces = {one.name: self.label_sets[one.label_set] for one in snapshot.namespaces}
        self.nodes = {row.name: NaiveNode(row, self.label_sets[row.label_set], []) for row in snapshot.nodes}
        self.waiting: dict[str, NaivePod] = {}
        self.home: dict[str, str] = {}
        for pod, node, phase in self._pods():
            if phase in (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED):
                continue
            if not node:
                self.waiting[pod.key] = pod
            elif node in self.nodes:
                self.place(pod, node)

    def _label_sets(self) -> list[Labels]:
        sets = self.snapshot.label_sets
        offsets, keys, values = (_column(data, 0) for data in (sets.offsets, sets.keys, sets.values))
        pairs = [(self.strings[k], self.strings[v]) for k, v in zip(keys, values, strict=True)]
        return [dict(pairs[a:b]) for a, b in pairwise(offsets)] or [{}]

    def _pods(self) -> Iterable[tuple[NaivePod, str, int]]:
        table, strings = self.snapshot.pods, self.strings
        count = table.count
        lengths = _column(table.name_lengths, count)
        ends = np.cumsum(lengths).tolist()
        names = [table.names[end - length : end].decode() for end, length in zip(ends, lengths, strict=True)]
        columns = {
            name: _column(getattr(table, name), count)
            for name in ("namespace", "spec", "label_set", "node", "pinned_node")
        }
        deletion, phase = _column(table.deletion, count, "<i8"), _column(table.phase, count, "u1")
        flags = _column(table.flags, count, "u1")
        mounts: dict[int, list[int]] = {}
        for pod, volume in zip(_column(table.volume_pod, 0), _column(table.volume, 0), strict=True):
            mounts.setdefault(pod, []).append(volume)
        for i in range(count):
            namespace = strings[columns["namespace"][i]]
            yield (
                NaivePod(
                    key=f"{namespace}/{names[i]}",
                    namespace=namespace,
                    labels=self.label_sets[columns["label_set"][i]],
                    spec=self.snapshot.pod_specs[columns["spec"][i]],
                    pinned=strings[columns["pinned_node"][i]] if table.pinned_node else "",
                    terminating=deletion[i] != 0,
                    gated=bool(flags[i] & 8),
                    volumes=tuple(mounts.get(i, ())),
                ),
                strings[columns["node"][i]],
                phase[i],
            )

    def place(self, pod: NaivePod, node: str) -> None:
        self.nodes[node].pods.append(pod)
        self.home[pod.key] = node

    def take_out(self, key: str) -> NaivePod:
        pods = self.nodes[self.home[key]].pods
        pod = next(one for one in pods if one.key == key)
        pods.remove(pod)
        return pod

    # ---- selectors ----

    def _holds(self, requirement: pb.LabelRequirement, labels: Labels) -> bool:
        key, operator = self.strings[requirement.key], requirement.operator
        values = [self.strings[v] for v in requirement.values]
        if operator in (OP.IN, OP.NOT_IN):
            return (labels.get(key) in values) == (operator == OP.IN) if key in labels else operator == OP.NOT_IN
        if operator in (OP.EXISTS, OP.DOES_NOT_EXIST):
            return (key in labels) == (operator == OP.EXISTS)
        have, want = _integer(labels.get(key, "")), _integer(values[0])
        if have is None or want is None:
            return False
        return have > want if operator == OP.GT else have < want

    def selects(self, selector: pb.LabelSelector | None, labels: Labels) -> bool:
        return selector is not None and all(self._holds(one, labels) for one in selector.requirements)

    def _node_selector(self, selector: pb.NodeSelector, node: NaiveNode) -> bool:
        for term in selector.terms:
            every = [*term.match_expressions, *term.match_fields]
            names = {"metadata.name": node.row.name}
            if (
                every
                and all(self._holds(one, node.labels) for one in term.match_expressions)
                and all(self._holds(one, names) for one in term.match_fields)
            ):
                return True
        return False

    def affinity_allows(self, pod: NaivePod, node: NaiveNode) -> bool:
        """nodeSelector, required node affinity, and the pin, which is part of the latter."""
        wanted = [(self.strings[p.key], self.strings[p.value]) for p in pod.spec.node_selector]
        if any(node.labels.get(key) != value for key, value in wanted):
            return False
        if pod.pinned and pod.pinned != node.row.name:
            return False
        return not pod.spec.HasField("node_affinity") or self._node_selector(pod.spec.node_affinity, node)

    # ---- taints ----

    def _tolerates(self, pod: NaivePod, key: str, value: str, effect: int) -> bool:
        for one in pod.spec.tolerations:
            if one.effect not in (EFFECT.UNSPECIFIED, effect):
                continue
            name = self.strings[one.key]
            if name not in ("", key):
                continue
            if one.operator == pb.TolerationOperator.EXISTS:
                return True
            equal = one.operator in (pb.TolerationOperator.UNSPECIFIED, pb.TolerationOperator.EQUAL)
            if equal and self.strings[one.value] == value:
                return True
        return False

    def taints_tolerated(self, pod: NaivePod, node: NaiveNode) -> bool:
        return all(
            taint.effect == EFFECT.PREFER_NO_SCHEDULE
            or self._tolerates(pod, self.strings[taint.key], self.strings[taint.value], taint.effect)
            for taint in node.row.taints
        )

    # ---- node resources ----

    def _ports_conflict(self, pod: NaivePod, node: NaiveNode) -> bool:
        def ports(of: NaivePod) -> list[tuple[str, str, int]]:
            named = [(self.strings[p.protocol] or "TCP", self.strings[p.host_ip], p.port) for p in of.spec.host_ports]
            return [(protocol, "" if ip == "0.0.0.0" else ip, port) for protocol, ip, port in named]

        taken = [port for other in node.pods for port in ports(other)]
        return any(
            protocol == p and port == n and (ip == a or not ip or not a)
            for protocol, ip, port in ports(pod)
            for p, a, n in taken
        )

    def _lacking(self, pod: NaivePod, node: NaiveNode) -> tuple[bool, list[str]]:
        used: Counter[int] = Counter()
        for other in node.pods:
            used.update({one.resource: one.amount for one in other.spec.requests})
        allocatable = dict(enumerate(node.row.allocatable))
        limit = allocatable.get(self.resources.index("pods"), 0) if "pods" in self.resources else 0
        lacking = [
            self.resources[one.resource]
            for one in pod.spec.requests
            if one.amount > allocatable.get(one.resource, 0) - used[one.resource]
        ]
        return len(node.pods) + 1 > limit, lacking

    # ---- volumes ----

    def _volumes(self, pod: NaivePod) -> list[pb.Volume]:
        return [self.snapshot.volumes[i] for i in pod.volumes]

    def _restricted(self, pod: NaivePod, node: NaiveNode) -> bool:
        mine, mine_read = set(pod.spec.exclusive_disks), set(pod.spec.read_only_disks)
        for other in node.pods:
            theirs, theirs_read = set(other.spec.exclusive_disks), set(other.spec.read_only_disks)
            if mine & (theirs | theirs_read) or mine_read & theirs:
                return True
        exclusive = {volume.id for volume in self._volumes(pod) if volume.read_write_once_pod}
        return any(v.id in exclusive for n in self.nodes.values() for other in n.pods for v in self._volumes(other))

    def _attachments(self, pod: NaivePod) -> set[tuple[str, str]]:
        return {
            (self.strings[v.driver], self.strings[v.handle] or v.id) for v in self._volumes(pod) if v.driver
        }  # fmt: skip

    def _over_limit(self, pod: NaivePod, node: NaiveNode) -> bool:
        attached = {one for other in node.pods for one in self._attachments(other)}
        new = self._attachments(pod) - attached
        have, more = Counter(driver for driver, _ in attached), Counter(driver for driver, _ in new)
        limits = {self.strings[one.driver]: one.count for one in node.row.attach_limits}
        return any(driver in limits and have[driver] + n > limits[driver] for driver, n in more.items())

    def _bindable(self, pod: NaivePod, node: NaiveNode) -> bool:
        return all(
            volume.state not in (STATE.MISSING, STATE.UNBOUND_IMMEDIATE)
            and (not volume.HasField("node_affinity") or self._node_selector(volume.node_affinity, node))
            for volume in self._volumes(pod)
        )

    def _zones_match(self, pod: NaivePod, node: NaiveNode) -> bool:
        if not any(key in node.labels for pair in BETA_TO_STABLE.items() for key in pair):
            return True
        for volume in self._volumes(pod):
            for pair in volume.zone_labels:
                key, allowed = self.strings[pair.key], self.strings[pair.value].split("__")
                have = node.labels.get(key)
                if have is None:
                    have = node.labels.get(BETA_TO_STABLE.get(key, ""))
                if have not in allowed:
                    return False
        return True

    # ---- topology spread ----

    def _spread_holds(self, pod: NaivePod, node: NaiveNode) -> bool:
        constraints = pod.spec.topology_spread
        keys = [self.strings[c.topology_key] for c in constraints]
        return all(self._constraint_holds(pod, node, c, keys) for c in constraints)

    def _constraint_holds(
        self, pod: NaivePod, node: NaiveNode, constraint: pb.TopologySpreadConstraint, keys: Sequence[str]
    ) -> bool:
        key = self.strings[constraint.topology_key]
        if key not in node.labels:
            return False
        merged = [self.strings[k] for k in constraint.match_label_keys]
        same = {k: pod.labels[k] for k in merged if k in pod.labels}
        selector = constraint.selector if constraint.HasField("selector") else None

        no_requirement = selector is not None and not selector.requirements and not same  # counts nobody

        def matches(other: NaivePod) -> bool:
            return self.selects(selector, other.labels) and all(other.labels.get(k) == v for k, v in same.items())

        counts: Counter[str] = Counter()
        for other_node in self.nodes.values():
            if any(k not in other_node.labels for k in keys) or not self._counts(pod, other_node, constraint):
                continue
            counts[other_node.labels[key]] += sum(
                other.namespace == pod.namespace and not other.terminating and not no_requirement and matches(other)
                for other in other_node.pods
            )
        domains = constraint.min_domains if constraint.HasField("min_domains") else 1
        fewest = 0 if len(counts) < domains else min(counts.values())
        return counts[node.labels[key]] + matches(pod) - fewest <= constraint.max_skew

    def _counts(self, pod: NaivePod, node: NaiveNode, constraint: pb.TopologySpreadConstraint) -> bool:
        honor_affinity = not constraint.HasField("honor_node_affinity") or constraint.honor_node_affinity
        if honor_affinity and not self.affinity_allows(pod, node):
            return False
        return not constraint.honor_node_taints or self.taints_tolerated(pod, node)

    # ---- inter-pod affinity ----

    def _term_matches(self, owner: NaivePod, term: pb.PodAffinityTerm, other: NaivePod, incoming: bool = True) -> bool:
        """Whether a term of `owner`, the pod asked about if `incoming`, means the other pod.

        1.34 reads a namespace selector of the incoming pod's terms also as if no namespace had labels, so that one
        that matches no labels at all (NotIn, DoesNotExist) matches every namespace (kubernetes issue 141526).
        """
        listed = {self.strings[n] for n in term.namespaces}
        by_label = term.namespace_selector if term.HasField("namespace_selector") else None
        if not listed and by_label is None:
            listed = {owner.namespace}
        by_bug = incoming and self.selects(by_label, {})
        by_label_found = self.selects(by_label, self.namespaces.get(other.namespace, {}))
        if other.namespace not in listed and not by_label_found and not by_bug:
            return False
        return self.selects(term.selector if term.HasField("selector") else None, other.labels)

    def _domain(self, term: pb.PodAffinityTerm, node: NaiveNode) -> tuple[str, str] | None:
        key = self.strings[term.topology_key]
        return (key, node.labels[key]) if key in node.labels else None

    def _affinity_met(self, pod: NaivePod, node: NaiveNode) -> bool:
        terms = pod.spec.pod_affinity
        found = {
            self._domain(term, other_node)
            for other_node in self.nodes.values()
            for other in other_node.pods
            if terms and all(self._term_matches(pod, term, other) for term in terms)
            for term in terms
        } - {None}
        domains = [self._domain(term, node) for term in terms]
        if None in domains:
            return False
        return all(d in found for d in domains) or (
            not found and all(self._term_matches(pod, term, pod) for term in terms)
        )

    def _anti_affinity_met(self, pod: NaivePod, node: NaiveNode) -> bool:
        return not any(
            self._domain(term, node) is not None
            and self._domain(term, node) == self._domain(term, other_node)
            and self._term_matches(pod, term, other)
            for term in pod.spec.pod_anti_affinity
            for other_node in self.nodes.values()
            for other in other_node.pods
        )

    def _existing_allow(self, pod: NaivePod, node: NaiveNode) -> bool:
        return not any(
            self._domain(term, node) is not None
            and self._domain(term, node) == self._domain(term, other_node)
            and self._term_matches(other, term, pod, incoming=False)
            for other_node in self.nodes.values()
            for other in other_node.pods
            for term in other.spec.pod_anti_affinity
        )

    def verdict(self, pod: NaivePod, name: str) -> Verdict:
        """Every reason why the pod does not fit the node, in the scheduler's order."""
        node = self.nodes[name]
        too_many, lacking = self._lacking(pod, node)
        tolerates_cordon = self._tolerates(pod, UNSCHEDULABLE, "", EFFECT.NO_SCHEDULE)
        failed = {
            "NODE_UNSCHEDULABLE": node.row.unschedulable and not tolerates_cordon,
            "TAINT_NOT_TOLERATED": not self.taints_tolerated(pod, node),
            "NODE_AFFINITY_NOT_MATCHED": not self.affinity_allows(pod, node),
            "HOST_PORT_CONFLICT": self._ports_conflict(pod, node),
            "TOO_MANY_PODS": too_many,
            "INSUFFICIENT_RESOURCES": bool(lacking),
            "VOLUME_RESTRICTED": self._restricted(pod, node),
            "VOLUME_LIMIT_EXCEEDED": self._over_limit(pod, node),
            "VOLUME_NOT_BINDABLE": not self._bindable(pod, node),
            "VOLUME_ZONE_MISMATCH": not self._zones_match(pod, node),
            "TOPOLOGY_SPREAD_VIOLATED": not self._spread_holds(pod, node),
            "POD_AFFINITY_NOT_MATCHED": not self._affinity_met(pod, node),
            "POD_ANTI_AFFINITY_VIOLATED": not self._anti_affinity_met(pod, node),
            "EXISTING_POD_ANTI_AFFINITY_VIOLATED": not self._existing_allow(pod, node),
            "UNSUPPORTED_CONSTRAINT": bool(pod.spec.unsupported),
            "SCHEDULING_GATED": pod.gated,
        }
        reasons = tuple(name for name, says_no in failed.items() if says_no)
        return Verdict(not reasons, reasons, tuple(sorted(lacking)))


def _integer(text: str) -> int | None:
    """As Go's strconv.ParseInt(text, 10, 64)."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def fit_matrix(snapshot: Any, asked: list[str]) -> dict[str, dict[str, Verdict]]:
    """Each pod asked about, waiting or running (then taken out first), against each node."""
    cluster = NaiveCluster(snapshot)
    result = {}
    for key in asked:
        if key in cluster.waiting:
            pod, home = cluster.waiting[key], ""
        else:
            home = cluster.home[key]
            pod = cluster.take_out(key)
        result[key] = {name: cluster.verdict(pod, name) for name in cluster.nodes}
        if home:
            cluster.place(pod, home)
    return result
