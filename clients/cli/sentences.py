"""The contract's clauses for people, by the names that the commands use."""

from trimtab.reason_texts import clauses
from trimtab.v1 import plan_pb2, reason_pb2

RESULT_SENTENCES = clauses(reason_pb2.ScaleDownResult)
POD_COST_SENTENCES = clauses(reason_pb2.PodCostGroupReason)
SCALE_UP_SENTENCES = clauses(reason_pb2.ScaleUpResult)
NODE_GROUP_SENTENCES = clauses(reason_pb2.NodeGroupReason)
REPLACEMENT_SENTENCES = clauses(reason_pb2.ReplacementResult)
SKIPPED_SENTENCES = clauses(reason_pb2.SkippedPodReason)
EXPANDER_NAMES = clauses(plan_pb2.Expander)


def codes_of(node: plan_pb2.NodeVerdict) -> str:
    """Return the codes of a node that stays, as `-o json` has them."""
    code = reason_pb2.UnremovableReason.Code.Name(node.reason)
    return f"{code}, {reason_pb2.BlockingPodReason.Code.Name(node.blocking_reason)}" if node.blocking_reason else code
