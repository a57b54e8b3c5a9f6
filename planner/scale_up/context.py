"""The starting point of one scale-up: pods that need a place, their places of the last loop, templates of new nodes,
the expanders' view of the groups. Nothing is moved yet. If the settings name no expanders, those by the least total
price decide where it can be known, else upstream's. Symbols: P pods of the snapshot, N nodes, G node groups.

A pending pod is on no node, has not ended and is not terminating. It does not matter whether the scheduler has tried it
already: a pod that fits somewhere is placed there, and no node is added for it. A pod that is too young, one beyond its
gang's minimum if settings say so, and a DaemonSet pod take room if there is any, but no node is added for them: the
first may be served next time, the last belongs to a node. All other pods that are not served take no room. Source:
Cluster Autoscaler, filterOutYoungPods, core/podlistprocessor (filter_out_expendable, filter_out_daemon_sets). Upstream
serves pods of every scheduler, but only those marked unschedulable.

A pod keeps its place as long as it exists; otherwise the pods of requested nodes would spread over other ones
meanwhile. The state is opaque: one of another layout, or an unreadable one, counts as absent and gives a note.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import group_prices
from trimtab.planner.facts.readiness import awaited_resources, overdue
from trimtab.planner.facts.similarity import NodeShape, Similarity, samples
from trimtab.planner.model.settings import SECOND_NS, PlannerSettings, ScaleUpSettings, SimilaritySettings
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.group_templates import GroupTemplates
from trimtab.planner.placement.hints import (
    LAYOUT_VERSION,
    Moves,
    PodGroups,
    UnreadableStateError,
    check_lengths,
    column,
    numbers_of,
    open_opaque,
    pod_groups,
    read_hints,
    translated,
    write_hints,
)
from trimtab.planner.placement.limits import Limits
from trimtab.planner.predicates.resources import PODS
from trimtab.planner.round.decision import DecisionRequest, room_to_grow
from trimtab.planner.scale_up.expanders import ExpanderContext, describe
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.columns import (
    FLAG_DAEMON,
    FLAG_GATED,
    NO_NODE,
    Bool,
    Float64,
    Int32,
    Int64,
    Snapshot,
    UInt8,
)
from trimtab.planner.snapshot.dictionaries import FIRST_RESOURCES
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState
from trimtab.v1.plan_pb2 import Expander

Reason = reason_pb2.SkippedPodReason
_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")
_LONGEST_S: Final = 2**33
"""A delay beyond the time of any request, whose nanoseconds still fit an integer."""


class Pending(NamedTuple):
    """Pending pods, in order of name.

    pods : int32[W] those that need a place; may_add : bool[W] whether nodes may be added for them; skipped : int32[K]
    those that are not served, skipped_reason : uint8[K] `SkippedPodReason.Code`. A pod that is too young, or beyond its
    gang's minimum, is in both lists: it counts as skipped only if it finds no place.
    """

    pods: Int32
    may_add: Bool
    skipped: Int32
    skipped_reason: UInt8


class PodsInGangs(NamedTuple):
    """held : int32 pods that the scheduler holds with their gangs; rejected : int32 pods of gangs that cannot be whole,
    which count neither as pending nor as skipped; optional : int32 pods beyond the minimum of their gangs, which runs,
    for which no node is added."""

    held: Int32
    rejected: Int32
    optional: Int32


NO_GANGS: Final = PodsInGangs(*np.zeros((3, 0), np.int32))


def pending_pods(
    snapshot: Snapshot,
    settings: ScaleUpSettings,
    general: PlannerSettings,
    now_ns: int,
    requested: Bool | None = None,
    gangs: PodsInGangs = NO_GANGS,
) -> Pending:
    """Return the pending pods. requested : bool[P] those that wait for room of a ProvisioningRequest, None = none;
    gangs : those that wait with their gangs."""
    pods = snapshot.pods
    waits = np.flatnonzero((pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal())
    if len(gangs.rejected):
        waits = waits[~np.isin(waits, gangs.rejected)]
    reason = _reasons(snapshot, settings, general, waits, now_ns)
    if len(gangs.held):
        reason[np.isin(waits, gangs.held) & (reason != Reason.SCHEDULING_GATED)] = Reason.HELD_WITH_GANG
    if len(gangs.optional):
        reason[np.isin(waits, gangs.optional) & (reason == 0)] = Reason.BEYOND_GANG_MINIMUM
    if requested is not None:
        reason[requested[waits]] = Reason.CAPACITY_REQUESTED
    is_daemon = (pods.flags[waits] & FLAG_DAEMON) != 0
    adds_no_node = (reason == Reason.TOO_YOUNG) | (reason == Reason.BEYOND_GANG_MINIMUM)
    needs_place = (reason == 0) | adds_no_node
    skipped = (reason != 0) & ~is_daemon
    return Pending(
        pods=waits[needs_place].astype(np.int32),
        may_add=(~is_daemon & ~adds_no_node)[needs_place],
        skipped=waits[skipped].astype(np.int32),
        skipped_reason=reason[skipped],
    )


def _reasons(
    snapshot: Snapshot, settings: ScaleUpSettings, general: PlannerSettings, rows: Int64, now_ns: int
) -> UInt8:
    """Return by pod why it is not served, 0 = it is. uint8[rows]. Reasons that depend on time come last."""
    pods = snapshot.pods
    spec = pods.spec[rows]
    by_spec, delay_s = np.zeros(len(snapshot.specs), np.uint8), np.zeros(len(snapshot.specs), np.int64)
    is_used = np.zeros(len(snapshot.specs), bool)
    is_used[spec] = True
    for at in np.flatnonzero(is_used).tolist():
        by_spec[at] = _spec_reason(snapshot.specs[at], settings, general)
        delay_s[at] = max(snapshot.specs[at].scale_up_delay_s, 0)
    reason = by_spec[spec]
    wait_ns = np.maximum(np.minimum(delay_s[spec], _LONGEST_S) * SECOND_NS, settings.new_pod_delay_ns)
    # A pod of unknown age counts as old.
    is_young = (now_ns - pods.created_s[rows] * SECOND_NS < wait_ns) & (pods.created_s[rows] > 0)
    reason[is_young & (reason == 0)] = Reason.TOO_YOUNG
    reason[(pods.flags[rows] & FLAG_GATED) != 0] = Reason.SCHEDULING_GATED
    return reason


def _spec_reason(spec: PodRequirements, settings: ScaleUpSettings, general: PlannerSettings) -> int:
    if spec.scheduler_name not in _DEFAULT_SCHEDULERS and spec.scheduler_name not in settings.scheduler_names:
        return Reason.OTHER_SCHEDULER
    if spec.priority < general.expendable_priority:
        return Reason.EXPENDABLE
    if spec.unsupported:
        return Reason.UNSUPPORTED_CONSTRAINT
    return 0


def recall(
    state: pb.ScaleUpState | None, snapshot: Snapshot, growth: Growth, pods: PodGroups
) -> tuple[Int32, tuple[str, ...]]:
    """Return the place of each pod, as nodes of the simulation, -1 = not known, and notes. int32[P'].

    The n-th upcoming node of a group corresponds to the n-th of the last loop; those that have registered meanwhile are
    forgotten.
    """
    nothing = np.full(len(pods.digests), -1, np.int32)
    if state is None:
        return nothing, ()
    try:
        opaque = open_opaque(state.opaque)
        node_of = numbers_of(state.strings, snapshot.nodes.name)
        group_of = numbers_of(state.strings, [group.id for group in snapshot.groups])
        destinations = partial(_destinations, opaque, growth, node_of, group_of)
        return read_hints(opaque.hints, node_of, pods, destinations), ()
    except UnreadableStateError as error:
        return nothing, (f"the opaque part of the scale-up state was dropped ({error}): waiting pods are placed anew",)


def _destinations(opaque: OpaqueState, growth: Growth, node_of: Int32, group_of: Int32, strings: Int32) -> Int32:
    """Translate destinations, string indices, into nodes of the simulation, -1 = gone. int32."""
    coming = column(opaque.coming, np.int32, "coming")
    check_lengths("hints", len(strings), len(coming))
    if len(coming) and coming.min() < 0:
        raise UnreadableStateError(f"coming has {coming.min()}, which is not a node's index")
    nodes = translated(strings, node_of, "hints.destination")
    group = translated(strings, group_of, "hints.destination")
    offsets = growth.upcoming_offsets
    has_node = (coming > 0) & (group >= 0) & (group < len(offsets) - 1)
    first, end = offsets[group[has_node]], offsets[group[has_node] + 1]
    at = first + coming[has_node] - 1
    nodes[coming > 0] = -1
    nodes[np.flatnonzero(has_node)[at < end]] = growth.upcoming[at[at < end]]
    return nodes


def remember(simulation: Simulation, growth: Growth, groups: PodGroups, pods: Int32, added: Int32) -> pb.ScaleUpState:
    """Return the encoded state; without pods to remember, its opaque part is empty. O(pods · log pods + N).

    pods : int32 pods that waited, regardless of where they are now; added : int32 group of each new node, in the order
    in which the spare nodes were opened. Pods that a hint cannot name, such as placeholders, are left out.
    """
    snapshot, at = simulation.snapshot, simulation.state.pod_node
    nodes, ids = snapshot.nodes.name, [group.id for group in snapshot.groups]
    moved = np.sort(pods[pods < len(groups.digests)])
    moved = moved[at[moved] >= 0]
    # Sources and destinations share one numbering: nodes, then groups, then none.
    none = len(nodes) + len(ids)
    source = np.full(len(moved), none, np.int64)
    real = moved < simulation.pod_count
    source[real] = np.where(snapshot.pods.node[moved[real]] >= 0, snapshot.pods.node[moved[real]], none)
    order = np.argsort(source, kind="stable")
    moved, source = moved[order], source[order]
    group, number = growth.numbered(len(simulation.state.node_state), added)
    destination = np.where(at[moved] < len(nodes), at[moved], len(nodes) + group[at[moved]])
    used = np.unique(np.concatenate([source[source != none], destination]))
    code = np.zeros(none + 1, np.int32)
    code[used] = np.arange(1, len(used) + 1, dtype=np.int32)
    texts = [nodes[place] if place < len(nodes) else ids[place - len(nodes)] for place in used.tolist()]
    state = pb.ScaleUpState(strings=["", *texts])
    sources, first = np.unique(source, return_index=True)
    bounds = np.append(first, len(moved)).astype(np.int64)
    moves = Moves(sources.astype(np.int32), bounds, moved.astype(np.int32), destination.astype(np.int32))
    if len(moved):
        opaque = OpaqueState(layout_version=LAYOUT_VERSION, coming=(number[at[moved]] + 1).tobytes())
        write_hints(moves, code, groups.digests, opaque.hints)
        state.opaque = opaque.SerializeToString(deterministic=True)
    return state


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
    yield from (template.note for template in templates if template is not None and template.note)
    for awaited in awaited_resources(request.snapshot, request.round.settings.readiness, request.now_ns):
        so_far = (
            f"it offers {awaited.offered} of {awaited.expected}" if awaited.is_counted else "its label promises one"
        )
        yield f"node {awaited.node} is starting: {awaited.resource} awaited, {so_far}"


def _new_domains(request: ScaleUpRequest, limits: Limits) -> Int64:
    """Return the template nodes of the groups that may grow, if the zones of their new nodes count, and some pod is on
    no node or on one that is `leaving` : bool[N]. int64."""
    template_node = request.growth.template_node[limits.reasons == 0]
    domains: Int64 = template_node[template_node != NO_TEMPLATE_NODE]
    some_wait = request.leaving.any() or (request.round.simulation.state.pod_node == NO_NODE).any()
    return domains if request.settings.spread_over_new_domains and some_wait else domains[:0]


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
