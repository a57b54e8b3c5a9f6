"""What plans are compared by first: the hourly saving or the number of nodes."""

import numpy as np

from trimtab.planner.scale_down.search.drain_sets import DrainTask
from trimtab.v1 import plan_pb2 as pb


def is_money(task: DrainTask) -> bool:
    """Return whether the saving decides before the number of nodes."""
    if task.settings.objective == pb.Objective.UNSPECIFIED:
        price = task.nodes.scores.price[task.nodes.eligible]
        return len(price) > 0 and not bool(np.isnan(price).any())
    return task.settings.objective == pb.Objective.MONEY
