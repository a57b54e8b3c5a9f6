"""The rights of callers, and which right each method of the services needs. Under a policy, a method that is not listed
here is refused.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Right(StrEnum):
    """A right that a caller may have, as named in the file."""

    PLAN = "plan"  # ask the planner about clusters of the names in `clusters`
    CHOOSE = "choose"  # have the planner choose among a Cluster Autoscaler's options; all that `anonymous` can grant
    READ = "read"  # read status and capabilities, refresh
    DELETE = "delete"  # start and cancel deletions of nodes
    TAINT = "taint"  # set and remove soft taints
    GROW = "grow"  # grow node groups
    REPLACE = "replace"  # start and cancel replacements, which grow node groups and delete nodes
    POD_COSTS = "podCosts"  # write pod deletion costs
    BUFFER_STATUS = "bufferStatus"  # write the status of CapacityBuffers and ProvisioningRequests


_ACTUATOR: Final = "/trimtab.v1.Actuator/"
_PLANNER: Final = "/trimtab.v1.Planner/"
_CLOUD: Final = "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/"

RIGHT_OF_METHOD: Final[Mapping[str, Right]] = MappingProxyType(
    {
        # The request's cluster is checked once the request has arrived.
        f"{_PLANNER}Plan": Right.PLAN,
        f"{_PLANNER}CheckFit": Right.PLAN,
        f"{_PLANNER}BalanceScaleUp": Right.PLAN,
        f"{_PLANNER}GetInfo": Right.PLAN,
        "/grpcplugin.Expander/BestOptions": Right.CHOOSE,
        f"{_ACTUATOR}GetInfo": Right.READ,
        f"{_ACTUATOR}GetStatus": Right.READ,
        f"{_ACTUATOR}WatchStatus": Right.READ,
        f"{_ACTUATOR}StartDeletion": Right.DELETE,
        f"{_ACTUATOR}CancelDeletion": Right.DELETE,
        f"{_ACTUATOR}ApplyTaints": Right.TAINT,
        f"{_ACTUATOR}ScaleUp": Right.GROW,
        f"{_ACTUATOR}LowerTargets": Right.DELETE,
        f"{_ACTUATOR}StartReplacement": Right.REPLACE,
        f"{_ACTUATOR}CancelReplacement": Right.REPLACE,
        f"{_ACTUATOR}ApplyPodCosts": Right.POD_COSTS,
        f"{_ACTUATOR}ApplyBufferStatus": Right.BUFFER_STATUS,
        f"{_ACTUATOR}ApplyCapacityStatus": Right.BUFFER_STATUS,
        "/trimtab.v1.EmbeddedCluster/ListObjects": Right.READ,
        # Only for the simulated cluster.
        "/trimtab.v1.EmbeddedCluster/ScaleReplicaSet": Right.GROW,
        f"{_CLOUD}NodeGroupIncreaseSize": Right.GROW,
        f"{_CLOUD}NodeGroupDeleteNodes": Right.DELETE,
        f"{_CLOUD}NodeGroupDecreaseTargetSize": Right.DELETE,
    }
    | {
        f"{_CLOUD}{name}": Right.READ
        for name in (
            "NodeGroups", "NodeGroupForNode", "PricingNodePrice", "PricingPodPrice", "GPULabel", "GetAvailableGPUTypes",
            "Cleanup", "Refresh", "NodeGroupTargetSize", "NodeGroupNodes", "NodeGroupTemplateNodeInfo",
            "NodeGroupGetOptions",
        )
    }
)  # fmt: skip
