"""One sentence for each reason of the contract. A test holds the tables complete."""

from trimtab.v1 import reason_pb2

_Node = reason_pb2.UnremovableReason
_Pod = reason_pb2.BlockingPodReason
_Result = reason_pb2.ScaleDownResult

NODE_SENTENCES = {
    _Node.UNSPECIFIED: "nothing keeps it",
    _Node.SCALE_DOWN_DISABLED_ANNOTATION: "an annotation on it forbids or delays its removal",
    _Node.SCALE_DOWN_UNREADY_DISABLED: "it is not ready, and unready nodes are to stay",
    _Node.NOT_AUTOSCALED: "it belongs to no node group",
    _Node.NOT_UNNEEDED_LONG_ENOUGH: "it is not needed, but has not been so for long enough",
    _Node.NOT_UNREADY_LONG_ENOUGH: "it is not needed, but has not been unready for long enough",
    _Node.NODE_GROUP_MIN_SIZE_REACHED: "its node group would fall below its minimum",
    _Node.NODE_GROUP_MAX_DELETION_COUNT_REACHED: "its node group has as many deletions in progress as it may have",
    _Node.ATOMIC_SCALE_DOWN_FAILED: "its node group goes as a whole or not at all, and not all of it can go",
    _Node.MINIMAL_RESOURCE_LIMIT_EXCEEDED: "the cluster would fall below a minimum of resources",
    _Node.CURRENTLY_BEING_DELETED: "it is being deleted already",
    _Node.NOT_UNDERUTILIZED: "it is used too much to be a candidate",
    _Node.NOT_UNNEEDED_OTHER_REASON: "something other than pods keeps it",
    _Node.RECENTLY_UNREMOVABLE: "it was found unremovable a short while ago and is looked at again later",
    _Node.NO_PLACE_TO_MOVE_PODS: "its pods have no place on the nodes that stay",
    _Node.BLOCKED_BY_POD: "a pod on it must not be moved",
    _Node.UNEXPECTED_ERROR: "it, or a pod on it, could not be understood",
    _Node.NO_NODE_INFO: "it is not part of the simulation",
    _Node.BLOCKED_BY_ON_COMPLETION_POD: "a pod on it is to run to its end first",
    _Node.DESTINATION_OF_MOVED_PODS: "pods of nodes that go are to move here",
    _Node.NOT_EVALUATED: "the simulation was stopped before it came to this node",
    _Node.IN_COOLDOWN: "a cool-down is in force",
    _Node.BALANCE: "node groups or zones that are alike would become too uneven",
}
POD_SENTENCES = {
    _Pod.UNSPECIFIED: "",
    _Pod.CONTROLLER_NOT_FOUND: "its controller is not in the snapshot, so nothing is known to create it again",
    _Pod.MIN_REPLICAS_REACHED: "its controller has fewer replicas than the settings ask for",
    _Pod.NOT_REPLICATED: "no controller would create it again, or none of a known kind",
    _Pod.LOCAL_STORAGE_REQUESTED: "it keeps data on the node (hostPath or emptyDir)",
    _Pod.NOT_SAFE_TO_EVICT_ANNOTATION: "its annotation safe-to-evict is false",
    _Pod.UNMOVABLE_KUBE_SYSTEM_POD: "it is a kube-system pod without PodDisruptionBudget",
    _Pod.NOT_ENOUGH_PDB: "its PodDisruptionBudget allows no further disruption",
    _Pod.UNEXPECTED_ERROR: "it could not be understood",
    _Pod.UNSUPPORTED_CONSTRAINT: "it carries a constraint that this build cannot decide",
    _Pod.JOB_POD_UNMOVABLE: "it belongs to a Job, and the settings keep Jobs where they are",
    _Pod.WAITING_FOR_COMPLETION: "its annotation safe-to-evict is on-completion, and it has not completed",
    _Pod.NO_PLACE: "it fits no node that stays",
}
RESULT_SENTENCES = {
    _Result.UNSPECIFIED: "not decided",
    _Result.SCALE_DOWN_ERROR: "pods of nodes that are going have no place, so nothing else may go",
    _Result.SCALE_DOWN_NO_NODE_DELETED: "there are unneeded nodes, but none may go now",
    _Result.SCALE_DOWN_NODE_DELETE_STARTED: "nodes are to go now",
    _Result.SCALE_DOWN_NOT_TRIED: "scale-down is switched off",
    _Result.SCALE_DOWN_IN_COOLDOWN: "a cool-down is in force",
    _Result.SCALE_DOWN_IN_PROGRESS: "deletions are in progress, nothing is added",
    _Result.SCALE_DOWN_NO_CANDIDATES: "no node is unneeded",
    _Result.SCALE_DOWN_THROTTLED: "as many deletions are in progress as may be",
}
