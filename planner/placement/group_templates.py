"""The template of a new node of each node group, and the DaemonSet pods that run on it from the start. Taken from the
group's template or from one of its nodes (`model_nodes`), without what is specific to that node: its name, its startup,
condition and autoscaler taints, and its pods. A DaemonSet pod is included if the template or the node has it; other
DaemonSets that would run there, whether they have pods elsewhere or none yet, are added if the template names no pods
at all, if the settings require it, or if their pods preempt others. Requests of static pods are subtracted from the
node's amounts.
Source: Cluster Autoscaler, node_info_utils.go, MixedTemplateNodeInfoProvider, daemonset.GetDaemonSetPodsForNode.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.classes.label_columns import LookedAt, label_matrix
from trimtab.planner.classes.node_classes import NodeSignature
from trimtab.planner.classes.node_requirements import NodeRows
from trimtab.planner.classes.scheduling_specs import NODE_REQUIREMENT, TOLERATIONS, NodeRequirement, scheduling_specs
from trimtab.planner.facts.attach_limits import Limits, limits_by_group, of_new_node
from trimtab.planner.facts.daemon_pods import SYSTEM_NODE_CRITICAL, DaemonPods, daemon_pods
from trimtab.planner.facts.label_index import label_sets_of
from trimtab.planner.facts.transient_taints import lasting
from trimtab.planner.facts.upcoming import upcoming
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.placement.model_nodes import NOTHING, ModelNode, model_nodes
from trimtab.planner.predicates import node_affinity
from trimtab.planner.predicates.resources import PODS
from trimtab.planner.predicates.taints import untolerated
from trimtab.planner.simulation.growth import GrowthNeed
from trimtab.planner.simulation.virtual_rows import (
    GroupTemplate,
    Labels,
    NodeTemplate,
    VirtualPod,
    amounts_of,
    template_of,
)
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot
from trimtab.planner.snapshot.recorded_reads import depend_on_everything
from trimtab.planner.snapshot.references import NONE, take_or

_DEPRECATED_LABELS: Final = {
    well_known.INSTANCE_TYPE.key: well_known.OLD_INSTANCE_TYPE.key,
    well_known.REGION.key: well_known.OLD_REGION.key,
    well_known.ZONE.key: well_known.OLD_ZONE.key,
}
_BYTES_OF_PAIR: Final = 24
"""Memory of whether a DaemonSet runs on the nodes of a group."""

Amounts = tuple[tuple[str, int], ...]
"""Amounts by resource name, without zeros."""
GroupTemplates = tuple[GroupTemplate | None, ...]
"""By node group; None if there is neither a template nor a node (`NodeGroupReason.NO_TEMPLATE`)."""


@dataclass(frozen=True)
class TemplatesKey(SnapshotKey[GroupTemplates]):
    """The template of each node group. source : digest of settings and chosen nodes; daemons : digest of the pods of
    DaemonSets."""

    source: str
    daemons: str


def group_templates(
    snapshot: Snapshot,
    settings: ScaleUpSettings,
    leaving: Bool,
    now_ns: int,
    cache: SnapshotCache = UNCACHED,
    limits: RequestLimits = UNLIMITED,
) -> GroupTemplates:
    """Return the template of each node group. leaving : bool[N], nodes that are being deleted. The result is cached: if
    all templates are given by the groups, as long as groups and DaemonSets are unchanged, otherwise for the snapshot.
    limits : see `RequestLimits`. O(N + P + groups · (labels + DaemonSets)).
    """
    models = model_nodes(snapshot, settings, leaving, now_ns)
    daemons = daemon_pods(snapshot)
    others, attach_limits = tuple(_daemon_set_pods(snapshot, daemons)), limits_by_group(snapshot)

    def build(view: Snapshot) -> GroupTemplates:
        if any(one.node >= 0 for one in models):
            # The pods of examples are among `daemons`.
            depend_on_everything(view)
        chosen = np.array([one.node for one in models], np.int64)
        return _build(view, settings, models, _examples(view, daemons, attach_limits, chosen), others, limits)

    content = blake2b(repr((others, attach_limits)).encode(), digest_size=16).hexdigest()
    return cache.get(TemplatesKey(_key(settings, models), content), snapshot, build)


def templates_key(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool, now_ns: int) -> str:
    """Return a digest of what the templates depend on besides the snapshot. leaving : bool[N] being deleted. O(N)."""
    return _key(settings, model_nodes(snapshot, settings, leaving, now_ns))


def growth_with(
    snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool, now_ns: int, spare_nodes: Callable[[int], int]
) -> GrowthNeed:
    """Return the requirements of a decision whose groups grow by these rules. leaving : bool[N], being deleted;
    spare_nodes : as in `GrowthNeed`."""
    return GrowthNeed(
        key=templates_key(snapshot, settings, leaving, now_ns),
        templates=partial(group_templates, snapshot, settings, leaving, now_ns, UNCACHED),
        upcoming=tuple(upcoming(snapshot, leaving, now_ns, settings.readiness).tolist()),
        spare_nodes=spare_nodes,
    )


def labels_by_group(templates: Sequence[GroupTemplate | None]) -> tuple[dict[str, str], ...]:
    """Return the labels of a new node of each group, none without a template."""
    return tuple(dict(one.template.labels) if one is not None else {} for one in templates)


def _key(settings: ScaleUpSettings, models: Sequence[ModelNode]) -> str:
    rules = settings.readiness
    taints = [(sorted(one.keys), one.prefixes) for one in (rules.startup, rules.status)]
    mixed = [(one.node, one.taints, sorted(one.left_out)) for one in models if one.taints is not None]
    nodes = np.array([one.node for one in models], np.int64)
    return blake2b(
        nodes.tobytes() + repr((taints, settings.force_daemonsets, mixed)).encode(), digest_size=16
    ).hexdigest()


class _DaemonSetPod(NamedTuple):
    """The pod of a DaemonSet on a new node. forms : it, and other forms in which a group's template may name it."""

    pod: VirtualPod
    forms: tuple[VirtualPod, ...]


