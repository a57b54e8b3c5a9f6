"""The template of a new node of each node group, and the DaemonSet pods that run on it from the start. Taken from the
group's template or from one of its nodes (`model_nodes`), without what is specific to that node: its name, its startup,
condition and autoscaler taints, and its pods. A DaemonSet pod is included if the template or the node has it; other
DaemonSets that would run there, whether they have pods elsewhere or none yet, are added if the template names no pods
at all, if the settings require it, or if their pods preempt others. Requests of static pods are subtracted from the
node's amounts.
Source: Cluster Autoscaler, node_info_utils.go, MixedTemplateNodeInfoProvider, daemonset.GetDaemonSetPodsForNode.

The node on which new nodes of a group are modelled, if its template does not say what they have.

It is the smallest of the nodes that have what the healthy nodes of the group have in common; the first by name of equal
ones. Healthy is a node that is ready, stays, is not cordoned and has been ready for a while. In common is

- a resource that at least half of them offer,
- a label key that at least half of them have,
- a taint that all of them have: one that only some have was put there by people or by a controller.

If the newest two agree on a resource or a taint that this excludes, it counts as well: the group's kind has changed,
and a growth by the old kind would bring no node on which its pods fit, again and again.
Source: Cluster Autoscaler, MixedTemplateNodeInfoProvider, which takes the first healthy node that it comes across.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.common.kubernetes.signals.cluster_autoscaler import TO_BE_DELETED
from trimtab.planner.classes.label_columns import LookedAt, label_matrix
from trimtab.planner.classes.node_classes import NodeRows, NodeSignature
from trimtab.planner.classes.scheduling_specs import NODE_REQUIREMENT, TOLERATIONS, NodeRequirement, scheduling_specs
from trimtab.planner.facts.labels import label_sets_of
from trimtab.planner.facts.nodes import Limits, limits_by_group, of_new_node
from trimtab.planner.facts.pods import SYSTEM_NODE_CRITICAL, DaemonPods, daemon_pods
from trimtab.planner.facts.readiness import is_ready, lasting, upcoming
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.settings import SECOND_NS, ScaleUpSettings
from trimtab.planner.model.tuning import SAME_SIZE_RATIO
from trimtab.planner.model.values import PodRequirements, TaintSpec
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
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey, depend_on_everything
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int64, NodeColumns, Snapshot
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.planner.snapshot.references import NONE, take_or

STABLE_NS: Final = 60 * SECOND_NS
"""How long a node must be ready before it serves as a model for others."""
FROM_TEMPLATE: Final = NO_NODE
NOTHING: Final = -2
_NEWEST: Final = 2


class ModelNode(NamedTuple):
    """node : row of the snapshot, FROM_TEMPLATE or NOTHING; taints : those in common, None = the node's own; left_out :
    label keys that new nodes do not have; note : what people should know of the choice."""

    node: int
    taints: tuple[TaintSpec, ...] | None = None
    left_out: frozenset[str] = frozenset()
    note: str = ""


def model_nodes(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool, now_ns: int) -> list[ModelNode]:
    """Return the model of each group. leaving : bool[N], nodes that are being deleted. O(N · resources)."""
    nodes, count = snapshot.nodes, len(snapshot.groups)
    healthy = is_ready(snapshot, settings.readiness, now_ns) & ~nodes.unschedulable & ~leaving
    marked = [any(taint.key == TO_BE_DELETED.key for taint in taints) for taints in nodes.taint_sets]
    healthy &= ~np.array([*marked, False], bool)[nodes.taint_set]
    healthy &= (nodes.ready_ns == 0) | (now_ns - nodes.ready_ns > STABLE_NS)
    first, any_node = _first_by_group(nodes, healthy, count), _first_by_group(nodes, ~leaving, count)
    any_node = np.where(any_node == NOTHING, _first_by_group(nodes, np.ones(len(healthy), bool), count), any_node)
    has_template = np.array([group.template >= 0 for group in snapshot.groups], bool)
    if settings.prefer_template:
        chosen = np.where(has_template, FROM_TEMPLATE, np.where(first == NOTHING, any_node, first))
    else:
        chosen = np.where(first != NOTHING, first, np.where(has_template, FROM_TEMPLATE, any_node))
    models = [ModelNode(node) for node in chosen.tolist()]
    for group in np.flatnonzero((chosen >= 0) & (chosen == first) & _is_mixed(snapshot, healthy, first)).tolist():
        members = np.flatnonzero(healthy & (nodes.group == group))
        models[group] = _HealthyNodes(snapshot, members, settings).model(snapshot.groups[group].id)
    return models


def _first_by_group(nodes: NodeColumns, wanted: Bool, count: int) -> Int64:
    first = np.full(count, NOTHING, np.int64)
    rows = np.flatnonzero(wanted & (nodes.group >= 0))[::-1]
    first[nodes.group[rows]] = rows
    return first


def _is_mixed(snapshot: Snapshot, healthy: Bool, first: Int64) -> Bool:
    """Return which groups have healthy nodes that differ from the first one in amounts, taints or number of labels.
    bool[G]."""
    nodes, labels = snapshot.nodes, np.diff(snapshot.label_sets.offsets)
    rows = np.flatnonzero(healthy & (nodes.group >= 0))
    like = first[nodes.group[rows]]
    differs = (nodes.allocatable[rows] != nodes.allocatable[like]).any(axis=1)
    differs |= nodes.taint_set[rows] != nodes.taint_set[like]
    differs |= labels[nodes.label_set[rows]] != labels[nodes.label_set[like]]
    mixed = np.zeros(len(first), bool)
    mixed[nodes.group[rows[differs]]] = True
    return mixed


class _HealthyNodes:
    """The healthy nodes of one group. members : int64[M] rows, by name."""

    def __init__(self, snapshot: Snapshot, members: Int64, settings: ScaleUpSettings) -> None:
        self._snapshot, self._members, self._rules = snapshot, members, settings.readiness
        created = snapshot.nodes.created_ns[members]
        newest = np.argsort(created, kind="stable")[-_NEWEST:]
        is_new = len(members) > _NEWEST and created[newest].min() > 0
        self._newest = members[newest] if is_new else members[:0]

    def model(self, group: str) -> ModelNode:
        """Return the model of the group with this id."""
        nodes, members = self._snapshot.nodes, self._members
        offered = nodes.allocatable[members] > 0
        has = 2 * offered.sum(axis=0) >= len(members)
        newest = nodes.allocatable[self._newest] > 0
        changed = (newest.any(axis=0) == newest.all(axis=0)) & (newest.all(axis=0) != has) & bool(len(newest))
        unlike = (offered != np.where(changed, ~has, has)).sum(axis=1)
        like = members[unlike == unlike.min()]
        size = nodes.allocatable[like][:, [CPU, MEMORY]]
        node = int(like[np.lexsort((size[:, 1], size[:, 0]))[0]])
        taints, notes = self._taints(node)
        for at in np.flatnonzero(changed).tolist():
            came = "without" if has[at] else "with"
            name = self._snapshot.resources[at]
            notes.append(f"its newest nodes came {came} {name}, so new ones are planned the same way")
        if (size.max(axis=0) > SAME_SIZE_RATIO * size.min(axis=0)).any():
            notes.append(f"its nodes differ in size; new ones are planned as small as {nodes.name[node]}")
        note = f"node group {group}: {'; '.join(notes)}" if notes else ""
        return ModelNode(node, taints, self._rare_labels(node), note)

    def _taints(self, node: int) -> tuple[tuple[TaintSpec, ...], list[str]]:
        """Return the taints in common, and notes on others. node : the model, whose order of taints is kept."""
        nodes = self._snapshot.nodes

        def of(rows: Int64) -> list[frozenset[TaintSpec]]:
            return [frozenset(lasting(nodes.taint_sets[at], self._rules)) for at in nodes.taint_set[rows].tolist()]

        each, newest = of(self._members), of(self._newest)
        common = frozenset.intersection(*each)
        new = frozenset.intersection(*newest) - common if newest else frozenset[TaintSpec]()
        some = sorted({taint.key for taint in frozenset.union(*each) - common - new})
        own = [
            taint for taint in lasting(nodes.taint_sets[nodes.taint_set[node]], self._rules) if taint in common | new
        ]
        notes = [f"only some of its nodes have the taint {key}, so new ones are planned without" for key in some]
        added = sorted({taint.key for taint in new})
        notes += [f"its newest nodes came with the taint {key}, and so do planned ones" for key in added]
        return (*own, *sorted(new.difference(own))), notes

    def _rare_labels(self, node: int) -> frozenset[str]:
        """Return the label keys of a node that fewer than half of the nodes have."""
        snapshot = self._snapshot
        count = Counter(
            key for row in self._members for key, _ in snapshot.labels_of(int(snapshot.nodes.label_set[row]))
        )
        own = snapshot.labels_of(int(snapshot.nodes.label_set[node]))
        return frozenset(key for key, _ in own if 2 * count[key] < len(self._members))


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
        if any(model.node >= 0 for model in models):
            # The pods of examples are among `daemons`.
            depend_on_everything(view)
        chosen = np.array([model.node for model in models], np.int64)
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
    return tuple(dict(template.template.labels) if template is not None else {} for template in templates)


def _key(settings: ScaleUpSettings, models: Sequence[ModelNode]) -> str:
    rules = settings.readiness
    taints = [(sorted(rule.keys), rule.prefixes) for rule in (rules.startup, rules.status)]
    mixed = [(model.node, model.taints, sorted(model.left_out)) for model in models if model.taints is not None]
    nodes = np.array([model.node for model in models], np.int64)
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
    present = [template for template in templates if template is not None]
    limits.reserve(_BYTES_OF_PAIR * len(present) * len(others), "node groups times DaemonSets")
    would_run = iter(_would_run([template.template for template in present], [other.pod.spec for other in others]))
    results: list[GroupTemplate | None] = []
    for group, template in zip(snapshot.groups, templates, strict=True):
        if template is None:
            results.append(None)
            continue
        limits.check()
        there, requested = examples.daemon_sets_on(template.node), set(template.daemonset_pods)
        all_of_them = settings.force_daemonsets or (template.node < 0 and not group.daemonset_pods)
        more = tuple(
            others[at].pod
            for at in next(would_run)
            if (all_of_them or others[at].pod.spec.priority >= SYSTEM_NODE_CRITICAL)
            and at not in there
            and requested.isdisjoint(others[at].forms)
        )
        results.append(template._replace(daemonset_pods=template.daemonset_pods + more))
    return tuple(results)


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
    template = template_of(snapshot, table, row)
    taints = lasting(template.taints, settings.readiness) if model.taints is None else model.taints
    traits = of_new_node(template.traits, examples.limits[group])
    result = template._replace(unschedulable=False, taints=taints, traits=traits)
    if model.left_out:
        result = result._replace(labels=tuple(pair for pair in result.labels if pair[0] not in model.left_out))
    capacity = amounts_of(snapshot, table.capacity[row])
    if node < 0:
        pods = tuple(VirtualPod(*pod) for pod in snapshot.groups[group].daemonset_pods)
        labels = dict(result.labels)
        # Its nodes will have the deprecated ones, too.
        labels |= {_DEPRECATED_LABELS[key]: value for key, value in result.labels if key in _DEPRECATED_LABELS}
        return GroupTemplate(result._replace(labels=tuple(sorted(labels.items()))), pods, capacity)
    static = [snapshot.specs[snapshot.pods.spec[pod]] for pod in examples.static_on(node)]
    pods = tuple(_as_virtual(snapshot, pod) for _, pod in sorted(examples.daemon_sets_on(node).items()))
    return GroupTemplate(
        result._replace(allocatable=_without(result.allocatable, static)), pods, capacity, node, model.note
    )


def _without(amounts: Amounts, pods: Sequence[PodRequirements]) -> Amounts:
    """Return the amounts minus the requests of pods, and minus one pod each."""
    rest = dict(amounts)
    for pod in pods:
        for name, amount in (*pod.requests, (PODS, 1)):
            if name in rest:
                rest[name] = max(rest[name] - amount, 0)
    return tuple((name, amount) for name, amount in rest.items() if amount)


def _as_virtual(snapshot: Snapshot, pod: int) -> VirtualPod:
    pods = snapshot.pods
    namespace = snapshot.strings[pods.namespace[pod]]
    return VirtualPod(namespace, snapshot.specs[pods.spec[pod]], snapshot.labels_of(int(pods.label_set[pod])))


def _would_run(templates: Sequence[NodeTemplate], specs: Sequence[PodRequirements]) -> list[list[int]]:
    """Return for each template which DaemonSets (given by specs) run there, by selectors and taints."""
    labels = {node_template.labels: None for node_template in templates}
    taints = {node_template.taints: None for node_template in templates}
    place = {value: at for at, value in enumerate(labels)}, {value: at for at, value in enumerate(taints)}
    scheduling = scheduling_specs(tuple(specs), (NODE_REQUIREMENT, TOLERATIONS))
    requirements, tolerations = scheduling.parts[NODE_REQUIREMENT], scheduling.parts[TOLERATIONS]
    excluded = node_affinity.excluded(requirements.values, _node_rows(list(labels), requirements.values))
    bare = untolerated(tolerations.values, tuple(taints))
    kept_out_by_labels = excluded[requirements.of[scheduling.of]]
    kept_out_by_taints = bare[tolerations.of[scheduling.of]]
    of_labels, of_taints = (
        (place[0][node_template.labels] for node_template in templates),
        (place[1][node_template.taints] for node_template in templates),
    )
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
