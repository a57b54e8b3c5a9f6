"""Settings, resolved from `PlanSettings` by concern: planner-wide ones, and those of decisions that lower layers read
too. Other decisions have theirs in `settings` of their own package.

An absent field means the contract's default; an invalid value is an error (`reading`). No file and no environment is
read.
"""

from trimtab.planner.model.settings.planner import (
    NODES,
    GangSettings,
    PlannerSettings,
    ResourceLimit,
    SimilaritySettings,
    resolve_planner,
)
from trimtab.planner.model.settings.reading import SECOND_NS, SettingsError
from trimtab.planner.model.settings.scale_down import (
    GroupScaleDownSettings,
    ScaleDownSettings,
    resolve_scale_down,
)
from trimtab.planner.model.settings.scale_up import (
    DEFAULT_EXPANDERS,
    PriorityRank,
    Readiness,
    ScaleUpSettings,
    TaintNames,
    resolve_scale_up,
)

__all__ = [
    "DEFAULT_EXPANDERS",
    "NODES",
    "SECOND_NS",
    "GangSettings",
    "GroupScaleDownSettings",
    "PlannerSettings",
    "PriorityRank",
    "Readiness",
    "ResourceLimit",
    "ScaleDownSettings",
    "ScaleUpSettings",
    "SettingsError",
    "SimilaritySettings",
    "TaintNames",
    "resolve_planner",
    "resolve_scale_down",
    "resolve_scale_up",
]
