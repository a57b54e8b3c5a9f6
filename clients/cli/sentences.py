"""One clause for each reason of the contract, for people; those of predicates are in the contract itself
(`trimtab.predicate_texts`). A test checks that the tables are complete. A node's clause
fits one node or many; a pod's clause follows its subject, the pod, which the caller writes. The subject of a node
group's clause is "it".
"""

from trimtab.reason_texts import NODE_SENTENCES, POD_SENTENCES
from trimtab.v1 import plan_pb2, reason_pb2

_Node = reason_pb2.UnremovableReason
_Result = reason_pb2.ScaleDownResult
_Group = reason_pb2.PodCostGroupReason
_NodeGroup = reason_pb2.NodeGroupReason
_Skipped = reason_pb2.SkippedPodReason
_Growth = reason_pb2.ScaleUpResult
_Expander = plan_pb2.Expander
_Replacement = reason_pb2.ReplacementResult
_Limit = reason_pb2.ReplacementLimit

RESULT_SENTENCES = {
    _Result.UNSPECIFIED: "nothing was decided",
    _Result.SCALE_DOWN_ERROR: "scale-down could not be decided",
    _Result.SCALE_DOWN_NO_NODE_DELETED: "there are unneeded nodes, but none may go now",
    _Result.SCALE_DOWN_NODE_DELETE_STARTED: "nodes go now",
    _Result.SCALE_DOWN_NOT_TRIED: "scale-down is switched off",
    _Result.SCALE_DOWN_IN_COOLDOWN: "a cool-down is in force",
    _Result.SCALE_DOWN_CLUSTER_UNHEALTHY: "too many nodes are unready",
    _Result.SCALE_DOWN_IN_PROGRESS: "deletions are in progress, and no other node goes now",
    _Result.SCALE_DOWN_NO_CANDIDATES: "no node is unneeded",
    _Result.SCALE_DOWN_THROTTLED: "as many deletions are in progress as the limits allow",
}
POD_COST_SENTENCES = {
    _Group.UNSPECIFIED: "no reason",
    _Group.SEVERAL_CONTROLLERS: "two controllers claim its pods",
    _Group.ROLLING_UPDATE: "it is being replaced in a rolling update",
    _Group.TOPOLOGY_KEY_MISSING: "a node lacks the topology key",
    _Group.ANNOTATION_INVALID: "an annotation is not a number",
    _Group.PRICE_UNKNOWN: "a node has no price",
    _Group.FOREIGN_COST: "another client has set the cost of a pod",
    _Group.POD_WITHOUT_NODE: "a pod is on no node",
    _Group.ANNOTATION_MISSING: "a pod lacks an annotation",
    _Group.SEVERAL_TARGETS: "targets select only parts of it",
    _Group.SCALE_DOWN_NOT_ASKED: "the nodes that go are not known without --decision scale-down",
    _Group.AGE_UNKNOWN: "the age of a pod is not known",
}
SCALE_UP_SENTENCES = {
    _Growth.UNSPECIFIED: "nothing was decided",
    _Growth.SCALE_UP_NEEDED: "node groups grow",
    _Growth.SCALE_UP_NOT_TRIED: "scale-up is switched off",
    _Growth.SCALE_UP_NOT_NEEDED: "no pod needs a new node",
    _Growth.SCALE_UP_NO_OPTIONS: "no node group can grow for the pods that wait",
    _Growth.SCALE_UP_ERROR: "scale-up could not be decided",
}
NODE_GROUP_SENTENCES = {
    _NodeGroup.UNSPECIFIED: "it grows",
    _NodeGroup.PREDICATE_FAILED: "a new node of it would not take the pod",
    _NodeGroup.MAX_SIZE_REACHED: "it is at its maximum size",
    _NodeGroup.RESOURCE_LIMIT_REACHED: "a limit on resources or nodes keeps it from growing",
    _NodeGroup.MAX_NEW_NODES_REACHED: "the plan adds as many nodes as one plan may",
    _NodeGroup.BACKED_OFF: "it is in back-off after a scale-up that failed",
    _NodeGroup.UNHEALTHY: "it is unhealthy",
    _NodeGroup.NO_TEMPLATE: "it has neither a template nor a node to tell what a new node is like",
    _NodeGroup.NOT_WHOLE: "it grows to its maximum or not at all, and the pods do not need all of it",
    _NodeGroup.NOT_CHOSEN: "an expander preferred another node group",
    _NodeGroup.PRICE_UNKNOWN: "it has no price, and an expander needs one",
    _NodeGroup.PRIORITY_INVALID: "its priority is not a number",
    _NodeGroup.NODE_GROUP_INVALID: "its description contradicts itself, such as a target size above the maximum",
    _NodeGroup.NOT_EVALUATED: "the time or the bound ended before it was looked at",
    _NodeGroup.GANG_INCOMPLETE: "a new node of it would take the pod, but its gang cannot start whole",
}
REPLACEMENT_SENTENCES = {
    _Replacement.UNSPECIFIED: "nothing was decided",
    _Replacement.REPLACEMENT_PLANNED: "nodes are replaced",
    _Replacement.REPLACEMENT_NOTHING_PAYS: "no replacement saves enough, or none is possible",
    _Replacement.REPLACEMENT_NO_PRICES: "no node, or no node group that may grow, has a price",
    _Replacement.REPLACEMENT_LIMITED: "limits or budgets allow no replacement now",
    _Replacement.REPLACEMENT_NOT_TRIED: "replacement is switched off",
    _Replacement.REPLACEMENT_ERROR: "replacement could not be decided",
}
LIMIT_SENTENCES = {
    _Limit.UNSPECIFIED: "no more saves anything",
    _Limit.SAVING_TOO_SMALL: "the saving is below a minimum of the settings",
    _Limit.PAYBACK_TOO_LONG: "the saving does not pay for the moves in time",
    _Limit.NOT_STABLE: "prices that change a little would undo the saving",
    _Limit.BALANCED_SCORE_TOO_SMALL: "the Balanced score is below the minimum",
    _Limit.NODE_NOT_REMOVABLE: "the node may not be drained",
    _Limit.NOT_ENOUGH_PDB: "a PodDisruptionBudget allows too few evictions",
    _Limit.DISRUPTION_BUDGET: "a budget for nodes allows no more to leave",
    _Limit.NODE_GROUP_LIMIT: "node groups that would help cannot grow",
    _Limit.SURGE_LIMIT: "as many nodes come, leave or wait for a wave as the settings allow",
    _Limit.TOO_FEW_SPOT_ALTERNATIVES: "too few cheaper node groups would take the pods of a spot node",
    _Limit.TOO_YOUNG: "younger than consolidateAfter, or with a pod that is",
    _Limit.DO_NOT_DISRUPT: "it or a pod on it is annotated karpenter.sh/do-not-disrupt",
    _Limit.NOT_PAID_BACK: "came by a replacement that has not paid for itself yet",
    _Limit.NOTHING_CHEAPER: "no cheaper room for the pods was found in any node group",
    _Limit.PRICE_UNKNOWN: "the price is not known",
    _Limit.MINIMUM_REACHED: "the node group, or a resource, would fall below its minimum",
    _Limit.NOT_EVALUATED: "not tried before the time or the bound on the search ended",
}
SKIPPED_SENTENCES = {
    _Skipped.UNSPECIFIED: "no reason",
    _Skipped.EXPENDABLE: "the priority is below the cutoff of expendable pods",
    _Skipped.SCHEDULING_GATED: "held back by scheduling gates",
    _Skipped.TOO_YOUNG: "younger than the delay for new pods",
    _Skipped.OTHER_SCHEDULER: "placed by another scheduler",
    _Skipped.UNSUPPORTED_CONSTRAINT: "a constraint that this build does not support",
    _Skipped.HELD_WITH_GANG: "the scheduler holds it until its gang is complete",
    _Skipped.BEYOND_GANG_MINIMUM: "beyond the minimum of its gang (serveOptionalMembers is false)",
    _Skipped.CAPACITY_REQUESTED: "its ProvisioningRequest has room for it, or waits for room",
}
EXPANDER_NAMES = {
    _Expander.UNSPECIFIED: "no expander",
    _Expander.LEAST_WASTE: "least waste",
    _Expander.MOST_PODS: "most pods",
    _Expander.LEAST_NODES: "fewest nodes",
    _Expander.PRICE: "price",
    _Expander.PRIORITY: "rank by name",
    _Expander.HIGHEST_PRIORITY: "priority by label",
    _Expander.BALANCED: "smallest of its kind",
    _Expander.CHEAPEST_PLAN: "cheapest plan",
    _Expander.RANDOM: "the tie-break",
}


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
