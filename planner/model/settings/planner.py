"""Settings that apply to every decision, resolved. Times in nanoseconds, amounts as in the snapshot. Meaning, defaults
and ranges are those of the contract.
"""

from dataclasses import dataclass, field
from typing import Final

from trimtab.planner.model.settings.reading import SettingsError, resolved, selector, setting, value_of
from trimtab.planner.model.settings.scale_down import NodeDisruptionBudget, node_budgets
from trimtab.planner.model.settings.scale_up import Readiness, resolve_readiness
from trimtab.planner.model.values import Selector
from trimtab.v1 import plan_pb2 as pb

NODES: Final = "nodes"
"""The resource name of a limit on the number of nodes."""
_PATH: Final = "planner"


@dataclass(frozen=True)
class ResourceLimit:
    """Smallest and largest amount of a resource over the nodes selected by `nodes`, and the most that one plan adds.

    None = no such limit.
    """

    resource: str
    minimum: int | None = None
    maximum: int | None = None
    maximum_added: int | None = None
    nodes: Selector = ()


@dataclass(frozen=True)
class SimilaritySettings:
    """Which node groups are similar: `BalanceSettings` describes how each applies to scale-up and to scale-down."""

    ignored_labels: frozenset[str] = setting("planner.balance.ignored_labels", frozenset)
    compared_labels: tuple[str, ...] = setting("planner.balance.compared_labels", lambda keys: tuple(sorted(keys)))
    """() = compare everything."""
    memory_ratio: float = setting("planner.balance.max_memory_difference_ratio")
    allocatable_ratio: float = setting("planner.balance.max_allocatable_difference_ratio")
    free_ratio: float = setting("planner.balance.max_free_difference_ratio")


@dataclass(frozen=True)
class GangSettings:
    """Pod groups that are scheduled together, resolved from `PlanSettings.gangs`. No autoscaler upstream has them."""

    count_missing: bool = setting("gangs.count_missing_members")
    serve_optional: bool = setting("gangs.serve_optional_members")
    move_running: bool = setting("gangs.move_running")


@dataclass(frozen=True)
class PlannerSettings:
    """Planner-wide settings, resolved from `PlanSettings.planner`."""

    expendable_priority: int = setting("planner.expendable_pods_priority_cutoff")
    recent_eviction_ttl_ns: int = setting("planner.recent_eviction_ttl")
    reserve_for_pending: bool = setting("planner.reserve_for_pending_pods")
    reserve_for_unmarked: bool = setting("planner.reserve_for_unmarked_pods")
    limits: tuple[ResourceLimit, ...] = ()
    max_balance_difference: int = setting("planner.balance.max_difference")
    """0 = no limit."""
    readiness: Readiness = field(default_factory=Readiness)
    """Which nodes are ready or starting."""
    similarity: SimilaritySettings = field(default_factory=SimilaritySettings)
    """Which node groups are similar."""
    gangs: GangSettings = field(default_factory=GangSettings)
    """Pod groups that are scheduled together."""
    disruption_budgets: tuple[NodeDisruptionBudget, ...] = ()
    """How many nodes may be removed or replaced at the same time."""


def resolve_planner(message: pb.PlanSettings) -> PlannerSettings:
    """Resolve the planner-wide part of `PlanSettings`. Raises SettingsError for an invalid value."""
    own, similarity = message.planner, resolved(SimilaritySettings, message)
    if similarity.ignored_labels and similarity.compared_labels:
        problem = "given together with ignored_labels; remove the labels to ignore from compared_labels"
        raise SettingsError(f"{_PATH}.balance.compared_labels", problem)
    return resolved(
        PlannerSettings,
        message,
        limits=tuple(_limit(limit, f"{_PATH}.limits[{i}]") for i, limit in enumerate(own.limits)),
        readiness=resolve_readiness(message),
        similarity=similarity,
        gangs=resolved(GangSettings, message),
        disruption_budgets=node_budgets(own.disruption_budgets, f"{_PATH}.disruption_budgets"),
    )


def _limit(limit: pb.ResourceLimit, path: str) -> ResourceLimit:
    if not limit.resource:
        raise SettingsError(f"{path}.resource", f'empty; name a resource, such as "cpu", or "{NODES}"')
    minimum, maximum, added = (value_of(limit, name, path) for name in ("minimum", "maximum", "maximum_added"))
    if minimum is None and maximum is None and added is None:
        raise SettingsError(path, "neither minimum, maximum nor maximum_added is given; give at least one of them")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise SettingsError(f"{path}.minimum", f"{minimum} is above the maximum {maximum}")
    return ResourceLimit(limit.resource, minimum, maximum, added, selector(limit.nodes, f"{path}.nodes"))
