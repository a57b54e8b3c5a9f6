"""TaintToleration, taint by taint. Source: kube-scheduler v1.37.2."""

from tests.builders.rows import PodRow
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.v1.reason_pb2 import PredicateReason as Reason
from trimtab.v1.snapshot_pb2 import TaintEffect, TolerationOperator


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


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    covered = tolerates_all(pod.spec.tolerations, cluster.nodes[name].taints)
    return set() if covered else {Reason.TAINT_NOT_TOLERATED}
