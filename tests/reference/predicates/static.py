"""Predicates that depend on one pod and one node only. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import NodeRow, PodRow
from tests.reference.classes.selectors import node_matches, term_matches
from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.v1.reason_pb2 import PredicateReason as Reason
from trimtab.v1.snapshot_pb2 import TaintEffect, TolerationOperator, VolumeState

GA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES = [*GA, *GA.values()]


def compares(toleration: TolerationSpec, taint: TaintSpec) -> bool:
    """Return whether a toleration with Lt or Gt covers a taint with its key and effect."""
    if any(str(int(text)) != text for text in (toleration.value, taint.value) if text.lstrip("-").isdigit()):
        return False
    if not all(text.lstrip("-").isdigit() and abs(int(text)) < 2**63 for text in (toleration.value, taint.value)):
        return False
    bound, level = int(toleration.value), int(taint.value)
    return level < bound if toleration.operator == TolerationOperator.LT else level > bound


def covers(toleration: TolerationSpec, taint: TaintSpec, compare: bool = False) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == TolerationOperator.EXISTS:
        return True
    if compare and toleration.operator in (TolerationOperator.LT, TolerationOperator.GT):
        return compares(toleration, taint)
    return toleration.operator in (0, TolerationOperator.EQUAL) and toleration.value == taint.value


def tolerated(tolerations: tuple[TolerationSpec, ...], taint: TaintSpec) -> bool:
    return any(covers(toleration, taint) for toleration in tolerations)


def tolerates_all(tolerations: tuple[TolerationSpec, ...], taints: tuple[TaintSpec, ...]) -> bool:
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


def refusals(pod: PodRow, node: NodeRow, are_features_declared: bool = True) -> set[int]:
    """Return the reasons of all static predicates that fail. are_features_declared : by some node."""
    spec, out = pod.spec, set()
    cordoned = TaintSpec("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
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
    if node.volume_drivers is not None and any(
        volume.required_driver and volume.required_driver not in node.volume_drivers for volume in pod.volumes
    ):
        out.add(Reason.CSI_DRIVER_MISSING)
    if are_features_declared and set(spec.node_features) - set(node.declared_features):
        out.add(Reason.NODE_FEATURE_NOT_DECLARED)
    if spec.unsupported:
        out.add(Reason.UNSUPPORTED_CONSTRAINT)
    if pod.gated:
        out.add(Reason.SCHEDULING_GATED)
    return out
