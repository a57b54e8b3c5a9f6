"""The contract's clauses for people, by the names that the commands use, and what follows from two of them."""

from trimtab.reason_texts import NODE_SENTENCES, POD_SENTENCES, clauses
from trimtab.v1 import plan_pb2, reason_pb2

_Node = reason_pb2.UnremovableReason
_Limit = reason_pb2.ReplacementLimit
RESULT_SENTENCES = clauses(reason_pb2.ScaleDownResult)
POD_COST_SENTENCES = clauses(reason_pb2.PodCostGroupReason)
SCALE_UP_SENTENCES = clauses(reason_pb2.ScaleUpResult)
NODE_GROUP_SENTENCES = clauses(reason_pb2.NodeGroupReason)
REPLACEMENT_SENTENCES = clauses(reason_pb2.ReplacementResult)
LIMIT_SENTENCES = clauses(reason_pb2.ReplacementLimit)
SKIPPED_SENTENCES = clauses(reason_pb2.SkippedPodReason)
EXPANDER_NAMES = clauses(plan_pb2.Expander)


def codes_of(node: plan_pb2.NodeVerdict) -> str:
    """Return the codes of a node that stays, as `-o json` has them."""
    code = reason_pb2.UnremovableReason.Code.Name(node.reason)
    return f"{code}, {reason_pb2.BlockingPodReason.Code.Name(node.blocking_reason)}" if node.blocking_reason else code


def why_not_replaced(node: plan_pb2.KeptNode) -> str:
    """Return one clause with the condition that keeps a node from being replaced; the pod in its way is "a pod"."""
    if node.reason == _Limit.NODE_NOT_REMOVABLE:
        if node.unremovable == _Node.RESERVED_FOR_PENDING_PODS:
            return "pods that this plan moves there, or that wait, need its room"
        if node.blocking_reason:
            return f"a pod {POD_SENTENCES[node.blocking_reason]}"
        if node.unremovable:
            return NODE_SENTENCES[node.unremovable]
    return LIMIT_SENTENCES[node.reason]
