"""The requirements of scale-up on a round's simulation, in which node groups grow.

The maximum number of new nodes is a function of snapshot, settings and time.
"""

from collections.abc import Callable
from typing import Final

from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.snapshot.columns import Bool, Snapshot
from trimtab.planner.snapshot.references import take_or

LEAST: Final = 64
"""New nodes for which there is room even if nothing waits, so that few numbers occur."""


def growth_need(snapshot: Snapshot, settings: ScaleUpSettings, now_ns: int) -> GrowthNeed | None:
    """Return the requirements; None if scale-up is switched off or there is no node group."""
    if not settings.enabled or not snapshot.groups:
        return None
    leaving = being_deleted(snapshot, now_ns)
    return growth_with(snapshot, settings, leaving, now_ns, _spare_nodes(snapshot, settings, leaving))


def _spare_nodes(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool) -> Callable[[int], int]:
    """Return the function that returns how many new nodes may be open at a time, given the number of virtual pods, such
    as placeholders: no more than there are waiting and virtual pods, except for all-or-nothing groups.

    A power of two if limits allow it, which makes the simulation of an unchanged cluster reusable.
    """
    pods, groups = snapshot.pods, snapshot.groups
    on_leaving = take_or(leaving, pods.node, False)
    waits = ((pods.node < 0) | on_leaving) & ~pods.is_terminal()
    may_add = [max(group.max_size - group.target_size, 0) for group in groups]
    atomic_nodes = sum(most for most, group in zip(may_add, groups, strict=True) if group.zero_or_max)
    wanted, most = LEAST + int(waits.sum()) + atomic_nodes, min(settings.max_new_nodes, sum(may_add))
    return lambda virtual_pod_count: min(1 << (wanted + virtual_pod_count - 1).bit_length(), most) + SPARE
