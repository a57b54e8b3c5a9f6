"""What one scale-up starts from: who waits for a place, what new nodes are like, which groups may grow.

Nothing is moved yet. Symbols: P pods of the snapshot, N nodes, G node groups.
"""

from typing import NamedTuple

import numpy as np

from planner.facts.leaving import being_deleted
from planner.facts.upcoming import starting, upcoming
from planner.placement.group_templates import GroupTemplates, group_templates
from planner.scale_up.request import ScaleUpRequest
from planner.snapshot.columns import Bool, Int64


class Situation(NamedTuple):
    """leaving : bool[N] being deleted; room : bool[N] pods may be placed there; templates : by group; upcoming :
    int64[G] nodes that are on their way; sizes : int64[G] nodes that each group was asked to have."""

    request: ScaleUpRequest
    leaving: Bool
    room: Bool
    templates: GroupTemplates
    upcoming: Int64
    sizes: Int64


def survey(request: ScaleUpRequest) -> Situation:
    """Look at everything once. O(P + N), vectorised."""
    snapshot, settings, now_ns = request.snapshot, request.settings, request.now_ns
    leaving = being_deleted(snapshot, now_ns)
    starts = starting(snapshot, now_ns, settings.startup_taints)
    return Situation(
        request=request,
        leaving=leaving,
        room=~leaving & snapshot.nodes.ready & ~starts,
        templates=group_templates(snapshot, settings, leaving, now_ns, request.round.derive),
        upcoming=upcoming(snapshot, leaving, now_ns, settings.startup_taints),
        sizes=np.array([group.target_size for group in snapshot.groups], np.int64),
    )
