"""All decisions of this build, in the order in which a plan takes them. The only place that lists them. Decisions that
place pods or add room precede those that remove room, and costs come after both: ProvisioningRequests, slack,
scale-up, scale-down, replacement, pod costs, whatever the order in the request.
"""

from collections.abc import Iterable
from typing import Final

from trimtab.planner.capacity_requests.decision import CAPACITY_REQUESTS
from trimtab.planner.pod_costs.decision import POD_COSTS
from trimtab.planner.replacement.decision import REPLACEMENT
from trimtab.planner.round.decision import Decision
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.planner.scale_up.decision import SCALE_UP
from trimtab.planner.slack.decision import SLACK
from trimtab.v1 import plan_pb2 as pb

Table = tuple[Decision, ...]
TABLE: Final[Table] = (CAPACITY_REQUESTS, SLACK, SCALE_UP, SCALE_DOWN, REPLACEMENT, POD_COSTS)


def codes(table: Table) -> "list[pb.Decision.Code.ValueType]":
    """Return the decisions of a table, by number."""
    return sorted(decision.code for decision in table)


def missing(table: Table) -> Iterable[str]:
    """Yield the fields, in `PlanSettings` and `PlanResponse`, of existing decisions that are not in a table."""
    present = {decision.code for decision in table}
    for name, code in pb.Decision.Code.items():
        if code not in present and code != pb.Decision.UNSPECIFIED:
            yield name.lower()
