"""What all predicates say of a pod on a node, and how long it holds while pods are only added.

A twin is a module of this folder with the name of the planner's module that declares the predicates. Each has
`refusals`; those of predicates with counters say in `HOLDS` how long each refusal holds.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.builders.rows import PodRow
from tests.reference.predicates.durations import FOR_GOOD, FOR_NOW, THIS_POD
from tests.reference.simulation.moves import Cluster

ADMITTED = 0
__all__ = ["ADMITTED", "FOR_GOOD", "FOR_NOW", "THIS_POD", "TWINS", "because", "failing", "refusal"]
_OTHERS = {"__init__", "compose", "durations"}
_NAMES = sorted({path.stem for path in Path(__file__).parent.glob("*.py")} - _OTHERS)
TWINS: dict[str, ModuleType] = {name: import_module(f"{__package__}.{name}") for name in _NAMES}
"""By the name of the module."""
COUNTED = [twin for twin in TWINS.values() if hasattr(twin, "HOLDS")]


def failing(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    """Return the reasons of all predicates that refuse a pod on a node."""
    return {reason for twin in TWINS.values() for reason in twin.refusals(cluster, pod, name)}


def because(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    """Return the reasons of the predicates with counters that refuse a pod on a node."""
    return {reason for twin in COUNTED for reason in twin.refusals(cluster, pod, name)}


def refusal(cluster: Cluster, pod: PodRow, name: str) -> int:
    """Return how the node refuses the pod by predicates with counters: by the most lasting reason."""
    lasting = (twin.HOLDS[reason] for twin in COUNTED for reason in twin.refusals(cluster, pod, name))
    return min(lasting, default=ADMITTED)
