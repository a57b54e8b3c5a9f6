"""A cluster whose pods have to be placed anew: the question that a right-sizing plan answers.

Decides which pods take part: those that run or wait, but not those of DaemonSets, which come with every new node,
static pods, pods that end, and pods of control plane nodes, which stay where they are. Decides nothing about machines.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.clients.cli.label_groups import label_group
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.deltas.application import Application
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects import build_snapshot
from trimtab.common.objects.objects import Objects
from trimtab.common.objects.pod_rows import FLAG_DAEMON, FLAG_MIRROR, FLAG_READY, FLAG_UNSCHEDULABLE
from trimtab.v1 import snapshot_pb2 as pb

_ENDED: Final = (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED)


class EmptyCluster(NamedTuple):
    """A cluster without workers and groups. pods : "namespace/name" of those to be placed; requests : of each, by
    resource; workers : the nodes that are left out; waiting_count : pods to be placed
    that are on no node now.
    """

    snapshot: pb.ClusterSnapshot
    pods: frozenset[str]
    requests: Mapping[str, Mapping[str, int]]
    workers: Sequence[str]
    waiting_count: int = 0

    def with_groups(self, groups: Sequence[NodeGroup]) -> pb.ClusterSnapshot:
        """Return the cluster with node groups. O(pods)."""
        cluster = Application(self.snapshot)
        of_groups = build_snapshot(Objects(by_kind={"NodeGroup": list(groups)}, given={"NodeGroup"})).snapshot
        cluster.add(pb.SnapshotDelta(changed=of_groups))
        return cluster.result()

    def total(self, pods: Iterable[str]) -> dict[str, int]:
        """Return the requests of some pods together."""
        found: dict[str, int] = {}
        for pod in pods:
            for resource, amount in self.requests.get(pod, {}).items():
                found[resource] = found.get(resource, 0) + amount
        return found


def empty_cluster(snapshot: pb.ClusterSnapshot) -> EmptyCluster:
    """Return a cluster with all its pods to be placed. O(pods)."""
    view = ClusterView(snapshot)
    kept = {node.name for node in snapshot.nodes if not label_group(view.labels(node.label_set), ())}
    base = pb.ClusterSnapshot()
    base.CopyFrom(snapshot)
    base.ClearField("slack_requests")
    base.ClearField("actuation_status")
    del base.node_groups[:]
    del base.nodes[:]
    base.nodes.extend(node for node in snapshot.nodes if node.name in kept)
    for node in base.nodes:
        node.unschedulable, node.node_group = True, ""
    _add_daemon_templates(base, view)
    for spec in base.pod_specs:
        spec.ClearField("scale_up_delay")
    pods, dropped = _pods(base, view, kept)
    cluster = Application(base)
    cluster.add(pb.SnapshotDelta(changed=pb.ClusterSnapshot(strings=[""]), deleted_pods=dropped))
    requests = {key: view.requests(found) for key in pods if (found := view.pod(key)) is not None}
    workers = [node.name for node in snapshot.nodes if node.name not in kept]
    waiting = sum(1 for key in pods if (found := view.pod(key)) is not None and not found.node)
    return EmptyCluster(cluster.result(), frozenset(pods), requests, workers, waiting)


def _pods(base: pb.ClusterSnapshot, view: ClusterView, kept: set[str]) -> tuple[list[str], list[str]]:
    """Make the pods wait, in place; return the keys of those that have to be placed, and of those that are left out."""
    pods = base.pods
    nodes = np.frombuffer(pods.node, "<i4").copy()
    flags = np.frombuffer(pods.flags, np.uint8).copy() if pods.flags else np.zeros(pods.count, np.uint8)
    phases = np.frombuffer(pods.phase, np.uint8).copy()
    leaving = np.frombuffer(pods.deletion, "<i8") if pods.deletion else np.zeros(pods.count, np.int64)
    placed, dropped = [], []
    for row, key in enumerate(view.pod_keys):
        if view.node_of(row) in kept and phases[row] not in _ENDED:
            continue
        if phases[row] in _ENDED or leaving[row] or flags[row] & (FLAG_MIRROR | FLAG_DAEMON):
            dropped.append(key)
            continue
        placed.append(key)
        nodes[row], phases[row] = 0, pb.PodPhase.PENDING
        flags[row] = (int(flags[row]) & ~FLAG_READY) | FLAG_UNSCHEDULABLE
    pods.node, pods.flags, pods.phase = nodes.tobytes(), flags.tobytes(), phases.tobytes()
    return placed, dropped


def _add_daemon_templates(base: pb.ClusterSnapshot, view: ClusterView) -> None:
    """Give each DaemonSet without a template that of its newest pod, in place: its pods are left out."""
    pods = base.pods
    owners = {owner.uid: owner for owner in base.owners}
    created = np.frombuffer(pods.created, "<i8") if pods.created else np.zeros(pods.count, np.int64)
    uids = np.frombuffer(pods.owner, "<i4") if pods.owner else np.zeros(pods.count, np.int32)
    sets = np.frombuffer(pods.label_set, "<i4") if pods.label_set else np.zeros(pods.count, np.int32)
    newest: dict[str, int] = {}
    for row in range(pods.count):
        uid = view.text(int(uids[row]))
        if uid and view.flags_of(row) & FLAG_DAEMON and (uid not in newest or created[row] > created[newest[uid]]):
            newest[uid] = row
    for uid, row in sorted(newest.items()):
        namespace, _, name = view.pod_keys[row].partition("/")
        owner = owners.get(uid)
        if owner is None:
            owner = base.owners.add(uid=uid, kind="DaemonSet", namespace=namespace, name=name)
        if not owner.HasField("pod_template"):
            owner.pod_template.namespace = namespace
            owner.pod_template.spec, owner.pod_template.label_set = view.spec_of(row), int(sets[row])
