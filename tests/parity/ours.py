"""Our side of the comparison: plain Kubernetes objects, as an API server lists them, to the planner's answers.

The way is that of `trimtab fit`: objects to snapshot message to columns to simulation. A pod that is on
a node is asked about as if it were on none. Never looks at what the scheduler said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2, reason_pb2

from clients.kubernetes_objects import InputError, build_snapshot, decode_objects
from planner.decisions.fit import check_fit
from planner.decisions.work import Work
from planner.simulation import kernels
from planner.simulation.build import Simulation, build_simulation
from planner.simulation.explain import explain
from planner.snapshot.columns import Snapshot
from planner.snapshot.decode import decode_snapshot
from tests.parity.agreement import Verdict

NAMES = {value: name for name, value in reason_pb2.PredicateReason.Code.items()}


class Step(NamedTuple):
    """One pod of a sequence: where it went ("" = nowhere) and what each node said before."""

    node: str
    verdicts: dict[str, Verdict]


def _snapshot(objects: Iterable[dict[str, Any]]) -> Snapshot:
    message = build_snapshot(decode_objects(objects)).snapshot
    return decode_snapshot(message.SerializeToString(deterministic=True))


def refusal(objects: Iterable[dict[str, Any]]) -> str:
    """Why the objects are refused; "" = they are not."""
    try:
        _snapshot(objects)
    except InputError as error:
        return str(error)
    return ""


def fit_matrix(objects: Iterable[dict[str, Any]], asked: list[str]) -> dict[str, dict[str, Verdict]]:
    """Each pod asked about ("namespace/name") on each node."""
    request = plan_pb2.PlanRequest(fit_pods=asked)
    return {
        answer.pod: {
            fit.node: Verdict(fit.fits, tuple(NAMES[r] for r in fit.reasons), tuple(fit.insufficient))
            for fit in answer.nodes
        }
        for answer in check_fit(_snapshot(objects), request, Work())
    }


class _Sequence:
    """A simulation by names."""

    def __init__(self, objects: Iterable[dict[str, Any]]) -> None:
        self.simulation: Simulation = build_simulation(_snapshot(objects))
        snapshot = self.simulation.snapshot
        self.pods = {snapshot.pod_key(i): i for i in range(self.simulation.pod_count)}
        self.nodes = {name: i for i, name in enumerate(snapshot.nodes.name)}

    def verdict(self, pod: str, node: str) -> Verdict:
        """Ask for all reasons, and hold the short answer to them."""
        at = self.pods[pod], self.nodes[node]
        why = explain(self.simulation, *at)
        assert kernels.fits(self.simulation.state, *at) == (not why.reasons), f"{pod} on {node}: fits, or {why}?"
        return Verdict(not why.reasons, tuple(NAMES[r] for r in why.reasons), tuple(why.insufficient))

    def place(self, pod: str, node: str) -> None:
        done = kernels.place(self.simulation.state, self.pods[pod], self.nodes[node])
        assert done == 0, f"{pod} cannot be put on {node}: {done}"

    def first_by_name(self, pod: str) -> str:
        """The node that a search over all finds."""
        allowed = np.ones(len(self.nodes), np.bool_)
        found = kernels.find(self.simulation.state, self.pods[pod], allowed, 0)
        return list(self.nodes)[found] if found >= 0 else ""


def simulate(objects: Iterable[dict[str, Any]], asked: list[str], order: list[str]) -> list[Step]:
    """Place the pods one after the other, each on the first node of `order` that it fits."""
    sequence, steps = _Sequence(objects), []
    for pod in asked:
        verdicts = {node: sequence.verdict(pod, node) for node in order}
        fitting = [node for node in order if verdicts[node].fits]
        assert sequence.first_by_name(pod) == min(fitting, default=""), f"the search for {pod} misses {fitting}"
        if fitting:
            sequence.place(pod, fitting[0])
        steps.append(Step(fitting[0] if fitting else "", verdicts))
    return steps


def verify(objects: Iterable[dict[str, Any]], placements: list[tuple[str, str]]) -> list[Verdict]:
    """Put the pods where they are told, fitting or not, and say of each whether it fitted."""
    sequence, verdicts = _Sequence(objects), []
    for pod, node in placements:
        verdicts.append(sequence.verdict(pod, node))
        sequence.place(pod, node)
    return verdicts
