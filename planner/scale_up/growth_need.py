"""What scale-up asks of the simulation of a round, so that node groups can grow in it.

Decides how many new nodes there may be at most; never which group grows. A function of snapshot, settings and moment.
"""

from functools import partial
from typing import Final

import numpy as np

from planner.facts.leaving import being_deleted
from planner.facts.upcoming import upcoming
from planner.model.settings import ScaleUpSettings
from planner.placement.group_templates import group_templates, templates_key
from planner.simulation.growth import GrowthNeed
from planner.snapshot.columns import Bool, Snapshot

SPARE: Final = 1
"""Blank nodes that no group gets: by them it is asked why a pod does not fit one node more."""
LEAST: Final = 64
"""New nodes that there is always room for: pods that only the round knows may need some."""


def growth_need(snapshot: Snapshot, settings: ScaleUpSettings, now_ns: int) -> GrowthNeed | None:
    """Return what is asked; None where scale-up is switched off or there is no node group."""
    if not settings.enabled or not snapshot.groups:
        return None
    leaving = being_deleted(snapshot, now_ns)

    return GrowthNeed(
        key=templates_key(snapshot, settings, leaving, now_ns),
        templates=partial(group_templates, snapshot, settings, leaving, now_ns),
        upcoming=tuple(upcoming(snapshot, leaving, now_ns, settings.not_ready_taints).tolist()),
        blanks=_blanks(snapshot, settings, leaving),
    )


def _blanks(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool) -> int:
    """Return how many new nodes may be open at a time: no more than pods wait, but for groups that grow whole.

    A power of two where limits allow it, so that the simulation of an unchanged cluster serves again.
    """
    pods, groups = snapshot.pods, snapshot.groups
    on_leaving = np.append(leaving, (False, False))[pods.node]
    waits = ((pods.node < 0) | on_leaving) & ~pods.is_terminal()
    room = [max(group.max_size - group.target_size, 0) for group in groups]
    whole = sum(most for most, group in zip(room, groups, strict=True) if group.zero_or_max)
    wanted = LEAST + int(waits.sum()) + len(snapshot.recent_evictions) + whole
    return min(1 << (wanted - 1).bit_length(), settings.max_new_nodes, sum(room)) + SPARE
