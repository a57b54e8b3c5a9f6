"""Which node groups are similar for scale-up, judged by a new node of each.

A new node's DaemonSet pods and static pods are subtracted from its free amounts. Taints do not count: only a group on
which every pod of a choice fits shares its nodes. Groups without template, and all-or-nothing groups, are similar to
none.
Source: Cluster Autoscaler, FindSimilarNodeGroups, ComputeSimilarNodeGroups.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from trimtab.planner.facts.similarity import NodeShape, Similarity, samples
from trimtab.planner.model.settings import SimilaritySettings
from trimtab.planner.predicates.resources import PODS
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.columns import NO_NODE, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import FIRST_RESOURCES

Amounts = Iterable[tuple[str, int]]


def similar_groups(
    snapshot: Snapshot, templates: Sequence[GroupTemplate | None], settings: SimilaritySettings
) -> Similarity:
    """Return which groups are similar. O(groups · labels) on first use."""

    def shapes() -> Iterator[NodeShape | None]:
        for group, template in zip(snapshot.groups, templates, strict=True):
            yield _shape(snapshot, template) if template is not None and not group.zero_or_max else None

    return Similarity(lambda: samples(shapes(), settings), settings)


def _shape(snapshot: Snapshot, template: GroupTemplate) -> NodeShape:
    return NodeShape(
        capacity=template.capacity,
        allocatable=list(_allocatable(snapshot, template)),
        free=list(_free(template)),
        labels=template.template.labels,
    )


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
