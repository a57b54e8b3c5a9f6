"""Whether the scheduler would place a pod on its planned node, with all other pods in place. One function per
predicate.

Each returns the violation, "" = none. Source: Kubernetes' documentation; kube-scheduler's Filter plugins.
"""

from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from tests.certificates.cluster import Cluster, Labels, Pod
from tests.certificates.device_claims import DeviceClaims
from tests.certificates.reached_devices import ReachedDevices
from trimtab.v1 import snapshot_pb2 as pb

CORDON = ("node.kubernetes.io/unschedulable", "", pb.TaintEffect.NO_SCHEDULE)
CLOSED = ("ToBeDeletedByClusterAutoscaler", "", pb.TaintEffect.NO_SCHEDULE)
ZONE_LABELS = {
    f"{kind}/{name}": f"topology.kubernetes.io/{name}"
    for kind in ("failure-domain.beta.kubernetes.io", "topology.kubernetes.io")
    for name in ("zone", "region")
}
"""Label of a volume -> label that is checked on nodes without the volume's label."""
Requirement = tuple[str, int, tuple[str, ...]]


Rule = Callable[["Placement", Pod, str], str]
BY_OTHERS: list[Rule] = []
"""The rules in which pods on other nodes have a part."""


def by_others(rule: Rule) -> Rule:
    """Mark a rule in which pods on other nodes have a part: it depends on the order in which pods are placed."""
    BY_OTHERS.append(rule)
    return rule


class Placement:
    """The nodes of all pods at one time; `nodes` are the present ones, `closed` those that take no pods."""

    def __init__(
        self, cluster: Cluster, nodes: set[str], node_of: dict[str, str], closed: frozenset[str] = frozenset()
    ) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.closed = closed
        self.on: dict[str, list[Pod]] = {name: [] for name in nodes}
        for key, node in node_of.items():
            if node in self.on:
                self.on[node].append(cluster.pods[key])
        self.repelling = [(name, pod) for name, pods in self.on.items() for pod in pods if pod.spec.pod_anti_affinity]

    def put(self, pod: Pod, node: str) -> None:
        """Put another pod on a node."""
        self.on[node].append(pod)
        if pod.spec.pod_anti_affinity:
            self.repelling.append((node, pod))

    def take_off(self, pod: Pod, node: str) -> None:
        """Undo the last `put` of a pod."""
        self.on[node].pop()
        if pod.spec.pod_anti_affinity:
            self.repelling.pop()

    def others(self, pod: Pod, node: str) -> list[Pod]:
        return [one for one in self.on[node] if one.key != pod.key]


def _requirement(cluster: Cluster, row: pb.LabelRequirement) -> Requirement:
    return cluster.text(row.key), row.operator, tuple(cluster.text(v) for v in row.values)


def meets(requirement: Requirement, labels: Labels) -> bool:
    key, operator, values = requirement
    have = labels.get(key)
    codes = pb.LabelOperator
    if operator == codes.IN:
        return have in values
    if operator == codes.NOT_IN:
        return have is None or have not in values
    if operator == codes.EXISTS:
        return have is not None
    if operator == codes.DOES_NOT_EXIST:
        return have is None
    number, bound = _integer(have or ""), _integer(values[0])
    if number is None or bound is None:
        return False
    return number > bound if operator == codes.GT else number < bound


def _integer(text: str) -> int | None:
    """Read an integer of 64 bits as Go's strconv.ParseInt does: no blanks, no underscores, ASCII digits."""
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(text) if -(2**63) <= int(text) < 2**63 else None


def selects(cluster: Cluster, selector: pb.LabelSelector, labels: Labels) -> bool:
    return all(meets(_requirement(cluster, row), labels) for row in selector.requirements)


