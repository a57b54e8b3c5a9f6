"""Settings of replacement, resolved. Times in nanoseconds. Meaning, defaults and ranges are those of the contract.

The rules by which nodes may be drained are those of scale-down, and new nodes are those of scale-up: their settings are
a part of these.
"""

from dataclasses import dataclass, field

from trimtab.planner.model.settings import ScaleDownSettings, ScaleUpSettings, resolve_scale_down, resolve_scale_up
from trimtab.planner.model.settings.reading import resolved, setting, value_of
from trimtab.planner.model.settings.scale_down import NodeDisruptionBudget, node_budgets
from trimtab.planner.model.settings.scale_up import USUAL, SearchBudgets, resolve_search
from trimtab.v1 import plan_pb2 as pb


@dataclass(frozen=True)
class ReplacementSettings:
    """Replacement, resolved from `PlanSettings`."""

    enabled: bool = setting("replacement.enabled")
    min_saving_per_hour: float = setting("replacement.min_saving_per_hour")
    min_saving_share: float = setting("replacement.min_saving_share")
    min_saving_per_eviction: float = setting("replacement.min_saving_per_eviction")
    price_per_eviction: float = setting("replacement.price_per_eviction")
    max_payback_time_ns: int = setting("replacement.max_payback_time")
    max_surge_nodes: int = setting("replacement.max_surge_nodes")
    max_leaving_nodes: int = setting("replacement.max_leaving_nodes")
    max_waves: int = setting("replacement.max_waves")
    stability_margin: float = setting("replacement.stability_margin")
    consolidate_after_ns: int = setting("replacement.consolidate_after")
    consolidate_after_ns_of: dict[str, int] = field(default_factory=dict)
    """The same by node group, where that differs from the general one."""
    min_balanced_score: float = setting("replacement.min_balanced_score")
    budgets: tuple[NodeDisruptionBudget, ...] = ()
    """How many nodes may leave, in parts of the cluster."""
    choice: int = setting("replacement.choice")
    """`ReplacementChoice.Code`: which plan of the frontier is taken."""
    spot_to_spot: bool = setting("replacement.spot.enabled")
    min_spot_alternatives: int = setting("replacement.spot.min_alternatives")
    avoid_time_ns: int = setting("replacement.avoid_time")
    stable_time_ns: int = setting("replacement.stable_time")
    do_not_disrupt: bool = setting("replacement.do_not_disrupt")
    scale_down: ScaleDownSettings = field(default_factory=ScaleDownSettings)
    """The rules for pods."""
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)
    """New nodes."""
    search: SearchBudgets = USUAL
    """How much is searched for a better plan."""


def resolve_replacement(message: pb.PlanSettings) -> ReplacementSettings:
    """Resolve the replacement part of `PlanSettings`. Raises SettingsError for an invalid value."""
    return resolved(
        ReplacementSettings,
        message,
        consolidate_after_ns_of={
            name: value_of(group, "consolidate_after", f"node_groups[{name!r}]")
            for name, group in sorted(message.node_groups.items())
            if group.HasField("consolidate_after")
        },
        budgets=node_budgets(message.planner.disruption_budgets, "planner.disruption_budgets"),
        scale_down=resolve_scale_down(message),
        scale_up=resolve_scale_up(message),
        search=resolve_search(message),
    )
