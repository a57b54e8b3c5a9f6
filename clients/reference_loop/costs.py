"""The costs of a cluster before and after a round's plan, for the status of the loop.

Decides what counts: instances of node groups with a known price; new nodes of the plan, and nodes that it removes now.
Money is in the currency of the prices; a month has 730 hours.
"""

from typing import Any

from trimtab.clients.reference_loop.rounds import RoundResult
from trimtab.prices import HOURS_A_MONTH


def costs(done: RoundResult) -> dict[str, Any] | None:
    """Return hourly and monthly costs: now, after the plan, and of all unneeded nodes; None = no price
    or no size is known.
    """
    groups = done.status.node_groups if done.status is not None else ()
    priced = [one for one in groups if one.id in done.prices]
    if not priced:
        return None
    removal = done.answer.scale_down
    saving = {one.node: one.saving_per_hour for one in removal.unneeded}
    now = sum(done.prices[one.id] * one.instance_count for one in priced)
    goes = sum(saving.get(node, 0.0) for node in (*removal.delete_empty, *removal.drain))
    found = {
        "perHour": now,
        "perHourAfterPlan": now + done.answer.scale_up.price_per_hour - goes,
        "perHourUnneeded": sum(saving.values()),
    }
    found |= {name.replace("perHour", "perMonth"): amount * HOURS_A_MONTH for name, amount in found.items()}
    unknown = sum(one.instance_count for one in groups if one.id not in done.prices)
    return {name: round(amount, 2) for name, amount in found.items()} | {"nodesWithoutPrice": unknown}
