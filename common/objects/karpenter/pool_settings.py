"""What a NodePool asks of plans, as settings: its limits, its weight, its disruption budgets, and when its nodes may
go.

Decides how each is expressed:
- `limits` : a limit on the pool's nodes, for all decisions that add nodes
- `weight` : ranks of the expander PRIORITY, if weights differ; money decides among pools of one rank
- `disruption.budgets` : budgets for nodes, of all decisions; without any, Karpenter's default of 10 % of the pool
- `consolidateAfter` : the unneeded time of the pool's groups, and their `consolidate_after` for REPLACEMENT
- `consolidateAfter: Never` and `consolidationPolicy: WhenEmpty` : the groups' `consolidation`
Errors are FieldError with the path below the object; the caller names the object. Source: Karpenter, pkg/apis/v1.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from trimtab.common.kubernetes.kinds.karpenter import NodePool, NodePoolSpec, PoolBudget, PoolDisruption
from trimtab.common.kubernetes.kinds.metadata import Quantities
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.common.kubernetes.quantities import amount_of
from trimtab.common.objects.karpenter.offers import POOL
from trimtab.common.objects.times import go_duration_ns
from trimtab.v1 import plan_pb2

REASONS: Final = ("Underutilized", "Empty", "Drifted")
DEFAULT_BUDGET: Final = "10%"
NEVER: Final = "Never"
_SHARE: Final = re.compile(r"(?:\d|[1-9]\d|100)%\Z|\d{1,9}\Z", re.ASCII)
_MACROS: Final = ("@annually", "@yearly", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_CRON_RANGES: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_CRON_NAMES: Final = re.compile(r"(?i)jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat")
_CRON_PART: Final = re.compile(r"(?:\*|\?|(\d+)(?:-(\d+))?)(?:/(\d+))?\Z", re.ASCII)


class DrainRules(NamedTuple):
    """When nodes of a pool may go. after_s : how long nothing must have changed; None = as other nodes; only_empty :
    only nodes without pods but DaemonSets'.
    """

    after_s: float | None
    only_empty: bool
    never: bool


def seconds_of(text: str) -> float:
    """Return a duration of Go that is not negative, such as "1h30m", in seconds. Errors: FieldError."""
    try:
        duration_ns = go_duration_ns(text)
    except FieldError:
        duration_ns = -1
    if duration_ns < 0:
        raise FieldError("", f"{text[:60]!r} is not a duration", 'write it like "30s" or "1h30m"')
    return duration_ns / 1e9


def limits_of(name: str, limits: Quantities | None) -> list[plan_pb2.ResourceLimit]:
    """Return the limits on a pool's nodes, by resource. Errors: FieldError."""
    found = []
    for resource, nano in sorted(amounts(limits).items()):
        most = nano // 1_000_000_000 if resource == "nodes" else amount_of(resource, nano)
        limit = plan_pb2.ResourceLimit(resource=resource, maximum=most)
        limit.nodes.match_labels[POOL] = name
        found.append(limit)
    return found


def budget_of(name: str, budget: PoolBudget) -> plan_pb2.DisruptionBudget:
    """Return a budget for a pool's nodes. Errors: FieldError with the path below the budget."""
    nodes = str(budget.nodes if budget.nodes is not None else "")
    if not _SHARE.match(nodes):
        raise FieldError("nodes", f"{nodes!r} is neither a number nor a share", 'give such as "5" or "10%"')
    unknown = [reason for reason in budget.reasons or () if reason not in REASONS]
    if unknown:
        raise FieldError("reasons", f"{unknown[0]!r} is unknown", f"use {', '.join(REASONS)}")
    found = _whole_budget(name, nodes, budget.reasons or ())
    if (budget.schedule is None) != (budget.duration is None):
        field = "duration" if budget.duration is None else "schedule"
        raise FieldError(field, "it is missing", "give both schedule and duration, or neither")
    if budget.schedule is not None and budget.duration is not None:
        check_schedule(budget.schedule)
        with below("duration"):
            seconds = seconds_of(budget.duration)
            if seconds <= 0:
                raise FieldError("", f"{budget.duration!r} is not more than 0", "give how long the budget holds")
        found.schedule = budget.schedule
        found.duration.FromMilliseconds(round(seconds * 1000))
    return found


def closed_budget(name: str) -> plan_pb2.DisruptionBudget:
    """Return a budget that lets no node of a pool be disrupted."""
    return _whole_budget(name, "0", ())


def default_budget(name: str) -> plan_pb2.DisruptionBudget:
    """Return the budget that Karpenter gives a pool without any."""
    return _whole_budget(name, DEFAULT_BUDGET, ())


