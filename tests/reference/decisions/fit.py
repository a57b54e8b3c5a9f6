"""Naive twin of `trimtab.planner.decisions.kernels.fit`: pod by pod, each taken off its node while it is checked."""

from collections.abc import Callable, Sequence

Amounts = list[list[int]]


def explain(
    pods: Sequence[int],
    failing: Callable[[int, int], int],
    without: Callable[[int], Amounts],
    need: Callable[[int], Sequence[int]],
) -> list[list[tuple[int, list[bool]]]]:
    """Return, for each pod and node, the mask of failing predicates and the resources of which too little is free.

    failing : mask of a pod on a node, as if the pod were on none; without : free amounts by node and resource without
    the pod; need : amounts that the pod requests.
    """
    return [
        [
            (failing(pod, node), [have < want for have, want in zip(free, need(pod), strict=True)])
            for node, free in enumerate(without(pod))
        ]
        for pod in pods
    ]
