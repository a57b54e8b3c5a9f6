"""Settings of pod deletion costs, resolved: which pods are ranked, by which strategies.

The Cluster Autoscaler has no equivalent. Source: Kubernetes enhancement proposal 1888, "Cost based scaling down of
pods".
"""

from dataclasses import dataclass
from typing import Final

from trimtab.planner.model.settings.reading import SettingsError, selector, value_of
from trimtab.planner.model.values import Selector
from trimtab.v1 import plan_pb2 as pb

_PATH: Final = "pod_costs"
_Strategy = pb.PodCostStrategy
_NEEDED: Final = {
    "topology_key": (
        (_Strategy.BALANCE_DOMAINS,),
        'name the node label that makes a domain, such as "topology.kubernetes.io/zone"',
    ),
    "annotation": ((_Strategy.IDLE, _Strategy.ACCUMULATED_WORK), "name the pods' annotation that contains the number"),
}
"""Text fields of a term: the strategies that require it (all others refuse it), and what to set."""


@dataclass(frozen=True)
class PodCostTerm:
    """One strategy of a target."""

    strategy: int
    """`PodCostStrategy.Code`."""
    weight: float = 1.0
    """Factor of its ranks after scaling to 0 to 1. At least 0."""
    threshold: float | None = None
    """Larger ranks count as this. None = chosen by the strategy, such that almost nothing is cut off."""
    topology_key: str = ""
    """Label of nodes that defines a domain."""
    annotation: str = ""
    """Annotation of pods that contains a number."""


@dataclass(frozen=True)
class PodCostTarget:
    """Pods that get a cost: those selected by every given criterion."""

    namespaces: frozenset[str] = frozenset()
    """Empty = all."""
    owner_kinds: frozenset[str] = frozenset()
    """Kinds of the owner or of its own controller. Empty = all."""
    selector: Selector = ()
    """Labels of pods. Empty = any."""
    terms: tuple[PodCostTerm, ...] = ()
    """Summed with their weights."""


@dataclass(frozen=True)
class PodCostSettings:
    """Pod deletion costs, resolved from `PlanSettings`."""

    targets: tuple[PodCostTarget, ...] = ()
    """The first target that selects a pod counts. None by default: costs change pods visibly for users."""


def resolve_pod_costs(message: pb.PlanSettings) -> PodCostSettings:
    """Resolve the part of `PlanSettings` about pod costs. Raises SettingsError for an invalid value."""
    targets = message.pod_costs.targets
    return PodCostSettings(tuple(_target(target, f"{_PATH}.targets[{i}]") for i, target in enumerate(targets)))


def _target(message: pb.PodCostTarget, path: str) -> PodCostTarget:
    if not message.strategies:
        raise SettingsError(f"{path}.strategies", "it is empty; name at least one strategy")
    return PodCostTarget(
        frozenset(value_of(message, "namespaces", path)),
        frozenset(value_of(message, "owner_kinds", path)),
        selector(message.selector, f"{path}.selector"),
        tuple(_term(term, f"{path}.strategies[{i}]") for i, term in enumerate(message.strategies)),
    )


def _term(message: pb.PodCostTerm, path: str) -> PodCostTerm:
    if not value_of(message, "strategy", path):
        names = ", ".join(_Strategy.Code.keys()[1:])
        raise SettingsError(f"{path}.strategy", f"it is missing; use one of {names}")
    name = _Strategy.Code.Name(message.strategy)
    for field, (users, what) in _NEEDED.items():
        text = getattr(message, field)
        if message.strategy in users and not text:
            raise SettingsError(f"{path}.{field}", f"it is missing; for {name}, {what}")
        if message.strategy not in users and text:
            raise SettingsError(f"{path}.{field}", f"{name} does not use it; omit it")
    return PodCostTerm(
        message.strategy,
        value_of(message, "weight", path),
        value_of(message, "threshold", path),
        message.topology_key,
        message.annotation,
    )
