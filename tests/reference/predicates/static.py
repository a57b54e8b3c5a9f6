"""Predicates that depend on one pod and one node only. Source: kube-scheduler v1.34.3."""

from tests.builders.rows import NodeRow, PodRow
from tests.reference.classes.selectors import node_matches, term_matches
from trimtab.planner.model.values import Taint, Toleration
from trimtab.v1.reason_pb2 import PredicateReason as Reason
from trimtab.v1.snapshot_pb2 import TaintEffect, TolerationOperator, VolumeState

GA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = [*GA, *GA.values()]


def covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == TolerationOperator.EXISTS:
        return True
    return toleration.operator in (0, TolerationOperator.EQUAL) and toleration.value == taint.value


def tolerated(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return any(covers(toleration, taint) for toleration in tolerations)


def tolerates_all(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...]) -> bool:
    return all(tolerated(tolerations, t) for t in taints if t.effect != TaintEffect.PREFER_NO_SCHEDULE)


def zone_excludes(pod: PodRow, node: NodeRow) -> bool:
    if not any(key in node.labels for key in ZONES):
        return False
    for volume in pod.volumes:
        for key, value in volume.zone_labels:
            parts = [part.strip() for part in value.split("__")]
            if key not in ZONES or "" in parts:
                continue
            own = node.labels.get(key, node.labels.get(GA.get(key, key)))
            if own not in parts:
                return True
    return False


def refusals(pod: PodRow, node: NodeRow) -> set[int]:
    """Return the reasons of all static predicates that fail."""
    spec, out = pod.spec, set()
    cordoned = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
    if node.unschedulable and not tolerated(spec.tolerations, cordoned):
        out.add(Reason.NODE_UNSCHEDULABLE)
    if not tolerates_all(spec.tolerations, node.taints):
        out.add(Reason.TAINT_NOT_TOLERATED)
    if not node_matches(spec, node) or (pod.pinned and pod.pinned != node.name):
        out.add(Reason.NODE_AFFINITY_NOT_MATCHED)
    for volume in pod.volumes:
        place = volume.node_affinity
        unusable = volume.state in (VolumeState.MISSING, VolumeState.UNBOUND_IMMEDIATE)
        if unusable or (place is not None and not any(term_matches(term, node) for term in place)):
            out.add(Reason.VOLUME_NOT_BINDABLE)
    if zone_excludes(pod, node):
        out.add(Reason.VOLUME_ZONE_MISMATCH)
    if spec.unsupported:
        out.add(Reason.UNSUPPORTED_CONSTRAINT)
    if pod.gated:
        out.add(Reason.SCHEDULING_GATED)
    return out
