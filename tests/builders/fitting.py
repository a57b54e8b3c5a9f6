"""The reasons for which each node refuses a pod, given some nodes and placed pods."""

from collections.abc import Iterable
from typing import Any

from tests.builders.columns import snapshot
from tests.builders.refusals import explain
from tests.builders.rows import Labels, NodeRow, PodRow
from trimtab.planner.model.values import LabelRequirement, PodRequirements, Selector
from trimtab.planner.simulation.build import SimulationSettings, build_simulation
from trimtab.planner.simulation.virtual_rows import VirtualRows
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import LabelOperator

_DEFAULTS = SimulationSettings()
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def equals(**labels: str) -> Selector:
    """Return a selector for exact values."""
    return tuple(LabelRequirement(key, LabelOperator.IN, (value,)) for key, value in labels.items())


def requires(key: str, operator: str, *values: str) -> LabelRequirement:
    """Return a requirement; operator as in Kubernetes."""
    name = {"NotIn": "NOT_IN", "DoesNotExist": "DOES_NOT_EXIST"}.get(operator, operator.upper())
    return LabelRequirement(key, LabelOperator.Code.Value(name), values)


def node(name: str = "n1", zone: str = "", labels: Labels | None = None, **fields: Any) -> NodeRow:
    """Return a node with its hostname label and perhaps a zone."""
    return NodeRow(name, {HOST: name} | ({ZONE: zone} if zone else {}) | (labels or {}), **fields)


def pending(spec: PodRequirements, labels: Labels | None = None, namespace: str = "default", **fields: Any) -> PodRow:
    """Return the pod to be checked."""
    return PodRow("pending", spec, namespace, labels or {}, **fields)


def reasons(
    pod: PodRow,
    nodes: Iterable[NodeRow],
    others: Iterable[PodRow] = (),
    namespaces: dict[str, Labels] | None = None,
    settings: SimulationSettings = _DEFAULTS,
    now_s: int = 0,
) -> dict[str, list[str]]:
    """Return the names of the reasons for every node; [] = fits."""
    made = snapshot(list(nodes), [pod, *others], namespaces)
    simulation = build_simulation(made, VirtualRows(), now_s, settings)
    at = next(i for i in range(len(made.pods.spec)) if made.pods.name.get(i) == pod.name)
    return {
        name: [PredicateReason.Code.Name(reason) for reason in explain(simulation, at, number).reasons]
        for number, name in enumerate(made.nodes.name)
    }


def fitting(pod: PodRow, nodes: Iterable[NodeRow], others: Iterable[PodRow] = (), **more: Any) -> set[str]:
    """Return the names of the nodes that fit."""
    return {name for name, why in reasons(pod, nodes, others, **more).items() if not why}
