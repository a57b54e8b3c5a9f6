"""Naive twin of `planner.decisions.kernels.fit`: one pod after the other, each taken off its node meanwhile."""

from collections.abc import Callable, Sequence

Amounts = list[list[int]]


def explain(
    pods: Sequence[int],
    failing: Callable[[int, int], int],
    without: Callable[[int], Amounts],
    need: Callable[[int], Sequence[int]],
) -> list[list[tuple[int, list[bool]]]]:
    """Return, for each pod and node, the mask of what says no and which resources lack.

    failing : mask of a pod on a node, as if the pod were on none; without : free amounts by node and resource, the pod
    left out; need : amounts that the pod asks for.
    """
    return [
        [
            (failing(pod, node), [have < want for have, want in zip(free, need(pod), strict=True)])
            for node, free in enumerate(without(pod))
        ]
        for pod in pods
    ]
