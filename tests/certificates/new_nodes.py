"""The properties of a new node of a node group, and the DaemonSet pods that run on it. Slow and obvious.

Source: the contract (`NodeTemplate`, `ScaleUpSettings`); the Cluster Autoscaler's sanitising of template nodes.
"""

from dataclasses import dataclass

from tests.certificates.cluster import DAEMON, MIRROR, TO_BE_DELETED, Cluster, Labels, Pod
from tests.certificates.scheduling import matches_labels, tolerates
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

HOSTNAME = "kubernetes.io/hostname"
BETA = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}
PASSING = {
    TO_BE_DELETED, "DeletionCandidateOfClusterAutoscaler", "NodeWithImpairedVolumes",
    "cloud.google.com/impending-node-termination", "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    *(f"node.kubernetes.io/{name}" for name in (
        "not-ready", "unreachable", "unschedulable", "memory-pressure", "disk-pressure", "network-unavailable",
        "pid-pressure",
    )),
}  # fmt: skip
STARTUP = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/", "startup-taint.cluster-autoscaler.kubernetes.io/",
)  # fmt: skip
STATUS = "status-taint.cluster-autoscaler.kubernetes.io/"
DAEMON_PRIORITY = 2_000_001_000


@dataclass
class NewNode:
    """A node like others of its group: its labels except the host name, its row, and its DaemonSet and static pods."""

    labels: Labels
    row: pb.Node
    pods: list[Pod]

    def join(self, cluster: Cluster, name: str) -> list[Pod]:
        """Add such a node to a cluster, with its pods; return them."""
        row = pb.Node()
        row.CopyFrom(self.row)
        row.name, row.label_set = name, len(cluster.sets)
        cluster.sets.append(self.labels | {HOSTNAME: name})
        cluster.nodes[name] = row
        pods = []
        for i, one in enumerate(self.pods):
            pod = Pod(**(vars(one) | {"name": f"{name}-daemon-{i}", "node": name}))
            cluster.pods[pod.key] = pod
            pods.append(pod)
        return pods


def has_startup_taint(cluster: Cluster, row: pb.Node, settings: plan_pb2.ScaleUpSettings) -> bool:
    return any(_is_startup(cluster.text(taint.key), settings) for taint in row.taints)


def is_ready(cluster: Cluster, row: pb.Node, settings: plan_pb2.ScaleUpSettings) -> bool:
    """Return whether a node is ready: by its condition, and without startup or status taints."""
    named = settings.status_taints
    keys = [cluster.text(taint.key) for taint in row.taints]
    status = any(key in named.keys or key.startswith((STATUS, *named.prefixes)) for key in keys)
    return row.ready and not status and not has_startup_taint(cluster, row, settings)


def _is_startup(key: str, settings: plan_pb2.ScaleUpSettings) -> bool:
    named = settings.startup_taints
    return key in named.keys or key.startswith((*STARTUP, *named.prefixes))


def _lasts(key: str, settings: plan_pb2.ScaleUpSettings) -> bool:
    named = settings.status_taints
    passing = key in PASSING or key in named.keys or key.startswith((STATUS, *named.prefixes))
    return not passing and not _is_startup(key, settings)


def new_node_of(
    cluster: Cluster, group: pb.NodeGroup, settings: plan_pb2.ScaleUpSettings, now_s: int
) -> NewNode | None:
    """Return a new node of a group; None = its properties cannot be known."""
    example, good = _example(cluster, group, settings, now_s)
    prefers_node = settings.template_source == plan_pb2.TemplateSource.PREFER_NODE
    if group.HasField("template") and not (prefers_node and good):
        return _from_template(cluster, group, settings)
    return _from_node(cluster, example, settings) if example else None


def _example(cluster: Cluster, group: pb.NodeGroup, settings: plan_pb2.ScaleUpSettings, now_s: int) -> tuple[str, bool]:
    """Return the group's node that serves as template, and whether it is a good one."""
    leaving = cluster.leaving(now_s)
    members = sorted(name for name, row in cluster.nodes.items() if row.node_group == group.id)
    good = []
    for name in members:
        row = cluster.nodes[name]
        stable = not row.HasField("ready_transition_time") or now_s - row.ready_transition_time.seconds > 60
        marked = any(cluster.text(taint.key) == TO_BE_DELETED for taint in row.taints)
        started = is_ready(cluster, row, settings) and not row.unschedulable
        if started and stable and not marked and name not in leaving:
            good.append(name)
    if good:
        return _model(cluster, good), True
    staying = [name for name in members if name not in leaving]
    return next(iter(staying or members), ""), False


def _model(cluster: Cluster, good: list[str]) -> str:
    """Return the smallest of the nodes that have the resources which at least half of them have."""
    rows = {name: cluster.nodes[name] for name in good}
    wide = max(len(row.allocatable) for row in rows.values())
    amounts = {name: [*row.allocatable, *[0] * (wide - len(row.allocatable))] for name, row in rows.items()}
    common = [2 * sum(each[at] > 0 for each in amounts.values()) >= len(good) for at in range(wide)]
    newest = sorted(good, key=lambda name: (rows[name].create_time.seconds, name))[-2:]
    if len(good) > 2 and all(rows[name].HasField("create_time") for name in newest):
        for at in range(wide):
            has = {amounts[name][at] > 0 for name in newest}
            common[at] = has.pop() if len(has) == 1 else common[at]

    def unlike(name: str) -> int:
        return sum((amounts[name][at] > 0) != common[at] for at in range(wide))

    resources = list(cluster.message.resources)
    size = [resources.index(name) for name in ("cpu", "memory")]
    return min(good, key=lambda name: (unlike(name), *(amounts[name][at] for at in size), name))