def _daemon_set_pods(snapshot: Snapshot, daemons: DaemonPods) -> Iterator[_DaemonSetPod]:
    """Yield the pod of each DaemonSet: its template, or else its newest pod. On that, the DaemonSet controller has
    replaced required node affinity by the name of the pod's own node.
    """
    for template, newest in zip(daemons.templates, daemons.newest, strict=True):
        forms = [VirtualPod(*template)] if template is not None else []
        forms += [_as_virtual(snapshot, newest)] if newest != NONE else []
        yield _DaemonSetPod(forms[0], tuple(forms))


class _Examples(NamedTuple):
    """What nodes tell about new ones. by_node : of the nodes from which templates are taken, node to its pods, in order
    of name; limits : attach limits by group."""

    daemons: DaemonPods
    limits: list[Limits]
    by_node: dict[int, list[int]]

    def daemon_sets_on(self, node: int) -> dict[int, int]:
        """Return the DaemonSets of a node's pods, with the first pod of each."""
        of = ((int(self.daemons.daemon_set[pod]), pod) for pod in reversed(self.by_node.get(node, ())))
        return {daemon_set: pod for daemon_set, pod in of if daemon_set != NONE}

    def static_on(self, node: int) -> list[int]:
        """Return the static pods of a node."""
        return [pod for pod in self.by_node.get(node, ()) if self.daemons.static[pod]]


def _build(
    snapshot: Snapshot,
    settings: ScaleUpSettings,
    models: Sequence[ModelNode],
    examples: _Examples,
    others: tuple[_DaemonSetPod, ...],
    limits: RequestLimits,
) -> GroupTemplates:
    templates = [
        None if model.node == NOTHING else _template(snapshot, settings, examples, group, model)
        for group, model in enumerate(models)
    ]
    known = [one for one in templates if one is not None]
    limits.reserve(_BYTES_OF_PAIR * len(known) * len(others), "node groups times DaemonSets")
    would_run = iter(_would_run([one.template for one in known], [other.pod.spec for other in others]))
    found: list[GroupTemplate | None] = []
    for group, one in zip(snapshot.groups, templates, strict=True):
        if one is None:
            found.append(None)
            continue
        limits.check()
        there, named = examples.daemon_sets_on(one.node), set(one.daemonset_pods)
        all_of_them = settings.force_daemonsets or (one.node < 0 and not group.daemonset_pods)
        more = tuple(
            others[at].pod
            for at in next(would_run)
            if (all_of_them or others[at].pod.spec.priority >= SYSTEM_NODE_CRITICAL)
            and at not in there
            and named.isdisjoint(others[at].forms)
        )
        found.append(one._replace(daemonset_pods=one.daemonset_pods + more))
    return tuple(found)


def _examples(snapshot: Snapshot, daemons: DaemonPods, limits: list[Limits], chosen: Int64) -> _Examples:
    if not (chosen >= 0).any():
        return _Examples(daemons, limits, {})
    is_example = np.zeros(len(snapshot.nodes.name), bool)
    is_example[chosen[chosen >= 0]] = True
    node = snapshot.pods.node
    by_node: dict[int, list[int]] = {}
    for pod in np.flatnonzero(
        take_or(is_example, node, False) & (daemons.static | (daemons.daemon_set != NONE))
    ).tolist():
        by_node.setdefault(int(node[pod]), []).append(pod)
    return _Examples(daemons, limits, by_node)


