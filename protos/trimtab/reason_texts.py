"""One clause for each reason why a node stays or a pod is in the way, for people. A node's clause fits one node or
many; a pod's clause follows its subject, the pod, which the caller writes. Written by hand, beside the generated
modules: planner and clients may both import it; a test checks that the tables are complete.
"""

from collections.abc import Mapping
from typing import Final

from trimtab.v1 import reason_pb2

_Node = reason_pb2.UnremovableReason
_Pod = reason_pb2.BlockingPodReason

NODE_SENTENCES: Final[Mapping[int, str]] = {
    _Node.UNSPECIFIED: "no reason",
    _Node.SCALE_DOWN_DISABLED_ANNOTATION: "an annotation disables scale-down",
    _Node.SCALE_DOWN_UNREADY_DISABLED: "not ready, and scale-down of unready nodes is off",
    _Node.NOT_AUTOSCALED: "in no node group",
    _Node.NOT_UNNEEDED_LONG_ENOUGH: "not unneeded for long enough",
    _Node.NOT_UNREADY_LONG_ENOUGH: "not unready for long enough",
    _Node.NODE_GROUP_MIN_SIZE_REACHED: "the node group would fall below its minimum size",
    _Node.NODE_GROUP_MAX_DELETION_COUNT_REACHED: "the node group has as many deletions in progress as allowed",
    _Node.ATOMIC_SCALE_DOWN_FAILED: "the node group can only go as a whole, and not all of it can go",
    _Node.MINIMAL_RESOURCE_LIMIT_EXCEEDED: "the cluster would fall below a resource minimum",
    _Node.CURRENTLY_BEING_DELETED: "already being deleted",
    _Node.NOT_UNDERUTILIZED: "utilization above the threshold",
    _Node.NOT_UNNEEDED_OTHER_REASON: "kept for another reason than pods",
    _Node.RECENTLY_UNREMOVABLE: "found unremovable a short while ago, to be checked again later",
    _Node.NO_PLACE_TO_MOVE_PODS: "pods do not fit on the nodes that stay",
    _Node.BLOCKED_BY_POD: "a pod must not be evicted",
    _Node.UNEXPECTED_ERROR: "could not be evaluated",
    _Node.NO_NODE_INFO: "not part of the simulation",
    _Node.BLOCKED_BY_ON_COMPLETION_POD: "a pod must run to completion first",
    _Node.DESTINATION_OF_MOVED_PODS: "pods of removed nodes move there",
    _Node.NOT_EVALUATED: "the simulation stopped before",
    _Node.IN_COOLDOWN: "a cool-down is in force",
    _Node.CLUSTER_UNHEALTHY: "too many nodes are unready",
    _Node.LATER_WAVE: "goes in a later wave, when disruption budgets allow evictions again",
    _Node.RESERVED_FOR_PENDING_PODS: "room is kept for pending pods",
    _Node.NEEDED_FOR_SLACK: "its room is kept free for slack or a ProvisioningRequest",
    _Node.DO_NOT_DISRUPT_ANNOTATION: "is annotated karpenter.sh/do-not-disrupt",
    _Node.DISRUPTION_BUDGET: "a disruption budget of its pool lets no further node go",
    _Node.NOT_EMPTY: "its pool removes only empty nodes (consolidationPolicy: WhenEmpty)",
    _Node.NOT_CONSOLIDATED: "its pool is not consolidated (consolidateAfter: Never)",
    _Node.BALANCE: "similar node groups or zones would become too uneven",
}
POD_SENTENCES: Final[Mapping[int, str]] = {
    _Pod.UNSPECIFIED: "",
    _Pod.CONTROLLER_NOT_FOUND: "has a controller that is not in the input",
    _Pod.MIN_REPLICAS_REACHED: "has a controller with fewer replicas than minReplicaCount",
    _Pod.NOT_REPLICATED: "has no controller that is known to create it again",
    _Pod.LOCAL_STORAGE_REQUESTED: "keeps data on the node (emptyDir or hostPath)",
    _Pod.NOT_SAFE_TO_EVICT_ANNOTATION: "is annotated safe-to-evict: false",
    _Pod.UNMOVABLE_KUBE_SYSTEM_POD: "is a kube-system pod without a PodDisruptionBudget",
    _Pod.NOT_ENOUGH_PDB: "has a PodDisruptionBudget that does not allow its eviction",
    _Pod.UNEXPECTED_ERROR: "could not be evaluated",
    _Pod.UNSUPPORTED_CONSTRAINT: "has a constraint that this build does not support",
    _Pod.SEVERAL_BUDGETS: "is matched by several PodDisruptionBudgets: the API refuses to evict it",
    _Pod.JOB_POD_UNMOVABLE: "belongs to a Job, and the settings keep Job pods in place",
    _Pod.WAITING_FOR_COMPLETION: "is annotated safe-to-evict: on-completion and still runs",
    _Pod.NO_PLACE: "fits no node that stays",
    _Pod.DO_NOT_DISRUPT: "is annotated karpenter.sh/do-not-disrupt",
    _Pod.GANG: "belongs to a gang of which too few pods would run without it",
}
