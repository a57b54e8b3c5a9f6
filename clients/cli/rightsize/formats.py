"""Values of options of `trimtab rightsize`."""

from enum import StrEnum


class Level(StrEnum):
    """Which instance types new nodes may have."""

    SAME_TYPES = "same-types"
    SAME_FAMILY = "same-family"
    ANY = "any"


class PoolExport(StrEnum):
    """Objects of right-sized pools."""

    NODE_GROUPS = "nodegroups"
    KARPENTER = "karpenter"
    CLUSTER_API = "clusterapi"


class RightsizeFormat(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NODE_GROUPS = "nodegroups"
    KARPENTER = "karpenter"
    CLUSTER_API = "clusterapi"
