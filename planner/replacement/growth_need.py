"""The requirements of replacement on a round's simulation, in which node groups grow.

A plan opens at most as many new nodes as its waves may have. Pure.
"""

from typing import Final

import numpy as np

from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.replacement.settings import ReplacementSettings
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.snapshot.columns import Snapshot

MOST_NEW_NODES: Final = 4096
"""New nodes of one plan, whatever the settings: each takes memory in the simulation."""


def growth_need(snapshot: Snapshot, settings: ReplacementSettings, now_ns: int) -> GrowthNeed | None:
    """Return the requirements; None if replacement is switched off, or no node of a priced group can be replaced."""
    price = np.array([group.price_per_hour for group in snapshot.groups], np.float64)
    if not settings.enabled or not (~np.isnan(price)).any() or not (snapshot.nodes.group >= 0).any():
        return None
    leaving, scale_up = being_deleted(snapshot, now_ns), settings.scale_up
    most = min(settings.max_surge_nodes * min(settings.max_waves, len(snapshot.nodes.name)), MOST_NEW_NODES)
    return growth_with(snapshot, scale_up, leaving, now_ns, lambda virtual_pod_count: most + SPARE)  # noqa: ARG005
