"""What an answer says of nodes (`PlanResponse.nodes`): look-ups, nothing more."""

from collections.abc import Iterator

from trimtab.v1 import plan_pb2

Fate = plan_pb2.NodeFate
GOES = frozenset({Fate.GOES_NOW, Fate.GOES_LATER})
"""What scale-down makes of nodes that it does not need."""


def going(answer: plan_pb2.PlanResponse) -> Iterator[plan_pb2.NodeVerdict]:
    """Yield the nodes that scale-down removes, now or later, by name."""
    return (node for node in answer.nodes if node.fate in GOES)


def staying(answer: plan_pb2.PlanResponse) -> Iterator[plan_pb2.NodeVerdict]:
    """Yield the nodes that scale-down does not remove, by name, those included that are replaced or leave already; each
    has a reason. None if scale-down was not requested, or failed.
    """
    return (node for node in answer.nodes if node.fate not in GOES and (node.reason or node.fate == Fate.STAYS))


def not_replaced(answer: plan_pb2.PlanResponse) -> Iterator[plan_pb2.NodeVerdict]:
    """Yield the nodes with a price that a plan of replacement leaves, by name."""
    return (node for node in answer.nodes if node.HasField("not_replaced"))


def known_prices(answer: plan_pb2.PlanResponse) -> dict[str, float]:
    """Return the hourly prices of nodes by name, without assumed ones."""
    if answer.summary.assumption:
        return {}
    return {node.node: node.price_per_hour for node in answer.nodes if node.HasField("price_per_hour")}