def _whole_budget(name: str, nodes: str, reasons: Sequence[str]) -> plan_pb2.DisruptionBudget:
    found = plan_pb2.DisruptionBudget(max_nodes=nodes, reasons=list(reasons))
    found.nodes.match_labels[POOL] = name
    return found


def check_schedule(schedule: str) -> None:
    """Check a schedule: five fields of cron, or a name for them. Errors: FieldError."""
    fields = schedule.split()
    is_cron = len(fields) == len(_CRON_RANGES) and all(map(_is_cron_field, fields, _CRON_RANGES))
    if schedule not in _MACROS and not is_cron:
        raise FieldError(
            "schedule", f"{schedule!r} is not a schedule", 'give five fields of cron, or "@daily" and the like'
        )


def _is_cron_field(field: str, limits: tuple[int, int]) -> bool:
    low, high = limits
    for part in field.split(","):
        match = _CRON_PART.match(_CRON_NAMES.sub(str(low or 1), part))
        if match is None or match[3] == "0":
            return False
        if any(number is not None and not low <= int(number) <= high for number in match.groups()[:2]):
            return False
    return True


def drain_rules(disruption: PoolDisruption | None) -> DrainRules:
    """Return when the nodes of a pool may go. Errors: FieldError with the path below `disruption`."""
    given = disruption or PoolDisruption()
    policy, after = given.consolidation_policy, given.consolidate_after
    if policy not in (None, "WhenEmpty", "WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced"):
        raise FieldError("consolidationPolicy", f"{policy!r} is unknown", "use WhenEmpty or WhenEmptyOrUnderutilized")
    if after is None or after == NEVER:
        return DrainRules(None, policy == "WhenEmpty", after == NEVER)
    with below("consolidateAfter"):
        return DrainRules(seconds_of(after), policy == "WhenEmpty", never=False)


def group_settings(rules: DrainRules) -> plan_pb2.NodeGroupSettings | None:
    """Return the settings of a pool's groups; None = the general ones."""
    found = plan_pb2.NodeGroupSettings()
    if rules.after_s is not None:
        found.unneeded_time.FromMilliseconds(round(rules.after_s * 1000))
        found.consolidate_after.CopyFrom(found.unneeded_time)
    if rules.never or rules.only_empty:
        found.consolidation = plan_pb2.Consolidation.NEVER if rules.never else plan_pb2.Consolidation.WHEN_EMPTY
    return found if found.ListFields() else None


def weights(pools: Sequence[NodePool]) -> dict[str, int]:
    """Return the weight of each pool by name; a pool without one has 0."""
    return {
        (pool.metadata.name if pool.metadata else None) or "": (pool.spec or NodePoolSpec()).weight or 0
        for pool in pools
    }


def add_ranks(settings: plan_pb2.PlanSettings, weight_of: Mapping[str, int]) -> None:
    """Prefer pools of higher weight, in place; nothing if all weights are equal."""
    by_weight: dict[int, list[str]] = {}
    for name, weight in sorted(weight_of.items()):
        by_weight.setdefault(weight, []).append(name)
    if len(by_weight) < 2:
        return
    settings.scale_up.expanders.extend([plan_pb2.Expander.PRIORITY, plan_pb2.Expander.PRICE])
    for weight, names in sorted(by_weight.items(), reverse=True):
        patterns = [f"^{re.escape(name)}/" for name in names]
        settings.scale_up.priority.ranks.add(rank=weight, patterns=patterns)


def has_pools(settings: plan_pb2.PlanSettings | None) -> bool:
    """Return whether settings are those of NodePools: each has a budget, its own or Karpenter's default."""
    return settings is not None and bool(settings.planner.disruption_budgets)


def with_pool_settings(settings: plan_pb2.PlanSettings, pools: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
    """Return settings completed by those of NodePools: limits and budgets hold together, all else only where the
    settings say nothing.
    """
    if not pools.ListFields():
        return settings
    merged = plan_pb2.PlanSettings()
    merged.CopyFrom(pools)
    if settings.scale_up.expanders:
        merged.scale_up.ClearField("expanders")
        merged.scale_up.ClearField("priority")
    if settings.replacement.HasField("consolidate_after"):
        for of_pool in merged.node_groups.values():
            of_pool.ClearField("consolidate_after")
    for group, node_group in settings.node_groups.items():
        merged.node_groups[group].MergeFrom(node_group)
    of_groups = {
        name: plan_pb2.NodeGroupSettings.FromString(one.SerializeToString()) for name, one in merged.node_groups.items()
    }
    merged.MergeFrom(settings)
    for name, one in of_groups.items():
        merged.node_groups[name].CopyFrom(one)
    return merged
