"""Costs of pods in gangs by loops over them, sharing no code with the planner."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class OwnedPod(NamedTuple):
    """A pod on a node. owner : its name, "" = none; gang : its name, "" = none; cost : its own, None = it gets none."""

    name: str
    owner: str
    gang: str
    cost: int | None


class RunningGang(NamedTuple):
    """A gang. is_whole : it is disrupted as a whole."""

    min_count: int
    is_whole: bool


def costs(pods: Sequence[OwnedPod], gangs: Mapping[str, RunningGang], surplus: Mapping[str, int]) -> dict[str, int]:
    """Return the costs of the pods that get one. surplus : by owner, how many pods it has too many."""
    needed = {name: _needed([pod for pod in pods if pod.gang == name], gang, surplus) for name, gang in gangs.items()}
    needed = {name: [pod for pod in some if pod.cost is not None] for name, some in needed.items()}
    found = {pod.name: pod.cost for pod in pods if pod.cost is not None}
    mean = {name: sum(pod.cost or 0 for pod in some) // len(some) for name, some in needed.items() if some}
    order = sorted(mean, key=lambda name: (mean[name], name))
    above = 2**26 + 1
    for place in range(len(order) - 1, -1, -1):
        above = min(above - 1, mean[order[place]] // 32 + 2**26)
        for pod in needed[order[place]]:
            found[pod.name] = max(above, place + 1)
    return found


def _needed(pods: list[OwnedPod], gang: RunningGang, surplus: Mapping[str, int]) -> list[OwnedPod]:
    """Return the pods of a gang that it cannot spare."""
    if len(pods) < gang.min_count:
        return []
    if gang.is_whole:
        return pods
    left = list(pods)
    for _ in range(len(pods) - gang.min_count):
        left.remove(
            min(
                left,
                key=lambda pod: (not pod.owner, surplus.get(pod.owner, 0) <= 0, pod.owner, pod.cost or 0, pod.name),
            )
        )
    return left
