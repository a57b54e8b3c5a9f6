"""Budgets for nodes, resolved: how many nodes may be removed or replaced at the same time in a part of the cluster."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from trimtab.planner.model.settings.reading import SettingsError, selector, value_of
from trimtab.planner.model.settings.schedules import check_cron
from trimtab.planner.model.values import Selector
from trimtab.v1 import plan_pb2 as pb

EMPTY, UNDERUTILIZED, DRIFTED = "Empty", "Underutilized", "Drifted"
_REASONS: Final = (UNDERUTILIZED, EMPTY, DRIFTED)
_MAX_NODES: Final = re.compile("([0-9]{1,9})(%?)")
_WHOLE: Final = 100
_SHORT: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True)
class NodeDisruptionBudget:
    """How many nodes of a part of the cluster may be disrupted at the same time. Karpenter's `disruption.budgets`."""

    max_nodes: int
    """Number of nodes, or percentage of them."""
    is_share: bool = False
    """Whether `max_nodes` is a percentage; it rounds up."""
    nodes: Selector = ()
    """The nodes that count; () = all."""
    node_groups: frozenset[str] = frozenset()
    """Ids of their node groups; empty = all."""
    reasons: frozenset[str] = frozenset()
    """Reasons for which it holds; empty = all."""
    schedule: str = ""
    """Cron expression in UTC; "" = it always holds."""
    duration_ns: int = 0
    """How long it holds from each time of `schedule` on."""

    def most(self, node_count: int) -> int:
        """Return how many of so many nodes may be disrupted."""
        return -(-self.max_nodes * node_count // _WHOLE) if self.is_share else self.max_nodes

    def holds_for(self, reason: str) -> bool:
        """Return whether a node that leaves for a reason counts."""
        return not self.reasons or reason in self.reasons


def node_budgets(given: Iterable[pb.DisruptionBudget], path: str) -> tuple[NodeDisruptionBudget, ...]:
    """Resolve budgets for nodes. Raises SettingsError for an invalid value."""
    return tuple(_budget(one, f"{path}[{i}]") for i, one in enumerate(given))


def _budget(given: pb.DisruptionBudget, path: str) -> NodeDisruptionBudget:
    found = _MAX_NODES.fullmatch(given.max_nodes)
    if found is None or (found[2] and int(found[1]) > _WHOLE):
        problem = f'{given.max_nodes!r} is neither a number nor a share up to 100%; write "5" or "10%"'
        raise SettingsError(f"{path}.max_nodes", problem)
    for i, reason in enumerate(given.reasons):
        if reason not in _REASONS:
            raise SettingsError(f"{path}.reasons[{i}]", f"{reason!r} is not a reason; use {', '.join(_REASONS)}")
    cron, duration = _SHORT.get(given.schedule, given.schedule), value_of(given, "duration", path, 0)
    if cron:
        check_cron(cron, f"{path}.schedule")
    if bool(cron) != (duration > 0):
        raise SettingsError(f"{path}.duration", "give schedule and duration together, the latter above 0 s")
    return NodeDisruptionBudget(
        max_nodes=int(found[1]),
        is_share=bool(found[2]),
        nodes=selector(given.nodes, f"{path}.nodes"),
        node_groups=frozenset(value_of(given, "node_groups", path)),
        reasons=frozenset(given.reasons),
        schedule=cron,
        duration_ns=duration,
    )
