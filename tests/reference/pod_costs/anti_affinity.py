"""ANTI_AFFINITY by comparing every pod with every other one."""

from typing import NamedTuple


class Term(NamedTuple):
    """A term: labels that it matches, all at once; topology key; weight. It looks in the pod's own namespace."""

    labels: tuple[tuple[str, str], ...]
    key: str
    weight: int


class Pod(NamedTuple):
    """A pod on a node. domains : value of each topology key on its node, as far as it has it."""

    name: str
    labels: tuple[tuple[str, str], ...]
    domains: tuple[tuple[str, str], ...]
    terms: tuple[Term, ...]


def ranks(pods: list[Pod]) -> dict[str, int]:
    """What the removal of each pod takes off the sum of violated terms."""
    return {pod.name: violated(pods) - violated([one for one in pods if one is not pod]) for pod in pods}


def violated(pods: list[Pod]) -> int:
    """The weights of all terms, once for each other pod in the same domain that they match."""
    return sum(
        term.weight
        for one in pods
        for term in one.terms
        for other in pods
        if other is not one and matches(term, other) and together(term.key, one, other)
    )


def matches(term: Term, pod: Pod) -> bool:
    """Whether a term matches a pod's labels."""
    return set(term.labels) <= set(pod.labels)


def together(key: str, one: Pod, other: Pod) -> bool:
    """Whether two pods are in the same domain."""
    return key in dict(one.domains) and dict(one.domains)[key] == dict(other.domains).get(key)
