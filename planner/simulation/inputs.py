"""Joins the snapshot's rows and virtual ones into one set of columns. Contract: virtual rows follow the snapshot's, in
the order given; the residents of virtual nodes follow all pods, once for each template. Strings that the snapshot lacks
are inserted in sorted order, so that look-ups stay valid; specs, label sets, taint sets and resources that it lacks are
appended.

What pods take in another place: the pods that their controllers make there have the requests of their templates.

A pod that was resized in place may request less than its template. In plans it takes the larger of both wherever it
goes, and only what it requests on the node where it runs. Pods whose requests a VerticalPodAutoscaler sets are left
out: it sets those of their successors, too. Pure. O(P) vectorised, then O(distinct pairs of controller and spec).

Who holds room in plans, other than in the cluster as it runs: expendable pods do not, as others preempt them; pods that
never preempt get only room beside them. A nominated pod is on its node, if it fits once pods of lower priority and
terminating ones are gone; all count until they are gone, so that the node may be overfull. Source: Cluster Autoscaler,
filter_out_expendable and core/static_autoscaler; kube-scheduler, RunFilterPluginsWithNominatedPods.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.classes.node_classes import NodeInput
from trimtab.planner.facts.nodes import planned_traits
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import NodeTraits, PodRequirements, TaintSpec
from trimtab.planner.predicates.expendable_pods import Amounts
from trimtab.planner.predicates.resources import PODS
from trimtab.planner.simulation.kernels import fits, place, remove
from trimtab.planner.simulation.log import commit
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.simulation.virtual_rows import Labels, VirtualNodes, VirtualPod, VirtualRows
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import (
    FLAG_DAEMON,
    FLAG_GATED,
    FLAG_MIRROR,
    NO_NODE,
    Bool,
    Int32,
    Int64,
    LabelSets,
    Snapshot,
)


def running(snapshot: Snapshot) -> Bool:
    """Return which pods are on a node and have not ended. bool[P]."""
    runs: Bool = (snapshot.pods.node >= 0) & ~snapshot.pods.is_terminal()
    return runs


def expendable(snapshot: Snapshot, cutoff: int) -> Bool:
    """Return which pods run and have a priority below the cutoff. bool[P]."""
    below = snapshot.spec_priorities() < cutoff
    return running(snapshot) & below[snapshot.pods.spec] if below.any() else np.zeros(len(snapshot.pods.spec), np.bool_)


def traits_in_plans(snapshot: Snapshot, cutoff: int) -> tuple[NodeTraits, ...]:
    """Return the traits of the nodes with the attach limits of their groups, and with the room that is left beside
    expendable pods, if some pod never preempts."""
    traits = list(planned_traits(snapshot))
    if any(spec.never_preempts for spec in snapshot.specs):
        for node in np.unique(snapshot.pods.node[expendable(snapshot, cutoff)]).tolist():
            traits[node] = traits[node]._replace(beside_expendable=_room(snapshot, node))
    return tuple(traits)


def _room(snapshot: Snapshot, node: int) -> Amounts:
    rest = dict(zip(snapshot.resources, snapshot.nodes.allocatable[node].tolist(), strict=True))
    rows = np.flatnonzero(running(snapshot) & (snapshot.pods.node == node))
    for spec in snapshot.pods.spec[rows].tolist():
        for name, amount in (*snapshot.specs[spec].requests, (PODS, 1)):
            rest[name] = rest.get(name, 0) - amount
    return tuple(rest.items())


def nominated_pods(snapshot: Snapshot) -> Int64:
    """Return the pods on no node that the scheduler has nominated for one of the snapshot. int64."""
    pods = snapshot.pods
    if not (pods.nominated >= 0).any():
        return np.zeros(0, np.int64)
    waits = (pods.nominated >= 0) & (pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal()
    nominated: Int64 = np.flatnonzero(waits & ((pods.flags & FLAG_GATED) == 0))
    return nominated


def hold_nominated(state: SimulationState, snapshot: Snapshot, cutoff: int) -> None:
    """Put nominated pods on their nodes, the most important first."""
    pods, rows = snapshot.pods, nominated_pods(snapshot)
    if not len(rows):
        return
    priority = snapshot.spec_priorities()[pods.spec]
    rows = rows[priority[rows] >= cutoff]
    for pod in rows[np.lexsort((rows, pods.created_s[rows], -priority[rows]))].tolist():
        node = int(pods.nominated[pod])
        there = state.pod_node[: len(priority)] == node
        victims: Int64 = np.flatnonzero(there & ((priority < priority[pod]) | (pods.deletion_s != 0)))
        for victim in victims.tolist():
            remove(state, victim)
        is_held = fits(state, pod, node)
        for victim in victims.tolist():
            place(state, victim, node)
        if is_held:
            place(state, pod, node)
        commit(state)


_AT_A_TIME: Final = 4096
"""Nodes between two checks of the deadline: some ten milliseconds."""


class PodInput(NamedTuple):
    """Columns of P pods, and the specs that they index.

    namespace, spec, label_set, pinned : int32[P], created_s : int64[P] as in `trimtab.planner.snapshot.columns`;
    terminating, gated : bool[P].
    """

    specs: tuple[PodRequirements, ...]
    namespace: Int32
    spec: Int32
    label_set: Int32
    created_s: Int64
    terminating: Bool
    gated: Bool
    pinned: Int32


class Inputs(NamedTuple):
    """Pods and nodes, with the dictionaries that they index."""

    strings: tuple[str, ...]
    label_sets: LabelSets
    resources: tuple[str, ...]
    pods: PodInput
    nodes: NodeInput


def joined(snapshot: Snapshot, virtual: VirtualRows, limits: RequestLimits = UNLIMITED) -> Inputs:
    """Join the snapshot's rows with virtual ones. O(P + N); without virtual rows nothing is copied. limits : see
    `RequestLimits`.
    """
    whole = _of_snapshot(snapshot)
    if not (virtual.pods or virtual.nodes or virtual.kinds.pods):
        return whole
    pods = virtual.pods + virtual.without_row
    label_sets = _VirtualLabelSets(pods, virtual.nodes, limits)
    whole = _with_strings(whole, {pod.namespace for pod in pods} | label_sets.texts)
    limits.check()
    place = {text: at for at, text in enumerate(whole.strings)}
    first = len(whole.label_sets.offsets) - 1
    behind = label_sets.behind(whole.label_sets, place)
    limits.check()
    return whole._replace(
        label_sets=behind,
        resources=_resources(whole.resources, virtual),
        pods=_pods(whole.pods, pods, place, [first + at for at in label_sets.of_pods]),
        nodes=_nodes(whole, virtual, [first + at for at in label_sets.of_nodes]),
    )


def _of_snapshot(snapshot: Snapshot) -> Inputs:
    pods, nodes = snapshot.pods, snapshot.nodes
    return Inputs(
        snapshot.strings,
        snapshot.label_sets,
        snapshot.resources,
        PodInput(
            snapshot.specs,
            pods.namespace,
            pods.spec,
            pods.label_set,
            pods.created_s,
            pods.deletion_s != 0,
            (pods.flags & FLAG_GATED) != 0,
            pods.pinned,
        ),
        NodeInput(
            nodes.name,
            nodes.label_set,
            nodes.taint_set,
            nodes.taint_sets,
            nodes.unschedulable,
            nodes.allocatable,
            nodes.traits,
        ),
    )


class _VirtualLabelSets:
    """Distinct label sets of virtual rows. of_pods, of_nodes : the number of each row's."""

    def __init__(self, pods: tuple[VirtualPod, ...], nodes: tuple[VirtualNodes, ...], limits: RequestLimits) -> None:
        sets: dict[Labels, int] = {}
        self.of_pods = [sets.setdefault(pod.labels, len(sets)) for pod in pods]
        self.of_nodes: list[int] = []
        for alike in nodes:
            for first in range(0, len(alike.names), _AT_A_TIME):
                limits.check()
                labels = alike.labels_of(alike.names[first : first + _AT_A_TIME])
                self.of_nodes += [sets.setdefault(label_set, len(sets)) for label_set in labels]
        self._sets = list(sets)
        self._limits = limits
        self.texts = {text for labels in sets for pair in labels for text in pair}

    def behind(self, old: LabelSets, place: dict[str, int]) -> LabelSets:
        """Return the label sets with these appended."""
        lengths = np.array([len(labels) for labels in self._sets], np.int32)
        keys = np.array([place[key] for labels in self._sets for key, _ in labels], np.int32)
        self._limits.check()
        values = np.array([place[value] for labels in self._sets for _, value in labels], np.int32)
        return LabelSets(
            np.concatenate([old.offsets, old.offsets[-1] + np.cumsum(lengths, dtype=np.int32)]),
            np.concatenate([old.keys, keys]),
            np.concatenate([old.values, values]),
        )