def tolerates(cluster: Cluster, pod: Pod, taint: tuple[str, str, int]) -> bool:
    key, value, effect = taint
    for row in pod.spec.tolerations:
        wanted, operator = cluster.text(row.key), row.operator or pb.TolerationOperator.EQUAL
        if row.effect not in {0, effect} or (wanted and wanted != key):
            continue
        if not wanted and operator != pb.TolerationOperator.EXISTS:
            continue
        have = cluster.text(row.value)
        if operator == pb.TolerationOperator.EXISTS or (operator == pb.TolerationOperator.EQUAL and have == value):
            return True
        is_comparison = operator in {pb.TolerationOperator.LT, pb.TolerationOperator.GT}
        if cluster.compares_tolerations and is_comparison and _compares(operator, value, have):
            return True
    return False


def _compares(operator: int, taint: str, toleration: str) -> bool:
    if any(not text.removeprefix("-").isdigit() or str(int(text)) != text for text in (taint, toleration)):
        return False
    level, bound = int(taint), int(toleration)
    if max(abs(level), abs(bound)) >= 2**63:
        return False
    return level < bound if operator == pb.TolerationOperator.LT else level > bound


def matches_nodes(cluster: Cluster, terms: pb.NodeSelector, labels: Labels, node: str) -> bool:
    for term in terms.terms:
        if not term.match_expressions and not term.match_fields:
            continue
        by_label = all(meets(_requirement(cluster, row), labels) for row in term.match_expressions)
        fields = {"metadata.name": node}
        if by_label and all(meets(_requirement(cluster, row), fields) for row in term.match_fields):
            return True
    return False


def own_affinity_holds(cluster: Cluster, pod: Pod, node: str) -> bool:
    return matches_labels(cluster, pod, cluster.node_labels(node), node) and (not pod.pinned or pod.pinned == node)


def matches_labels(cluster: Cluster, pod: Pod, labels: Labels, node: str = "") -> bool:
    """Return whether the pod's node selector and affinity admit a node with these labels and this name."""
    if any(labels.get(cluster.text(p.key)) != cluster.text(p.value) for p in pod.spec.node_selector):
        return False
    affinity = pod.spec.node_affinity
    return not pod.spec.HasField("node_affinity") or matches_nodes(cluster, affinity, labels, node)


def schedulable(placement: Placement, pod: Pod, node: str) -> str:
    cordoned = placement.cluster.nodes[node].unschedulable
    return "node is cordoned" if cordoned and not tolerates(placement.cluster, pod, CORDON) else ""


