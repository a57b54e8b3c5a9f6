"""Settings of replacement, resolved: defaults filled in, durations as integers, values checked. Times in nanoseconds.

The rules by which nodes may be drained are those of scale-down, and new nodes are those of scale-up: their settings are
a part of these.
"""

from dataclasses import dataclass, field
from typing import Final

from trimtab.planner.model.settings import (
    SECOND_NS,
    ScaleDownSettings,
    ScaleUpSettings,
    SettingsError,
    resolve_scale_down,
    resolve_scale_up,
)
from trimtab.planner.model.settings.node_budgets import NodeDisruptionBudget, node_budgets
from trimtab.planner.model.settings.reading import count, duration_ns, flag, number
from trimtab.planner.model.settings.search import USUAL, SearchBudgets, resolve_search
from trimtab.v1 import plan_pb2 as pb

_PATH: Final = "replacement"


@dataclass(frozen=True)
class ReplacementSettings:
    """Replacement, resolved from `PlanSettings`."""

    enabled: bool = True
    """Whether the decision is taken."""
    min_saving_per_hour: float = 0.0
    """Least saving of a plan."""
    min_saving_share: float = 0.05
    """Least saving as a share of what the nodes that leave cost: less is hardly worth restarts of pods."""
    min_saving_per_eviction: float = 0.0
    """Least hourly saving per evicted pod."""
    price_per_eviction: float = 0.0
    """What moving a usual pod costs, once. Off: it is known to users alone."""
    max_payback_time_ns: int = 86_400 * SECOND_NS
    """Longest time in which the saving must pay for the moves."""
    max_surge_nodes: int = 10
    """Most new nodes in one wave."""
    max_leaving_nodes: int = 10
    """Most nodes that leave in one wave, as scale-down drains at most ten at a time."""
    max_waves: int = 10
    """Most waves of a plan."""
    stability_margin: float = 0.1
    """Share by which prices may differ without making the plan, or its reverse, worthless."""
    consolidate_after_ns: int = 0
    """Nodes with a pod younger than this, or younger themselves, stay. Karpenter's `consolidateAfter`, and its default.
    """
    consolidate_after_ns_of: dict[str, int] = field(default_factory=dict)
    """The same by node group, where that differs from the general one."""
    min_balanced_score: float = 0.0
    """Least Balanced score; Karpenter's is 0.5 where that policy is chosen. Off, as there by default."""
    budgets: tuple[NodeDisruptionBudget, ...] = ()
    """How many nodes may leave, in parts of the cluster: those of the planner, and its own."""
    choice: int = pb.ReplacementChoice.MOST_SAVED
    """`ReplacementChoice.Code`: which plan of the frontier is taken."""
    spot_to_spot: bool = True
    """Whether spot nodes are replaced by spot nodes."""
    min_spot_alternatives: int = 3
    """Least number of cheaper node groups for that. Karpenter's 15 instance types are for its own choice at launch."""
    avoid_time_ns: int = 3_600 * SECOND_NS
    """How long no node is planned in a group that had none to give."""
    stable_time_ns: int = 0
    """How long a plan must replace a node before it does."""
    do_not_disrupt: bool = True
    """Whether pods annotated `karpenter.sh/do-not-disrupt` keep their nodes."""
    scale_down: ScaleDownSettings = field(default_factory=ScaleDownSettings)
    """The rules for pods."""
    scale_up: ScaleUpSettings = field(default_factory=ScaleUpSettings)
    """New nodes."""
    search: SearchBudgets = USUAL
    """How much is searched for a better plan."""


def resolve_replacement(message: pb.PlanSettings) -> ReplacementSettings:
    """Resolve the replacement part of `PlanSettings`. Raises SettingsError for an invalid value."""
    given, usual = message.replacement, ReplacementSettings()
    return ReplacementSettings(
        enabled=flag(given, "enabled", usual.enabled),
        min_saving_per_hour=number(given, "min_saving_per_hour", usual.min_saving_per_hour, _PATH),
        min_saving_share=_share(given, "min_saving_share", usual.min_saving_share),
        min_saving_per_eviction=number(given, "min_saving_per_eviction", usual.min_saving_per_eviction, _PATH),
        price_per_eviction=number(given, "price_per_eviction", usual.price_per_eviction, _PATH),
        max_payback_time_ns=_positive(given, "max_payback_time", usual.max_payback_time_ns),
        max_surge_nodes=count(given, "max_surge_nodes", usual.max_surge_nodes, _PATH, 1),
        max_leaving_nodes=count(given, "max_leaving_nodes", usual.max_leaving_nodes, _PATH, 1),
        max_waves=count(given, "max_waves", usual.max_waves, _PATH, 1),
        stability_margin=_share(given, "stability_margin", usual.stability_margin),
        consolidate_after_ns=duration_ns(given, "consolidate_after", usual.consolidate_after_ns, _PATH),
        consolidate_after_ns_of=_of_groups(message),
        min_balanced_score=number(given, "min_balanced_score", usual.min_balanced_score, _PATH),
        budgets=(
            *node_budgets(message.planner.disruption_budgets, "planner.disruption_budgets"),
            *node_budgets(given.budgets, f"{_PATH}.budgets"),
        ),
        choice=_choice(given),
        spot_to_spot=flag(given.spot, "enabled", usual.spot_to_spot),
        min_spot_alternatives=count(given.spot, "min_alternatives", usual.min_spot_alternatives, f"{_PATH}.spot", 1),
        avoid_time_ns=duration_ns(given, "avoid_time", usual.avoid_time_ns, _PATH),
        stable_time_ns=duration_ns(given, "stable_time", usual.stable_time_ns, _PATH),
        do_not_disrupt=flag(given, "do_not_disrupt", usual.do_not_disrupt),
        scale_down=resolve_scale_down(message),
        scale_up=resolve_scale_up(message),
        search=resolve_search(message),
    )


def _of_groups(message: pb.PlanSettings) -> dict[str, int]:
    """Return `consolidate_after` of the node groups that have one of their own, nanoseconds."""
    return {
        name: duration_ns(given, "consolidate_after", 0, f"node_groups[{name!r}]")
        for name, given in sorted(message.node_groups.items())
        if given.HasField("consolidate_after")
    }


def _share(given: pb.ReplacementSettings, name: str, default: float) -> float:
    value = number(given, name, default, _PATH)
    if value > 1:
        raise SettingsError(f"{_PATH}.{name}", f"{value} is above 1; give a share, 0.1 is 10 %")
    return value


def _positive(given: pb.ReplacementSettings, name: str, default_ns: int) -> int:
    value = duration_ns(given, name, default_ns, _PATH)
    if value == 0:
        raise SettingsError(f"{_PATH}.{name}", "it is 0 s; give a longer time, or leave it out")
    return value


def _choice(given: pb.ReplacementSettings) -> int:
    if given.choice not in pb.ReplacementChoice.Code.values():
        raise SettingsError(f"{_PATH}.choice", f"{given.choice} is not a choice; see ReplacementChoice")
    return given.choice or pb.ReplacementChoice.MOST_SAVED