def _with_strings(whole: Inputs, wanted: set[str]) -> Inputs:
    strings = tuple(sorted({*whole.strings, *wanted}))
    if len(strings) == len(whole.strings):
        return whole
    place = {text: at for at, text in enumerate(strings)}
    moved = np.fromiter((place[text] for text in whole.strings), np.int32, len(whole.strings))
    sets = whole.label_sets
    return whole._replace(
        strings=strings,
        label_sets=LabelSets(sets.offsets, moved[sets.keys], moved[sets.values]),
        pods=whole.pods._replace(namespace=moved[whole.pods.namespace]),
    )


def _pods(whole: PodInput, pods: tuple[VirtualPod, ...], place: dict[str, int], label_set: list[int]) -> PodInput:
    specs = {spec: at for at, spec in enumerate(whole.specs)}
    spec = [specs.setdefault(pod.spec, len(specs)) for pod in pods]
    return PodInput(
        tuple(specs),
        _more(whole.namespace, [place[pod.namespace] for pod in pods]),
        _more(whole.spec, spec),
        _more(whole.label_set, label_set),
        np.concatenate([whole.created_s, np.array([pod.created_s for pod in pods], np.int64)]),
        np.concatenate([whole.terminating, np.zeros(len(pods), np.bool_)]),
        np.concatenate([whole.gated, np.zeros(len(pods), np.bool_)]),
        _more(whole.pinned, [pod.pinned for pod in pods]),
    )


