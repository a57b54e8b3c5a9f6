"""The starting point of one scale-up: nodes being deleted, templates of new nodes, the expanders' view of the groups.

Nothing is moved yet. If the settings name no expanders, those by the least total price decide where it can be known,
else upstream's. Symbols: P pods of the snapshot, N nodes, G node groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import group_prices
from trimtab.planner.facts.readiness import awaited_resources, overdue
from trimtab.planner.facts.similarity import NodeShape, Similarity, samples
from trimtab.planner.model.settings import ScaleUpSettings, SimilaritySettings
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.group_templates import GroupTemplates
from trimtab.planner.placement.hints import PodGroups, pod_groups
from trimtab.planner.placement.limits import Limits
from trimtab.planner.predicates.resources import PODS
from trimtab.planner.round.decision import DecisionRequest, room_to_grow
from trimtab.planner.scale_up.expanders import ExpanderContext, describe
from trimtab.planner.scale_up.pending import NO_GANGS, PodsInGangs
from trimtab.planner.scale_up.state import recall
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import FIRST_RESOURCES
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.plan_pb2 import Expander

BY_PRICE = (int(Expander.CHEAPEST_PLAN), int(Expander.RANDOM))


class ScaleUpRequest(DecisionRequest[ScaleUpSettings, pb.ScaleUpState]):
    """The round, the settings of scale-up, and its state of the last answer."""

    __slots__ = ()

    @property
    def growth(self) -> Growth:
        """The virtual nodes with which groups grow."""
        return self.round.growth_of(pb.Decision.SCALE_UP)


class ScaleUpContext(NamedTuple):
    """pods : by node, followed by recently evicted ones; hint : int32[P'] their nodes in the last loop, -1 = not known;
    notes : on the state; templates : by group; similarity : of the groups; sizes :
    int64[G] target size of each group; limits : before any node is added; expanders : their input; compared_by : the
    `Expander.Code` that plans are compared by; new_domains : int64, template nodes whose zones count for topology
    spread although they may have no node; overdue : bool[G] groups whose requested nodes have not come in time; gangs :
    pods that wait with their gangs."""

    request: ScaleUpRequest
    pods: PodGroups
    hint: Int32
    notes: tuple[str, ...]
    templates: GroupTemplates
    similarity: Similarity
    sizes: Int64
    limits: Limits
    expanders: ExpanderContext
    compared_by: int
    new_domains: Int64
    overdue: Bool
    gangs: PodsInGangs = NO_GANGS


def survey(request: ScaleUpRequest) -> ScaleUpContext:
    """Evaluate everything once. O(P + N + G), vectorised."""
    snapshot, settings, this = request.snapshot, request.settings, request.round
    templates, limits = room_to_grow(this, settings)
    similarity = similar_groups(snapshot, templates, this.settings.similarity)
    groups = describe(snapshot, templates, this.settings.readiness.gpu_label, similarity)
    pods = pod_groups(snapshot, this.evictions, this.work.cache)
    hint, notes = recall(request.state, snapshot, request.growth, pods)
    price = group_prices(snapshot.groups)
    by_default = with_default_expanders(settings, price, limits, this.simulation, request.growth)
    request = request._replace(settings=by_default)
    return ScaleUpContext(
        request=request,
        pods=pods,
        hint=hint,
        notes=(*notes, *_notes(request, templates)),
        templates=templates,
        similarity=similarity,
        limits=limits,
        sizes=np.array([group.target_size for group in snapshot.groups], np.int64),
        expanders=ExpanderContext(groups, request.settings, len(snapshot.nodes.name), this.seed),
        compared_by=request.settings.expanders[0],
        new_domains=_new_domains(request, limits),
        overdue=overdue(snapshot, request.now_ns, this.settings.readiness),
    )


def _notes(request: ScaleUpRequest, templates: GroupTemplates) -> Iterator[str]:
    """Yield what people should know of new nodes, and of nodes that do not offer yet what they will."""
    yield from (one.note for one in templates if one is not None and one.note)
    for one in awaited_resources(request.snapshot, request.round.settings.readiness, request.now_ns):
        so_far = f"it offers {one.offered} of {one.expected}" if one.is_counted else "its label promises one"
        yield f"node {one.node} is starting: {one.resource} awaited, {so_far}"


def _new_domains(request: ScaleUpRequest, limits: Limits) -> Int64:
    """Return the template nodes of the groups that may grow, if the zones of their new nodes count, and some pod is on
    no node or on one that is `leaving` : bool[N]. int64."""
    template_node = request.growth.template_node[limits.reasons == 0]
    found: Int64 = template_node[template_node != NO_TEMPLATE_NODE]
    some_wait = request.leaving.any() or (request.round.simulation.state.pod_node == NO_NODE).any()
    return found if request.settings.spread_over_new_domains and some_wait else found[:0]


def with_default_expanders(
    settings: ScaleUpSettings, price: Float64, limits: Limits, simulation: Simulation, growth: Growth
) -> ScaleUpSettings:
    """Return the settings with CHEAPEST_PLAN if they name no expanders, and every group that may grow and would help a
    pod on no node has a price. price : float64[G], NaN = unknown. O(G), and O(pods + classes · G · R) if some group has
    none.
    """
    may_grow: Bool = limits.reasons == 0
    if settings.names_expanders or not (may_grow & ~np.isnan(price)).any():
        return settings
    unpriced = np.flatnonzero(may_grow & np.isnan(price))
    if len(unpriced) and _help(simulation, growth, unpriced).any():
        return settings
    return replace(settings, expanders=BY_PRICE)


def _help(simulation: Simulation, growth: Growth, groups: Int64) -> Bool:
    """Return which of groups : int64[M] have new nodes that some pod on no node fits by amounts and static predicates.
    bool[M]."""
    state, template_node = simulation.state, growth.template_node[groups]
    classes = np.unique(state.pod_class[state.pod_node == NO_NODE])
    free = fresh_amounts(simulation, growth)[groups]
    helps = np.zeros(len(groups), np.bool_)
    for at in np.flatnonzero(template_node != NO_TEMPLATE_NODE).tolist():
        admitted = state.blocked[classes, state.node_class[template_node[at]]] == 0
        helps[at] = (admitted & (state.resources.request[classes] <= free[at]).all(axis=1)).any()
    return helps


Amounts = Iterable[tuple[str, int]]


def similar_groups(
    snapshot: Snapshot, templates: Sequence[GroupTemplate | None], settings: SimilaritySettings
) -> Similarity:
    """Return which groups are similar, judged by a new node of each. O(groups · labels) on first use.

    A new node's DaemonSet pods and static pods are subtracted from its free amounts. Taints do not count: only a group
    on which every pod of a choice fits shares its nodes. Groups without template, and all-or-nothing groups, are
    similar to none. Source: Cluster Autoscaler, FindSimilarNodeGroups, ComputeSimilarNodeGroups.
    """

    def shapes() -> Iterator[NodeShape | None]:
        for group, template in zip(snapshot.groups, templates, strict=True):
            if template is None or group.zero_or_max:
                yield None
                continue
            labels, free = template.template.labels, list(_free(template))
            yield NodeShape(template.capacity, list(_allocatable(snapshot, template)), free, labels)

    return Similarity(lambda: samples(shapes(), settings), settings)


def _allocatable(snapshot: Snapshot, template: GroupTemplate) -> Iterator[tuple[str, int]]:
    """Yield the allocatable amounts of a node, static pods included: those of a real node are not in its template's
    amounts.
    """
    if template.node == NO_NODE:
        yield from template.template.allocatable
        return
    amounts: Int64 = snapshot.nodes.allocatable[template.node]
    for at in np.flatnonzero(amounts).tolist():
        yield snapshot.resources[at], int(amounts[at])


def _free(template: GroupTemplate) -> Iterator[tuple[str, int]]:
    """Yield the amounts that the pods of a new node leave, for the first resources and those that they request.

    The number of further pods is not included: static pods count if the template is taken from a node, and upstream
    counts none.
    """
    offered = dict(template.template.allocatable)
    requested = dict.fromkeys(FIRST_RESOURCES, 0)
    for pod in template.daemonset_pods:
        for name, amount in pod.spec.requests:
            requested[name] = requested.get(name, 0) + amount
    for name, amount in requested.items():
        if name != PODS:
            yield name, offered.get(name, 0) - amount
