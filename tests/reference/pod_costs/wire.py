"""Groups of an answer, built field by field."""

from collections.abc import Sequence

from trimtab.v1 import plan_pb2


def group(
    owner: str,
    pods: Sequence[tuple[str, int]],
    shares: Sequence[tuple[int, Sequence[float], Sequence[float]]],
    waits_for: str,
    target: int,
    after_each: bool,
) -> plan_pb2.PodCostGroup:
    """Return the message encoded by the bytes. pods : (name, cost) in order; shares : (strategy, ranks, own ranks)."""
    found = plan_pb2.PodCostGroup(owner=owner, complete=True, waits_for=waits_for, target=target)
    found.ranked_after_each_removal = after_each
    for name, cost in pods:
        found.costs[name] = cost
        found.order.append(name)
    for strategy, ranks, own in shares:
        found.shares.add(strategy=strategy, ranks=ranks, own_ranks=own)  # type: ignore[arg-type]
    return found