def _resources(resources: tuple[str, ...], virtual: VirtualRows) -> tuple[str, ...]:
    offered = {name for nodes in virtual.nodes for name, _ in nodes.template.allocatable}
    return (*resources, *sorted(offered - set(resources)))


def _nodes(whole: Inputs, virtual: VirtualRows, label_set: list[int]) -> NodeInput:
    resources, old = _resources(whole.resources, virtual), whole.nodes
    column = {name: at for at, name in enumerate(resources)}
    taint_sets: dict[tuple[TaintSpec, ...], int] = {taints: at for at, taints in enumerate(old.taint_sets)}
    counts = [len(nodes.names) for nodes in virtual.nodes]
    templates = [nodes.template for nodes in virtual.nodes]
    taint_set = [taint_sets.setdefault(template.taints, len(taint_sets)) for template in templates]
    unschedulable = np.array([template.unschedulable for template in templates], np.bool_)
    amounts = np.zeros((len(templates), len(resources)), np.int64)
    for row, template in enumerate(templates):
        for name, amount in template.allocatable:
            amounts[row, column[name]] = amount
    wider = np.zeros((len(old.name), len(resources)), np.int64)
    wider[:, : old.allocatable.shape[1]] = old.allocatable
    return NodeInput(
        (*old.name, *(name for nodes in virtual.nodes for name in nodes.names)),
        _more(old.label_set, label_set),
        np.concatenate([old.taint_set, np.repeat(np.array(taint_set, np.int32), counts)]),
        tuple(taint_sets),
        np.concatenate([old.unschedulable, np.repeat(unschedulable, counts)]),
        np.concatenate([wider, np.repeat(amounts, counts, axis=0)]),
        (*old.traits, *(nodes.template.traits for nodes in virtual.nodes for _ in nodes.names)),
    )


def _more(column: Int32, values: list[int]) -> Int32:
    return np.concatenate([column, np.array(values, np.int32)])


_STAYS: Final = FLAG_DAEMON | FLAG_MIRROR


class TemplateRequests(NamedTuple):
    """What the templates of controllers request. by_owner : by row, () = unknown; digest : of all, "" = of none. The
    numbers of replicas, which change often, have no part in it."""

    by_owner: tuple[tuple[tuple[str, int], ...], ...] = ()
    digest: str = ""


NO_TEMPLATES: Final = TemplateRequests()


class TemplateRequestsKey(SnapshotKey[TemplateRequests]):
    """What the templates of controllers request."""


def template_requests(snapshot: Snapshot) -> TemplateRequests:
    """Return what the templates of all controllers request. O(owners)."""
    of_owners = tuple(owner.pod_requests for owner in snapshot.owners)
    if not any(of_owners):
        return NO_TEMPLATES
    return TemplateRequests(of_owners, blake2b(repr(of_owners).encode(), digest_size=16).hexdigest())


def with_successors(inputs: Inputs, snapshot: Snapshot, templates: TemplateRequests) -> Inputs:
    """Return the inputs with the pods' requests elsewhere, and the difference added to what their nodes offer."""
    if not templates.digest:
        return inputs
    has_template = np.array([bool(requests) for requests in templates.by_owner], np.bool_)
    pods = snapshot.pods
    rows = np.flatnonzero(running(snapshot) & (pods.owner >= 0) & ((pods.flags & _STAYS) == 0))
    rows = rows[has_template[pods.owner[rows]]]
    pairs, of_pair = np.unique(np.stack([pods.owner[rows], pods.spec[rows]]), axis=1, return_inverse=True)
    specs, spec, allocatable = list(inputs.pods.specs), inputs.pods.spec.copy(), inputs.nodes.allocatable.copy()
    column = {name: at for at, name in enumerate(inputs.resources)}
    for number, (owner, at) in enumerate(pairs.T.tolist()):
        own, template = dict(specs[at].requests), dict(templates.by_owner[owner])
        more = {name: amount - own.get(name, 0) for name, amount in template.items() if amount > own.get(name, 0)}
        if not more or specs[at].requests_by_vpa:
            continue
        alike = rows[of_pair.reshape(-1) == number]
        spec[alike] = len(specs)
        specs.append(specs[at]._replace(requests=tuple(sorted((own | {k: template[k] for k in more}).items()))))
        for name, amount in more.items():
            if name in column:
                np.add.at(allocatable[:, column[name]], pods.node[alike], amount)
    return inputs._replace(
        pods=inputs.pods._replace(specs=tuple(specs), spec=spec), nodes=inputs.nodes._replace(allocatable=allocatable)
    )
