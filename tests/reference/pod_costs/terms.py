"""Contribution of anti-affinity terms to ranks, and the groups that they link, by comparing all pairs of pods."""

from typing import NamedTuple


class Term(NamedTuple):
    """A term. specs : the specs that have it, each once; sets : label sets that it matches; spaces : namespaces in
    which it applies, None = in that of its pod.
    """

    weight: int
    key: int
    spaces: frozenset[int] | None
    specs: frozenset[int]
    sets: frozenset[int]


class CodedPod(NamedTuple):
    """A pod on a node. domains : by topology key, -1 = none; group : -1 = none."""

    spec: int
    labels: int
    namespace: int
    domains: tuple[int, ...]
    group: int


def ranks(pods: list[CodedPod], terms: list[Term]) -> list[int]:
    """Return for each pod the sum of the weights of all its pairs."""
    found = [0] * len(pods)
    for term in terms:
        for one, pod in enumerate(pods):
            for other, match in enumerate(pods):
                same = pod.domains[term.key] == match.domains[term.key] >= 0
                if one != other and pod.spec in term.specs and matches(term, pod, match) and same:
                    found[one] += term.weight
                    found[other] += term.weight
    return found


def linked(pods: list[CodedPod], terms: list[Term], count: int) -> list[int]:
    """Return for each group the smallest group that it is linked with, by a term that its pods have or that matches
    them.

    A term that applies in its pods' namespaces matches there on every node, also on nodes without the key.
    """
    lowest = list(range(count))
    for term in terms:
        of_pods = [frozenset({pod.namespace}) for pod in pods if pod.spec in term.specs]
        placed = [pod for pod in pods if pod.domains[term.key] >= 0 and pod.group >= 0]
        for spaces in of_pods if term.spaces is None else [term.spaces]:
            met = {pod.group for pod in placed if pod.labels in term.sets and pod.namespace in spaces}
            own = [pod for pod in placed if pod.spec in term.specs]
            having = {pod.group for pod in own if term.spaces is not None or pod.namespace in spaces}
            together = {lowest[group] for group in (met | having if met else ())}
            lowest = [min(together) if one in together else one for one in lowest]
    return lowest


def matches(term: Term, pod: CodedPod, other: CodedPod) -> bool:
    """Return whether a term of a pod matches another pod, whatever their nodes."""
    spaces = {pod.namespace} if term.spaces is None else term.spaces
    return other.labels in term.sets and other.namespace in spaces