def _from_template(cluster: Cluster, group: pb.NodeGroup, settings: plan_pb2.ScaleUpSettings) -> NewNode:
    given = group.template
    labels = cluster.label_set(given.label_set)
    labels = labels | {BETA[key]: value for key, value in labels.items() if key in BETA}
    row = pb.Node(
        ready=True, node_group=group.id, allocatable=given.allocatable, capacity=given.capacity,
        attach_limits=given.attach_limits, declared_features=given.declared_features,
        volume_drivers=given.volume_drivers if given.HasField("volume_drivers") else None,
        taints=_lasting(cluster, given.taints, settings),
    )  # fmt: skip
    pods = [
        _daemon(one.namespace, cluster.message.pod_specs[one.spec], cluster.label_set(one.label_set))
        for one in given.daemonset_pods
    ]
    everything = settings.force_daemonsets or not given.daemonset_pods
    found = NewNode(labels, row, pods)
    _add_daemons(cluster, found, everything, set())
    return found


def _from_node(cluster: Cluster, name: str, settings: plan_pb2.ScaleUpSettings) -> NewNode:
    given = cluster.nodes[name]
    labels = {key: value for key, value in cluster.node_labels(name).items() if key != HOSTNAME}
    amounts = list(given.allocatable)
    for pod in _running(cluster):
        if pod.node == name and pod.flags & MIRROR:
            for resource, amount in [*cluster.requests(pod).items(), ("pods", 1)]:
                at = list(cluster.message.resources).index(resource)
                if at < len(amounts):
                    amounts[at] = max(amounts[at] - amount, 0)
    row = pb.Node(
        ready=True, node_group=given.node_group, allocatable=amounts, capacity=given.capacity or given.allocatable,
        attach_limits=given.attach_limits, declared_features=given.declared_features,
        volume_drivers=given.volume_drivers if given.HasField("volume_drivers") else None,
        taints=_lasting(cluster, given.taints, settings),
    )  # fmt: skip
    there: dict[str, Pod] = {}
    for pod in _running(cluster):
        if pod.node == name and _is_daemon(pod):
            there.setdefault(pod.owner, pod)
    found = NewNode(labels, row, [_daemon(p.namespace, p.spec, p.labels) for p in there.values()])
    _add_daemons(cluster, found, settings.force_daemonsets, set(there))
    return found


def _lasting(cluster: Cluster, taints: object, settings: plan_pb2.ScaleUpSettings) -> list[pb.Taint]:
    return [taint for taint in taints if _lasts(cluster.text(taint.key), settings)]  # type: ignore[attr-defined]


def _running(cluster: Cluster) -> list[Pod]:
    return [pod for _, pod in sorted(cluster.pods.items()) if not pod.ended and not pod.deletion_s]


def _is_daemon(pod: Pod) -> bool:
    return bool(pod.flags & DAEMON) and not pod.flags & MIRROR and bool(pod.owner)


def _add_daemons(cluster: Cluster, node: NewNode, everything: bool, there: set[str]) -> None:
    """Add the DaemonSet pods that would run on a node: all of them, or only those that preempt others."""
    newest: dict[str, Pod] = {}
    for pod in _running(cluster):
        if _is_daemon(pod) and (pod.owner not in newest or pod.created_s > newest[pod.owner].created_s):
            newest[pod.owner] = pod
    known = [(p.namespace, p.spec, p.labels) for p in node.pods]
    for owner, pod in sorted((newest | _templates(cluster)).items()):
        form = newest.get(owner, pod)
        if (form.namespace, form.spec, form.labels) in known:
            continue
        if owner in there or not (everything or pod.spec.priority >= DAEMON_PRIORITY):
            continue
        taints = [(cluster.text(t.key), cluster.text(t.value), t.effect) for t in node.row.taints]
        hard = [one for one in taints if one[2] != pb.TaintEffect.PREFER_NO_SCHEDULE]
        admitted = all(tolerates(cluster, pod, one) for one in hard) and matches_labels(cluster, pod, node.labels)
        if admitted and (pod.namespace, pod.spec, pod.labels) not in known:
            node.pods.append(_daemon(pod.namespace, pod.spec, pod.labels))


def _templates(cluster: Cluster) -> dict[str, Pod]:
    """Return the pods that the templates of DaemonSets make, by the uid of the DaemonSet."""
    message = cluster.message
    return {
        owner.uid: _daemon(
            owner.pod_template.namespace,
            message.pod_specs[owner.pod_template.spec],
            cluster.label_set(owner.pod_template.label_set),
        )
        for owner in message.owners
        if owner.kind == "DaemonSet" and owner.HasField("pod_template")
    }


def _daemon(namespace: str, spec: pb.PodSpec, labels: Labels) -> Pod:
    return Pod(namespace, "", "", spec, labels, "", "", pb.PodPhase.PENDING, 0, 0, 0, "")
