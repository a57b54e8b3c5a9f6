"""Our side of the comparison: plain Kubernetes objects, as an API server lists them, to the planner's answers.

The way is that of `trimtab explain FILE fit`: objects to snapshot message to columns to simulation. A pod that is on
a node is asked about as if it were on none. Never looks at what the scheduler said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tests.builders.messages import decode_snapshot
from tests.builders.refusals import explain, masks
from tests.parity.agreement import Verdict
from trimtab.common.objects import InvalidInputError, build_snapshot, decode_objects
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.decisions.simulations import simulation_settings
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.round.round import Work
from trimtab.planner.simulation import kernels
from trimtab.planner.simulation.build import Simulation, build_simulation, with_virtual
from trimtab.planner.simulation.virtual_rows import NodeTemplate, VirtualNodes, template_of
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE, Snapshot
from trimtab.v1 import plan_pb2, reason_pb2

NAMES = {value: name for name, value in reason_pb2.PredicateReason.Code.items()}


class Step(NamedTuple):
    """One pod of a sequence: where it went ("" = nowhere) and what each node said before."""

    node: str
    verdicts: dict[str, Verdict]


def _snapshot(objects: Iterable[dict[str, Any]]) -> Snapshot:
    message = build_snapshot(decode_objects(objects)).snapshot
    return decode_snapshot(message.SerializeToString(deterministic=True))


def refusal(objects: Iterable[dict[str, Any]]) -> str:
    """Return why the objects are refused; "" = they are not."""
    try:
        _snapshot(objects)
    except InvalidInputError as error:
        return str(error)
    return ""


GATE = "TaintTolerationComparisonOperators"


def settings_of(gates: dict[str, bool]) -> plan_pb2.PlanSettings:
    """Return the settings of a planner beside a scheduler with these feature gates."""
    settings = plan_pb2.PlanSettings()
    settings.simulation.taint_toleration_comparison_operators = gates.get(GATE, False)
    return settings


def fit_matrix(
    objects: Iterable[dict[str, Any]], asked: list[str], gates: dict[str, bool]
) -> dict[str, dict[str, Verdict]]:
    """Return the verdicts for each requested pod ("namespace/name") on each node."""
    request = plan_pb2.PlanRequest(fit_pods=asked, settings=settings_of(gates))
    return {
        answer.pod: {
            fit.node: Verdict(fit.fits, tuple(NAMES[r] for r in fit.reasons), tuple(fit.insufficient))
            for fit in answer.nodes
        }
        for answer in check_fit(_snapshot(objects), request, Work())
    }


class _Sequence:
    """A simulation by names; where asked, with every second node that can be a virtual one, opened and filled.

    Those that no selector names are opened as a node group's new nodes are: spare nodes, each like a template node.
    """

    def __init__(self, objects: Iterable[dict[str, Any]], half_virtual: bool, gates: dict[str, bool]) -> None:
        settings, whole = simulation_settings(settings_of(gates)), _snapshot(objects)
        rows = _virtual_nodes(whole) if half_virtual else []
        snapshot = _without_nodes(whole, rows)
        named = repr((whole.specs, whole.volumes))
        templates = {whole.nodes.name[row]: template_of(whole, whole.nodes, row) for row in rows}
        grown = [name for name in templates if repr(name) not in named]
        names = {name: f"{name} template_node" if name in grown else name for name in templates}
        nodes = [VirtualNodes(template, (names[name],)) for name, template in templates.items()]
        nodes.append(VirtualNodes(NodeTemplate(), ("blank", *grown), is_spare=True))
        self.simulation: Simulation = with_virtual(build_simulation(snapshot, settings=settings), (), tuple(nodes))
        self.pods = {snapshot.pod_key(i): i for i in range(self.simulation.pod_count)}
        numbers = {name: i for i, name in enumerate((*snapshot.nodes.name, *names.values(), "blank", *grown))}
        self.nodes = {name: numbers[name] for name in (*snapshot.nodes.name, *templates)}
        state = self.simulation.state
        for name, made in names.items():
            like = numbers[made]
            opened = (
                kernels.open_from_template(state, numbers[name], like)
                if name in grown
                else kernels.open_node(state, like)
            )
            assert opened == 0
        was_on = build_simulation(whole).state.pod_node
        for pod in np.flatnonzero(np.isin(was_on, rows)).tolist():
            self.place(whole.pod_key(pod), whole.nodes.name[was_on[pod]])

    def matrix(self, pod: str) -> dict[str, Verdict]:
        """Check every node, as if the pod were on none."""
        state = self.simulation.state
        before = kernels.mark(state)
        kernels.remove(state, self.pods[pod])
        verdicts = {node: self.verdict(pod, node) for node in self.nodes}
        kernels.revert(state, before)
        return verdicts

    def verdict(self, pod: str, node: str) -> Verdict:
        """Return all reasons, and check the short answer against them."""
        at = self.pods[pod], self.nodes[node]
        why = explain(self.simulation, *at)
        assert kernels.fits(self.simulation.state, *at) == (not why.reasons), f"{pod} on {node}: fits, or {why}?"
        return Verdict(not why.reasons, tuple(NAMES[r] for r in why.reasons), tuple(why.insufficient))

    def place(self, pod: str, node: str) -> None:
        done = kernels.place(self.simulation.state, self.pods[pod], self.nodes[node])
        assert done == 0, f"{pod} cannot be put on {node}: {done}"

    def first_by_name(self, pod: str) -> str:
        """Return the first node that fits, checking all at once."""
        names = {number: name for name, number in self.nodes.items()}
        fitting = np.flatnonzero(masks(self.simulation, self.pods[pod]) == 0)
        return min((names[node] for node in fitting.tolist()), default="")


def _virtual_nodes(whole: Snapshot) -> list[int]:
    """Every second node of those that have their name as hostname, and to which no pod is pinned."""
    labels = [dict(whole.labels_of(row)) for row in whole.nodes.label_set.tolist()]
    pinned = set(whole.pods.pinned.tolist())
    could = [at for at, name in enumerate(whole.nodes.name) if labels[at].get(HOSTNAME) == name and at not in pinned]
    return could[::2]


def _without_nodes(whole: Snapshot, rows: list[int]) -> Snapshot:
    """Return the snapshot without these nodes."""
    kept = [row for row in range(len(whole.nodes.name)) if row not in rows]
    number = np.full(len(whole.nodes.name) + 2, UNKNOWN_NODE, np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    number[NO_NODE] = NO_NODE
    columns = {
        name: column[kept] if isinstance(column, np.ndarray) else tuple(column[row] for row in kept)
        for name, column in whole.nodes._asdict().items()
        if name != "taint_sets"
    }
    pods = whole.pods._replace(node=number[whole.pods.node], pinned=number[whole.pods.pinned])
    return whole._replace(nodes=whole.nodes._replace(**columns), pods=pods)


def half_virtual_matrix(
    objects: Iterable[dict[str, Any]], asked: list[str], gates: dict[str, bool]
) -> dict[str, dict[str, Verdict]]:
    """Return the verdicts for each requested pod on each node, in the simulation with virtual nodes."""
    sequence = _Sequence(objects, True, gates)
    return {pod: sequence.matrix(pod) for pod in asked}


def simulate(
    objects: Iterable[dict[str, Any]], asked: list[str], order: list[str], half_virtual: bool, gates: dict[str, bool]
) -> list[Step]:
    """Place the pods one after the other, each on the first node of `order` that it fits."""
    sequence, steps = _Sequence(objects, half_virtual, gates), []
    for pod in asked:
        verdicts = {node: sequence.verdict(pod, node) for node in order}
        fitting = [node for node in order if verdicts[node].fits]
        assert sequence.first_by_name(pod) == min(fitting, default=""), f"the search for {pod} misses {fitting}"
        if fitting:
            sequence.place(pod, fitting[0])
        steps.append(Step(fitting[0] if fitting else "", verdicts))
    return steps


def verify(
    objects: Iterable[dict[str, Any]], placements: list[tuple[str, str]], half_virtual: bool, gates: dict[str, bool]
) -> list[Verdict]:
    """Put the pods on given nodes, fitting or not, and return for each whether it fitted."""
    sequence, verdicts = _Sequence(objects, half_virtual, gates), []
    for pod, node in placements:
        verdicts.append(sequence.verdict(pod, node))
        sequence.place(pod, node)
    return verdicts
