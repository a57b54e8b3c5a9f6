"""The starting point of one scale-up: nodes being deleted, templates of new nodes, the expanders' view of the groups.

Nothing is moved yet. Symbols: P pods of the snapshot, N nodes, G node groups.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.facts.readiness import awaited_resources
from trimtab.planner.facts.similarity import Similarity
from trimtab.planner.facts.upcoming import overdue
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_templates import GroupTemplates, group_templates
from trimtab.planner.placement.hints import PodGroups, pod_groups
from trimtab.planner.placement.limits import LimitInputs, Limits
from trimtab.planner.round.request import DecisionRequest
from trimtab.planner.scale_up.default_expanders import with_default_expanders
from trimtab.planner.scale_up.options import ExpanderContext, describe
from trimtab.planner.scale_up.pending import NO_GANGS, PodsInGangs
from trimtab.planner.scale_up.similar_groups import similar_groups
from trimtab.planner.scale_up.state import recall
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE, Growth
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64
from trimtab.v1 import plan_pb2 as pb


class ScaleUpRequest(DecisionRequest[ScaleUpSettings, pb.ScaleUpState]):
    """The round, the settings of scale-up, and its state of the last answer."""

    __slots__ = ()

    @property
    def growth(self) -> Growth:
        """The virtual nodes with which groups grow."""
        return self.round.growth_of(pb.Decision.SCALE_UP)


class ScaleUpContext(NamedTuple):
    """pods : by node, followed by recently evicted ones; hint : int32[P'] their nodes in the last loop, -1 = not known;
    notes : on the state; leaving : bool[N] being deleted; templates : by group; similarity : of the groups; sizes :
    int64[G] target size of each group; limits : before any node is added; expanders : their input; compared_by : the
    `Expander.Code` that plans are compared by; new_domains : int64, template nodes whose zones count for topology
    spread although they may have no node; overdue : bool[G] groups whose requested nodes have not come in time; gangs :
    pods that wait with their gangs."""

    request: ScaleUpRequest
    pods: PodGroups
    hint: Int32
    notes: tuple[str, ...]
    leaving: Bool
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
    leaving = being_deleted(snapshot, request.now_ns)
    templates = group_templates(snapshot, settings, leaving, request.now_ns, this.work.cache, this.work.limits)
    similarity = similar_groups(snapshot, templates, this.settings.similarity)
    groups = describe(snapshot, templates, this.settings.readiness.gpu_label, similarity)
    pods = pod_groups(snapshot, this.evictions, this.work.cache)
    cluster = LimitInputs(snapshot, templates, leaving, request.now_ns)
    hint, notes = recall(request.state, snapshot, request.growth, pods)
    limits = Limits(cluster, this.settings.limits, settings.max_new_nodes)
    price = np.array([group.price_per_hour for group in snapshot.groups], np.float64)
    by_default = with_default_expanders(settings, price, limits, this.simulation, request.growth)
    request = request._replace(settings=by_default)
    return ScaleUpContext(
        request=request,
        pods=pods,
        hint=hint,
        notes=(*notes, *_notes(request, templates)),
        leaving=leaving,
        templates=templates,
        similarity=similarity,
        limits=limits,
        sizes=np.array([group.target_size for group in snapshot.groups], np.int64),
        expanders=ExpanderContext(groups, request.settings, len(snapshot.nodes.name), this.seed),
        compared_by=request.settings.expanders[0],
        new_domains=_new_domains(request, limits, leaving),
        overdue=overdue(snapshot, request.now_ns, this.settings.readiness),
    )


def _notes(request: ScaleUpRequest, templates: GroupTemplates) -> Iterator[str]:
    """Yield what people should know of new nodes, and of nodes that do not offer yet what they will."""
    yield from (one.note for one in templates if one is not None and one.note)
    for one in awaited_resources(request.snapshot, request.round.settings.readiness, request.now_ns):
        so_far = f"it offers {one.offered} of {one.expected}" if one.is_counted else "its label promises one"
        yield f"node {one.node} is starting: {one.resource} awaited, {so_far}"


def _new_domains(request: ScaleUpRequest, limits: Limits, leaving: Bool) -> Int64:
    """Return the template nodes of the groups that may grow, if the zones of their new nodes count, and some pod is on
    no node or on one that is `leaving` : bool[N]. int64."""
    template_node = request.growth.template_node[limits.reasons == 0]
    found: Int64 = template_node[template_node != NO_TEMPLATE_NODE]
    if not request.settings.spread_over_new_domains or not _may_place(request, leaving):
        return found[:0]
    return found


def _may_place(request: ScaleUpRequest, leaving: Bool) -> bool:
    return bool(leaving.any() or (request.round.simulation.state.pod_node == NO_NODE).any())
