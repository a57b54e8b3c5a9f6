"""The placement rules of a pod that count other pods: topology spread, pod affinity and anti-affinity.

Decides how they are read from a pod's spec; never counts pods. Not read, and so without effect in a simulation:
namespace selectors, `matchLabelKeys` and the policies of topology spread, which have their defaults.
Source: kube-scheduler, plugins podtopologyspread (common.go, plugin.go: defaults of a cluster) and interpodaffinity.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.kubernetes.selectors import selects
from trimtab.common.kubernetes.signals import well_known

HOSTNAME: Final = well_known.HOSTNAME.key
ZONE: Final = well_known.ZONE.key
_SPREAD_KINDS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
HARD_AFFINITY_WEIGHT: Final = 1
"""Weight in scores of a required pod affinity of pods on nodes. Source: the scheduler's default configuration."""


@dataclass(frozen=True)
class Term:
    """The pods that a rule counts: those of the namespaces that the selector matches, or those of one owner.

    selector : JSON of a label selector, "" = the pods of `owner`, a uid
    """

    namespaces: frozenset[str]
    selector: str = ""
    owner: str = ""

    def counts(self, pod: SimulatedPod) -> bool:
        """Return whether the rule counts a pod."""
        if pod.key[0] not in self.namespaces:
            return False
        if self.owner:
            return pod.owner_uid == self.owner
        return selects(json.loads(self.selector), pod.labels)


class Spread(NamedTuple):
    """One constraint of topology spread. `minimum` : smallest number of domains, 1 = no minimum. `term` : the pods that
    count; `key` : topology key; `max_skew` : most pods in one domain beyond the domain with the fewest.
    """

    term: Term
    key: str
    max_skew: int
    minimum: int = 1


class RequiredAffinity(NamedTuple):
    """One term of required pod affinity or anti-affinity. `term` : the pods that count; `key` : topology key."""

    term: Term
    key: str


class PreferredAffinity(NamedTuple):
    """One term of preferred pod affinity. `term` : the pods that count; `key` : topology key; `weight` : added to the
    score for each such pod in the node's domain, negative for anti-affinity.
    """

    term: Term
    key: str
    weight: int


class Rules(NamedTuple):
    """The rules of a pod. `preferred` are constraints that only score. `required` : constraints that exclude nodes;
    `affinity`, `anti_affinity` : terms that must, and must not, match a pod in the node's domain; `preferred_affinity`
    : terms that only score, of affinity and anti-affinity.
    """

    required: tuple[Spread, ...] = ()
    preferred: tuple[Spread, ...] = ()
    affinity: tuple[RequiredAffinity, ...] = ()
    anti_affinity: tuple[RequiredAffinity, ...] = ()
    preferred_affinity: tuple[PreferredAffinity, ...] = ()

    @property
    def terms(self) -> list[Term]:
        """Return every term that has to be counted."""
        spreads, affinities = (*self.required, *self.preferred), (*self.affinity, *self.anti_affinity)
        terms = [*(one.term for one in spreads), *(one.term for one in affinities)]
        return [*terms, *(one.term for one in self.preferred_affinity)]

    @property
    def attractions(self) -> list[PreferredAffinity]:
        """Return what the pod, once it is on a node, adds to the score of pods that its terms match."""
        required = [PreferredAffinity(one.term, one.key, HARD_AFFINITY_WEIGHT) for one in self.affinity]
        return [*required, *self.preferred_affinity]


def rules_of(pod: SimulatedPod, default_spread: bool = True) -> Rules:
    """Read the rules of a pod; default_spread : a controller's pod without constraints gets the cluster's defaults."""
    namespace, spec = pod.key[0], pod.spec
    required: list[Spread] = []
    preferred: list[Spread] = []
    for one in spec.get("topologySpreadConstraints") or ():
        term = _term(one.get("labelSelector"), frozenset({namespace}))
        spread = Spread(term, one["topologyKey"], int(one["maxSkew"]), int(one.get("minDomains") or 1))
        (preferred if one.get("whenUnsatisfiable") == "ScheduleAnyway" else required).append(spread)
    if default_spread and not spec.get("topologySpreadConstraints") and pod.owner.get("kind") in _SPREAD_KINDS:
        own = Term(frozenset({namespace}), owner=pod.owner_uid)
        preferred = [Spread(own, HOSTNAME, 3), Spread(own, ZONE, 5)]
    affinity = spec.get("affinity") or {}
    return Rules(
        tuple(required),
        tuple(preferred),
        _affinities(affinity.get("podAffinity"), namespace),
        _affinities(affinity.get("podAntiAffinity"), namespace),
        (
            *_preferred_affinities(affinity.get("podAffinity"), namespace, 1),
            *_preferred_affinities(affinity.get("podAntiAffinity"), namespace, -1),
        ),
    )


def _affinities(terms: Mapping[str, Any] | None, namespace: str) -> tuple[RequiredAffinity, ...]:
    return tuple(
        RequiredAffinity(
            _term(term.get("labelSelector"), frozenset(term.get("namespaces") or (namespace,))), term["topologyKey"]
        )
        for term in (terms or {}).get(_REQUIRED) or ()
    )


def _preferred_affinities(terms: Mapping[str, Any] | None, namespace: str, sign: int) -> tuple[PreferredAffinity, ...]:
    found = []
    for one in (terms or {}).get(PREFERRED) or ():
        inner, weight = one["podAffinityTerm"], int(one.get("weight") or 0)
        namespaces = frozenset(inner.get("namespaces") or (namespace,))
        if weight:
            term = _term(inner.get("labelSelector"), namespaces)
            found.append(PreferredAffinity(term, inner["topologyKey"], sign * weight))
    return tuple(found)


def _term(selector: Mapping[str, Any] | None, namespaces: frozenset[str]) -> Term:
    """Return a term; an absent selector counts nothing."""
    return Term(namespaces if selector is not None else frozenset(), json.dumps(selector or {}, sort_keys=True))