def taints(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    for row in cluster.nodes[node].taints:
        taint = (cluster.text(row.key), cluster.text(row.value), row.effect)
        if row.effect != pb.TaintEffect.PREFER_NO_SCHEDULE and not tolerates(cluster, pod, taint):
            return f"taint {taint[0]} is not tolerated"
    return ""


def node_affinity(placement: Placement, pod: Pod, node: str) -> str:
    return (
        "" if own_affinity_holds(placement.cluster, pod, node) else "node selector, affinity or pin excludes the node"
    )


def pod_count(placement: Placement, pod: Pod, node: str) -> str:
    most = placement.cluster.amounts(node).get("pods", 0)
    count = len(placement.on[node])
    return f"{count} pods on a node for {most}" if count > most else ""


def lacking(placement: Placement, pod: Pod, node: str) -> list[str]:
    """Return the resources of which the pod requests more than the others on the node leave."""
    cluster = placement.cluster
    room, used = cluster.amounts(node), Counter[str]()
    for one in placement.on[node]:
        used.update(cluster.requests(one))
    by_devices = {one.resource for one in pod.spec.extended_device_requests if not room.get(one.resource)}
    by_devices &= {one.extended_resource_name for one in cluster.message.devices.classes}
    names = [name for name in cluster.requests(pod) if _is_counted(name) and name not in by_devices]
    return [name for name in names if used[name] > room.get(name, 0)]


def resources(placement: Placement, pod: Pod, node: str) -> str:
    names = lacking(placement, pod, node)
    return f"more than all is used: {', '.join(names)}" if names else ""


def _is_counted(name: str) -> bool:
    known = name in {"cpu", "memory", "ephemeral-storage"}
    return known or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def host_ports(placement: Placement, pod: Pod, node: str) -> str:
    taken = {one for other in placement.others(pod, node) for one in _ports(placement.cluster, other)}
    for protocol, ip, port in _ports(placement.cluster, pod):
        for other_protocol, other_ip, other_port in taken:
            same = (protocol, port) == (other_protocol, other_port)
            if same and (ip == other_ip or "0.0.0.0" in {ip, other_ip}):
                return f"host port {port} is taken"
    return ""


def _ports(cluster: Cluster, pod: Pod) -> list[tuple[str, str, int]]:
    return [
        (cluster.text(one.protocol) or "TCP", cluster.text(one.host_ip) or "0.0.0.0", one.port)
        for one in pod.spec.host_ports
    ]


def term_selects(cluster: Cluster, term: pb.PodAffinityTerm, owner: Pod, other: Pod) -> bool:
    """Return whether a term of `owner` applies to `other`."""
    if not term.HasField("selector") or not selects(cluster, term.selector, other.labels):
        return False
    names = {cluster.text(one) for one in term.namespaces}
    if other.namespace in names:
        return True
    if term.HasField("namespace_selector"):
        return selects(cluster, term.namespace_selector, cluster.namespaces.get(other.namespace, {}))
    return not names and other.namespace == owner.namespace


def _same_domain(placement: Placement, term: pb.PodAffinityTerm, one: str, other: str) -> bool:
    key = placement.cluster.text(term.topology_key)
    mine, its = placement.cluster.node_labels(one).get(key), placement.cluster.node_labels(other).get(key)
    return mine is not None and mine == its


@by_others
def existing_anti_affinity(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    for name, other in placement.repelling:
        for term in other.spec.pod_anti_affinity if other.key != pod.key else ():
            if _same_domain(placement, term, node, name) and term_selects(cluster, term, other, pod):
                return f"anti-affinity of {other.key} on {name}"
    return ""


@by_others
def anti_affinity(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    for term in pod.spec.pod_anti_affinity:
        near = (one for one in placement.nodes if _same_domain(placement, term, node, one))
        for other in (other for name in near for other in placement.others(pod, name)):
            if term_selects(cluster, term, pod, other):
                return f"anti-affinity to {other.key}"
    return ""


@by_others
def affinity(placement: Placement, pod: Pod, node: str) -> str:
    """Check that every term matches a pod in the node's domain (the first pod of a group may match itself)."""
    cluster = placement.cluster
    terms = pod.spec.pod_affinity
    if not terms:
        return ""
    everyone = [(name, other) for name, pods in placement.on.items() for other in pods if other.key != pod.key]
    met = [
        any(
            _same_domain(placement, term, node, name) and all(term_selects(cluster, one, pod, other) for one in terms)
            for name, other in everyone
        )
        for term in terms
    ]
    if all(met):
        return ""
    has_keys = all(cluster.text(term.topology_key) in cluster.node_labels(node) for term in terms)
    # A pod on a node without a domain is ignored.
    keys = [cluster.text(term.topology_key) for term in terms]
    seen = [other for name, other in everyone if any(key in cluster.node_labels(name) for key in keys)]
    alone = not any(all(term_selects(cluster, term, pod, other) for term in terms) for other in seen)
    meets_itself = all(term_selects(cluster, term, pod, pod) for term in terms)
    return "" if has_keys and alone and meets_itself else "no pod it has affinity to is near"


@by_others
def topology_spread(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    keys = [cluster.text(one.topology_key) for one in pod.spec.topology_spread]
    for row in pod.spec.topology_spread:
        key = cluster.text(row.topology_key)
        if key not in cluster.node_labels(node):
            return f"node lacks {key}"
        counts = _domain_counts(placement, pod, row, keys)
        own = counts.get(cluster.node_labels(node)[key], 0) + _counts_itself(cluster, row, pod)
        least = min(counts.values(), default=0)
        if len(counts) < (row.min_domains or 1):
            least = 0
        if own - least > row.max_skew:
            return f"{own} in its domain of {key}, {least} in the emptiest, allowed skew {row.max_skew}"
    return ""


def _counts_itself(cluster: Cluster, row: pb.TopologySpreadConstraint, pod: Pod) -> bool:
    return row.HasField("selector") and selects(cluster, row.selector, pod.labels)


def _domain_counts(placement: Placement, pod: Pod, row: pb.TopologySpreadConstraint, keys: list[str]) -> dict[str, int]:
    """Return the number of matching pods by domain, without the pod itself, on the nodes that count."""
    cluster, key = placement.cluster, placement.cluster.text(row.topology_key)
    merged = {
        cluster.text(k): pod.labels[cluster.text(k)] for k in row.match_label_keys if cluster.text(k) in pod.labels
    }
    honor_affinity = row.honor_node_affinity if row.HasField("honor_node_affinity") else True
    counts: dict[str, int] = {}
    known: dict[int, bool] = {}

    def matching(labels: Labels) -> bool:
        """Thousands of pods share a few label sets: each set is looked at once."""
        if id(labels) not in known:
            chosen = row.HasField("selector") and selects(cluster, row.selector, labels)
            known[id(labels)] = chosen and all(labels.get(k) == v for k, v in merged.items())
        return known[id(labels)]

    for name in placement.nodes:
        labels = cluster.node_labels(name)
        if any(one not in labels for one in keys):
            continue
        if honor_affinity and not own_affinity_holds(cluster, pod, name):
            continue
        closing = name in placement.closed and not tolerates(cluster, pod, CLOSED)
        if row.honor_node_taints and (closing or taints(placement, pod, name)):
            continue
        # A selector without requirements matches every pod, but the scheduler counts none.
        counted = placement.on[name] if row.selector.requirements or merged else []
        found = sum(
            matching(one.labels) and one.deletion_s == 0 and one.namespace == pod.namespace and one.key != pod.key
            for one in counted
        )
        counts[labels[key]] = counts.get(labels[key], 0) + found
    return counts


def usable_volumes(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    labels = cluster.node_labels(node)
    for volume in pod.volumes:
        if volume.state in {pb.VolumeState.UNBOUND_IMMEDIATE, pb.VolumeState.MISSING}:
            return f"claim {volume.id} cannot be used"
        if volume.HasField("node_affinity") and not matches_nodes(cluster, volume.node_affinity, labels, node):
            return f"volume {volume.id} is not reachable"
    return ""


def volume_zones(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    labels = cluster.node_labels(node)
    for volume in pod.volumes if ZONE_LABELS.keys() & labels.keys() else ():
        for pair in volume.zone_labels:
            key, allowed = cluster.text(pair.key), cluster.text(pair.value).split("__")
            if key in ZONE_LABELS and all(allowed) and labels.get(key, labels.get(ZONE_LABELS[key])) not in allowed:
                return f"volume {volume.id} is in another zone"
    return ""


def shared_volumes(placement: Placement, pod: Pod, node: str) -> str:
    cluster = placement.cluster
    exclusive = {volume.id for volume in pod.volumes if volume.read_write_once_pod}
    for name in placement.on if exclusive else ():
        for other in placement.others(pod, name):
            if exclusive & {volume.id for volume in other.volumes}:
                return f"a claim for one pod alone is used by {other.key}"
    for other in placement.others(pod, node):
        if _disks_clash(cluster, pod, other) or _disks_clash(cluster, other, pod):
            return f"a disk is mounted by {other.key}"
    return ""


def _disks_clash(cluster: Cluster, pod: Pod, other: Pod) -> bool:
    """Return whether another pod mounts a disk that this pod uses exclusively."""
    mine = {cluster.text(one) for one in pod.spec.exclusive_disks}
    its = {cluster.text(one) for one in [*other.spec.exclusive_disks, *other.spec.read_only_disks]}
    return bool(mine & its)


def attach_limits(placement: Placement, pod: Pod, node: str) -> str:
    """Check that a pod with new volumes does not exceed the attach limit; it is not blamed for others' volumes."""
    cluster = placement.cluster
    for limit in cluster.nodes[node].attach_limits:
        others = {handle for one in placement.others(pod, node) for handle in _attached(cluster, one, limit.driver)}
        mine = _attached(cluster, pod, limit.driver)
        if mine - others and len(mine | others) > limit.count:
            return f"{len(mine | others)} volumes of {cluster.text(limit.driver)}, {limit.count} allowed"
    return ""


def csi_drivers(placement: Placement, pod: Pod, node: str) -> str:
    row = placement.cluster.nodes[node]
    for volume in pod.volumes if row.HasField("volume_drivers") else ():
        if volume.required_driver and volume.required_driver not in row.volume_drivers.names:
            return f"driver {placement.cluster.text(volume.required_driver)} is missing"
    return ""


def declared_features(placement: Placement, pod: Pod, node: str) -> str:
    """Check features by name; new nodes have those of a node or a template of the snapshot."""
    cluster = placement.cluster
    templates = [one.template for one in cluster.message.node_groups]
    if not any(one.declared_features for one in [*cluster.nodes.values(), *templates]):
        return ""
    declared = {cluster.text(one) for one in cluster.nodes[node].declared_features}
    lacking = {cluster.text(one) for one in pod.spec.node_features} - declared
    return f"{sorted(lacking)} are not declared" if lacking else ""


def _attached(cluster: Cluster, pod: Pod, driver: int) -> set[str]:
    return {cluster.text(one.handle) or one.id for one in pod.volumes if one.driver and one.driver == driver}


def devices(placement: Placement, pod: Pod, node: str) -> str:
    if not (pod.spec.claims or pod.spec.extended_device_requests):
        return ""
    own = _claims(placement.cluster).offence([*placement.others(pod, node), pod], node)
    return own or _reached(placement.cluster).offence(pod, node, placement.on)


def usable_claims(placement: Placement, pod: Pod, node: str) -> str:
    return _claims(placement.cluster).problem(pod) if pod.spec.claims else ""


def reached_claims(placement: Placement, pod: Pod, node: str) -> str:
    return _claims(placement.cluster).elsewhere(pod, node, placement.on) if pod.spec.claims else ""


def _claims(cluster: Cluster) -> DeviceClaims:
    return _reached(cluster).claims


@lru_cache(maxsize=4)
def _reached(cluster: Cluster) -> ReachedDevices:
    return ReachedDevices(cluster, meets)


def supported(placement: Placement, pod: Pod, node: str) -> str:
    return f"{list(pod.spec.unsupported)} cannot be decided" if pod.spec.unsupported else ""


REASONS: dict[str, Rule] = {
    "NODE_UNSCHEDULABLE": schedulable,
    "TAINT_NOT_TOLERATED": taints,
    "NODE_AFFINITY_NOT_MATCHED": node_affinity,
    "HOST_PORT_CONFLICT": host_ports,
    "TOO_MANY_PODS": pod_count,
    "INSUFFICIENT_RESOURCES": resources,
    "VOLUME_RESTRICTED": shared_volumes,
    "CSI_DRIVER_MISSING": csi_drivers,
    "VOLUME_LIMIT_EXCEEDED": attach_limits,
    "VOLUME_NOT_BINDABLE": usable_volumes,
    "VOLUME_ZONE_MISMATCH": volume_zones,
    "TOPOLOGY_SPREAD_VIOLATED": topology_spread,
    "POD_AFFINITY_NOT_MATCHED": affinity,
    "POD_ANTI_AFFINITY_VIOLATED": anti_affinity,
    "EXISTING_POD_ANTI_AFFINITY_VIOLATED": existing_anti_affinity,
    "CLAIM_UNUSABLE": usable_claims,
    "CLAIM_ALLOCATED_ELSEWHERE": reached_claims,
    "DEVICES_NOT_AVAILABLE": devices,
    "NODE_FEATURE_NOT_DECLARED": declared_features,
    "UNSUPPORTED_CONSTRAINT": supported,
}
"""The rule of each reason of the contract, in the scheduler's order."""
PREDICATES = tuple(REASONS.values())
