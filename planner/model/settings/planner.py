"""Settings that apply to every decision, resolved: defaults filled in, durations as integers, values checked.

Times in nanoseconds, amounts as in the snapshot. Defaults are upstream's unless the field's docstring gives a reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from trimtab.planner.model.settings.node_budgets import NodeDisruptionBudget, node_budgets
from trimtab.planner.model.settings.reading import SECOND_NS, SettingsError, count, duration_ns, flag, number
from trimtab.planner.model.settings.scale_up import Readiness, resolve_readiness
from trimtab.planner.model.settings.selectors import selector
from trimtab.planner.model.values import Selector
from trimtab.v1 import plan_pb2 as pb

NODES: Final = "nodes"
"""The resource name of a limit on the number of nodes."""
_PATH: Final = "planner"
_BALANCE_PATH: Final = f"{_PATH}.balance"


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

    ignored_labels: frozenset[str] = frozenset()
    """Labels that need not be equal, besides those of location and provider. `--balancing-ignore-label`."""
    compared_labels: tuple[str, ...] = ()
    """Compare only these labels, sorted; () = compare everything. `--balancing-label`."""
    memory_ratio: float = 0.015
    """Share by which capacities of memory may differ. `--memory-difference-ratio`."""
    allocatable_ratio: float = 0.05
    """Share by which allocatable amounts may differ. `--max-allocatable-difference-ratio`."""
    free_ratio: float = 0.05
    """Share by which free amounts may differ. `--max-free-difference-ratio`."""


@dataclass(frozen=True)
class GangSettings:
    """Pod groups that are scheduled together, resolved from `PlanSettings.gangs`. No autoscaler upstream has them."""

    count_missing: bool = False
    """Serve pods of gangs that do not exist yet, up to the number that their workload makes."""
    serve_optional: bool = True
    """Add nodes for pods of a gang beyond its minimum, too."""
    move_running: bool = True
    """Move the pods of gangs that run, as long as each keeps its minimum or moves whole."""


@dataclass(frozen=True)
class PlannerSettings:
    """Planner-wide settings, resolved from `PlanSettings.planner`."""

    expendable_priority: int = -10
    """Pods of lower priority neither hold a node nor need a place. `--expendable-pods-priority-cutoff`."""
    recent_eviction_ttl_ns: int = 120 * SECOND_NS
    """How long room is kept for an evicted pod that has not been recreated. Upstream's 0 switches this off; a drain
    needs it.
    """
    reserve_for_pending: bool = True
    """Keep room for pending pods that fit now, as upstream does."""
    reserve_for_unmarked: bool = False
    """Also for pods that the scheduler has not marked unschedulable. `--bypassed-scheduler-names` is similar."""
    limits: tuple[ResourceLimit, ...] = ()
    """Limits on amounts. `--cores-total`, `--memory-total`, `--gpu-total`, `--max-nodes-total`."""
    max_balance_difference: int = 0
    """Number of nodes by which similar groups and their zones may differ; 0 = no limit, as upstream.
    Implies balance.
    """
    readiness: Readiness = field(default_factory=Readiness)
    """Which nodes are ready or starting."""
    similarity: SimilaritySettings = field(default_factory=SimilaritySettings)
    """Which node groups are similar."""
    gangs: GangSettings = field(default_factory=GangSettings)
    """Pod groups that are scheduled together."""
    disruption_budgets: tuple[NodeDisruptionBudget, ...] = ()
    """How many nodes may be removed or replaced at the same time. Karpenter's `disruption.budgets`."""


def resolve_planner(message: pb.PlanSettings) -> PlannerSettings:
    """Resolve the planner-wide part of `PlanSettings`. Raises SettingsError for an invalid value."""
    given, defaults = message.planner, PlannerSettings()
    return PlannerSettings(
        expendable_priority=(
            given.expendable_pods_priority_cutoff
            if given.HasField("expendable_pods_priority_cutoff")
            else defaults.expendable_priority
        ),
        recent_eviction_ttl_ns=duration_ns(given, "recent_eviction_ttl", defaults.recent_eviction_ttl_ns, _PATH),
        reserve_for_pending=flag(given, "reserve_for_pending_pods", defaults.reserve_for_pending),
        reserve_for_unmarked=flag(given, "reserve_for_unmarked_pods", defaults.reserve_for_unmarked),
        limits=tuple(_limit(limit, f"{_PATH}.limits[{i}]") for i, limit in enumerate(given.limits)),
        max_balance_difference=count(given.balance, "max_difference", 0, _BALANCE_PATH),
        readiness=resolve_readiness(message),
        similarity=_similarity(given.balance),
        gangs=_gangs(message.gangs),
        disruption_budgets=node_budgets(given.disruption_budgets, f"{_PATH}.disruption_budgets"),
    )


def _gangs(given: pb.GangSettings) -> GangSettings:
    defaults = GangSettings()
    return GangSettings(
        count_missing=flag(given, "count_missing_members", defaults.count_missing),
        serve_optional=flag(given, "serve_optional_members", defaults.serve_optional),
        move_running=flag(given, "move_running", defaults.move_running),
    )


def _similarity(given: pb.BalanceSettings) -> SimilaritySettings:
    ignored, compared = (
        _label_keys(given.ignored_labels, "ignored_labels"),
        _label_keys(given.compared_labels, "compared_labels"),
    )
    if ignored and compared:
        problem = "given together with ignored_labels; remove the labels to ignore from compared_labels"
        raise SettingsError(f"{_BALANCE_PATH}.compared_labels", problem)
    defaults = SimilaritySettings()
    return SimilaritySettings(
        ignored_labels=frozenset(ignored),
        compared_labels=tuple(sorted(compared)),
        memory_ratio=_ratio(given, "max_memory_difference_ratio", defaults.memory_ratio),
        allocatable_ratio=_ratio(given, "max_allocatable_difference_ratio", defaults.allocatable_ratio),
        free_ratio=_ratio(given, "max_free_difference_ratio", defaults.free_ratio),
    )


def _label_keys(given: Iterable[str], name: str) -> set[str]:
    keys = list(given)
    if "" in keys:
        raise SettingsError(f"{_BALANCE_PATH}.{name}[{keys.index('')}]", "empty; give a label's key")
    return set(keys)


def _ratio(given: pb.BalanceSettings, name: str, default: float) -> float:
    value = number(given, name, default, _BALANCE_PATH)
    if value > 1:
        raise SettingsError(f"{_BALANCE_PATH}.{name}", f"{value} is above 1; it is a share of the larger amount")
    return value


def _limit(given: pb.ResourceLimit, path: str) -> ResourceLimit:
    if not given.resource:
        raise SettingsError(f"{path}.resource", f'empty; name a resource, such as "cpu", or "{NODES}"')
    minimum = count(given, "minimum", 0, path) if given.HasField("minimum") else None
    maximum = count(given, "maximum", 0, path) if given.HasField("maximum") else None
    added = count(given, "maximum_added", 0, path) if given.HasField("maximum_added") else None
    if minimum is None and maximum is None and added is None:
        raise SettingsError(path, "neither minimum, maximum nor maximum_added is given; give at least one of them")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise SettingsError(f"{path}.minimum", f"{minimum} is above the maximum {maximum}")
    return ResourceLimit(given.resource, minimum, maximum, added, selector(given.nodes, f"{path}.nodes"))
