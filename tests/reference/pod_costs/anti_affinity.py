"""ANTI_AFFINITY by comparing all pairs of pods."""

from typing import NamedTuple


class Term(NamedTuple):
    """A term: labels that a pod must all have, topology key, weight. It applies in the pod's own namespace."""

    labels: tuple[tuple[str, str], ...]
    key: str
    weight: int


class PlacedPod(NamedTuple):
    """A pod on a node. domains : values of the topology keys that its node has."""

    name: str
    labels: tuple[tuple[str, str], ...]
    domains: tuple[tuple[str, str], ...]
    terms: tuple[Term, ...]


def ranks(pods: list[PlacedPod]) -> dict[str, int]:
    """Return by how much the removal of each pod reduces the sum of violated terms."""
    return {pod.name: violated(pods) - violated([one for one in pods if one is not pod]) for pod in pods}


def violated(pods: list[PlacedPod]) -> int:
    """Return the sum of the terms' weights, counted once for each other matching pod in the same domain."""
    return sum(
        term.weight
        for one in pods
        for term in one.terms
        for other in pods
        if other is not one and matches(term, other) and together(term.key, one, other)
    )


def matches(term: Term, pod: PlacedPod) -> bool:
    """Return whether a term matches a pod's labels."""
    return set(term.labels) <= set(pod.labels)


def together(key: str, one: PlacedPod, other: PlacedPod) -> bool:
    """Return whether two pods are in the same domain."""
    return key in dict(one.domains) and dict(one.domains)[key] == dict(other.domains).get(key)