def _template(
    snapshot: Snapshot, settings: ScaleUpSettings, examples: _Examples, group: int, model: ModelNode
) -> GroupTemplate:
    """Return the template of a group, without DaemonSets that neither its template nor its node has."""
    node = model.node
    table, row = (snapshot.nodes, node) if node >= 0 else (snapshot.templates, snapshot.groups[group].template)
    given = template_of(snapshot, table, row)
    taints = lasting(given.taints, settings.readiness) if model.taints is None else model.taints
    traits = of_new_node(given.traits, examples.limits[group])
    found = given._replace(unschedulable=False, taints=taints, traits=traits)
    if model.left_out:
        found = found._replace(labels=tuple(pair for pair in found.labels if pair[0] not in model.left_out))
    capacity = amounts_of(snapshot, table.capacity[row])
    if node < 0:
        pods = tuple(VirtualPod(*pod) for pod in snapshot.groups[group].daemonset_pods)
        return GroupTemplate(found._replace(labels=_with_deprecated(found.labels)), pods, capacity)
    static = [snapshot.specs[snapshot.pods.spec[pod]] for pod in examples.static_on(node)]
    pods = tuple(_as_virtual(snapshot, pod) for _, pod in sorted(examples.daemon_sets_on(node).items()))
    return GroupTemplate(
        found._replace(allocatable=_without(found.allocatable, static)), pods, capacity, node, model.note
    )


def _without(amounts: Amounts, pods: Sequence[PodRequirements]) -> Amounts:
    """Return the amounts minus the requests of pods, and minus one pod each."""
    left = dict(amounts)
    for pod in pods:
        for name, amount in (*pod.requests, (PODS, 1)):
            if name in left:
                left[name] = max(left[name] - amount, 0)
    return tuple((name, amount) for name, amount in left.items() if amount)


def _with_deprecated(labels: Labels) -> Labels:
    """Return a template's labels, plus the deprecated ones that its nodes will have."""
    more = {_DEPRECATED_LABELS[key]: value for key, value in labels if key in _DEPRECATED_LABELS}
    return tuple(sorted((dict(labels) | more).items())) if more else labels


def _as_virtual(snapshot: Snapshot, pod: int) -> VirtualPod:
    pods = snapshot.pods
    namespace = snapshot.strings[pods.namespace[pod]]
    return VirtualPod(namespace, snapshot.specs[pods.spec[pod]], snapshot.labels_of(int(pods.label_set[pod])))


def _would_run(templates: Sequence[NodeTemplate], specs: Sequence[PodRequirements]) -> list[list[int]]:
    """Return for each template which DaemonSets (given by specs) run there, by selectors and taints."""
    labels = {one.labels: None for one in templates}
    taints = {one.taints: None for one in templates}
    place = {value: at for at, value in enumerate(labels)}, {value: at for at, value in enumerate(taints)}
    scheduling = scheduling_specs(tuple(specs), (NODE_REQUIREMENT, TOLERATIONS))
    requirements, tolerations = scheduling.parts[NODE_REQUIREMENT], scheduling.parts[TOLERATIONS]
    excluded = node_affinity.excluded(requirements.values, _node_rows(list(labels), requirements.values))
    bare = untolerated(tolerations.values, tuple(taints))
    kept_out_by_labels = excluded[requirements.of[scheduling.of]]
    kept_out_by_taints = bare[tolerations.of[scheduling.of]]
    of_labels, of_taints = (place[0][one.labels] for one in templates), (place[1][one.taints] for one in templates)
    kept_out = kept_out_by_labels[:, list(of_labels)] | kept_out_by_taints[:, list(of_taints)]
    template, daemon_set = np.nonzero(~kept_out.T)
    bounds = np.searchsorted(template, np.arange(1, len(templates)))
    return [some.tolist() for some in np.split(daemon_set, bounds)] if templates else []


def _node_rows(labels: Sequence[Labels], requirements: Sequence[NodeRequirement]) -> NodeRows:
    """Return label sets in the form for node requirements; no node has a name that could be requested."""
    looked_at = LookedAt()
    node_affinity.note_labels(requirements, NodeSignature(looked_at, set(), ()))
    strings, label_sets = label_sets_of(labels)
    rows = np.arange(len(labels), dtype=np.int32)
    matrix = label_matrix(strings, label_sets, rows, looked_at)
    return NodeRows(matrix, matrix.groups.of, ("",) * len(labels))
