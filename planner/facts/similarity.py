"""Which node groups are similar, by a node of each. The single definition for scale-up and scale-down: the same
capacity of each resource, memory within a ratio; the same resources, allocatable and free, each within a ratio; the
same labels and taints. Labels for location and provider do not count, nor those named in a setting. Alternatively,
settings may name the labels to compare. Groups in one node pool of Azure are similar whatever their nodes. The caller
chooses which properties of nodes are compared.
Source: Cluster Autoscaler, nodegroupset, IsCloudProviderNodeInfoSimilar with the labels of all its providers.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import clouds, well_known
from trimtab.planner.facts.labels import codes_by_label_set
from trimtab.planner.facts.readiness import lasting
from trimtab.planner.model.settings import Readiness, SimilaritySettings
from trimtab.planner.model.values import TaintSpec
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.references import take_or

ZONE_LABEL: Final = well_known.ZONE.key
PLACE_LABELS: Final = frozenset(
    {
        ZONE_LABEL,
        well_known.REGION.key,
        well_known.HOSTNAME.key,
        well_known.OLD_ZONE.key,
        well_known.OLD_REGION.key,
    }
)
_POOL_LABELS: Final = (clouds.AZURE_POOL.key, clouds.AZURE_OLD_POOL.key)
PROVIDER_LABELS: Final = frozenset(
    {
        *_POOL_LABELS,
        clouds.AZURE_ENGINE.key,
        clouds.EKSCTL_INSTANCE.key,
        clouds.EKSCTL_GROUP.key,
        well_known.FLUENTD_READY.key,
        clouds.AZURE_SOURCE.key,
        clouds.EKS_NODE_GROUP.key,
        clouds.ENI_CONFIG.key,
        clouds.KOPS_GROUP.key,
        clouds.AZURE_PROPERTIES.key,
        clouds.AZURE_IMAGE.key,
        clouds.LIFECYCLE.key,
        clouds.AZURE_POOL_NAME.key,
        clouds.AZURE_SUFFIX.key,
        clouds.AZURE_DISK_ZONE.key,
        clouds.AWS_EBS_ZONE.key,
        clouds.GKE_ZONE.key,
        clouds.AWS_ZONE_ID.key,
    }
)
"""Labels of providers that differ between groups of equal nodes."""
_MEMORY: Final = "memory"

Amounts = Iterable[tuple[str, int]]


class NodeShape(NamedTuple):
    """The compared properties of a group's node. capacity, allocatable, free : amounts by resource name, without the 0
    of resources that the node lacks; labels : (key, value) pairs; taints : all; ignored : labels that need not be the
    same.
    """

    capacity: Amounts
    allocatable: Amounts
    free: Amounts
    labels: Iterable[tuple[str, str]]
    taints: Iterable[TaintSpec] = ()
    ignored: frozenset[str] = PLACE_LABELS | PROVIDER_LABELS


class Sample(NamedTuple):
    """Properties that must be equal, and amounts that may differ. same : anything comparable and hashable; pools : of
    `_POOL_LABELS`, "" = none; memory : capacity, bytes; allocatable, free : in the order of the resources in `same`.
    """

    same: tuple[object, ...]
    pools: tuple[str, ...] = ()
    memory: int = 0
    allocatable: tuple[int, ...] = ()
    free: tuple[int, ...] = ()


def sample(shape: NodeShape, settings: SimilaritySettings) -> Sample | None:
    """Return the sample of a node; None = it lacks a label to compare, and is similar to none."""
    return samples([shape], settings)[0]


def samples(shapes: Iterable[NodeShape | None], settings: SimilaritySettings) -> list[Sample | None]:
    """Return the sample of each node; None for None. About 10 us each."""
    if settings.compared_labels:
        keys = settings.compared_labels
        values = [tuple(map(dict(shape.labels).get, keys)) if shape else (None,) for shape in shapes]
        return [None if None in own else Sample(own) for own in values]
    shared: dict[tuple[object, ...], _Labels] = {}
    return [_all_there_is(shape, settings, shared) if shape else None for shape in shapes]


_Labels = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]
"""Compared labels, and pools."""


def _all_there_is(shape: NodeShape, settings: SimilaritySettings, shared: dict[tuple[object, ...], _Labels]) -> Sample:
    """Return the sample of a node. shared : labels seen before; most groups share theirs."""
    key = (tuple(shape.labels), shape.ignored)
    counted = shared.get(key)
    if counted is None:
        labels, ignored = dict(shape.labels), shape.ignored | settings.ignored_labels
        pools = tuple(labels.get(pool_label, "") for pool_label in _POOL_LABELS)
        compared = tuple(sorted(pair for pair in labels.items() if pair[0] not in ignored))
        counted = shared[key] = compared, pools if any(pools) else ()
    capacity, allocatable, free = sorted(shape.capacity), sorted(shape.allocatable), sorted(shape.free)
    return Sample(
        same=(
            tuple(pair for pair in capacity if pair[0] != _MEMORY),
            tuple(name for name, _ in allocatable),
            tuple(name for name, _ in free),
            counted[0],
            tuple(sorted(shape.taints)),
        ),
        pools=counted[1],
        memory=dict(capacity).get(_MEMORY, 0),
        allocatable=tuple(amount for _, amount in allocatable),
        free=tuple(amount for _, amount in free),
    )


class Similarity:
    """Node groups compared with each other.

    samples : returns one for each group, None = similar to none; called on first use.
    """

    def __init__(self, samples: Callable[[], Sequence[Sample | None]], settings: SimilaritySettings) -> None:
        self._describe = samples
        self._settings = settings
        self._similar: dict[int, Int64] = {}

    @cached_property
    def _samples(self) -> Sequence[Sample | None]:
        return self._describe()

    @cached_property
    def _rows(self) -> dict[object, list[int]]:
        rows: dict[object, list[int]] = {}
        for row, sample in enumerate(self._samples):
            for key in _keys(sample):
                rows.setdefault(key, []).append(row)
        return rows

    def to(self, group: int) -> Int64:
        """Return the rows of the groups that are similar to one, ascending, without itself. int64."""
        similar = self._similar.get(group)
        if similar is None:
            candidates = sorted({row for key in _keys(self._samples[group]) for row in self._rows[key]} - {group})
            similar = np.array([row for row in candidates if self._are_similar(row, group)], np.int64)
            self._similar[group] = similar
        return similar

    @cached_property
    def kinds(self) -> Int32:
        """The kind of each group, -1 = similar to none. int32[G].

        A group has the first kind to whose first group it is similar. So if ratios make A similar to B and B to C, but
        not A to C, then A and B have one kind and C another.
        """
        kinds = np.full(len(self._samples), -1, np.int32)
        first: list[int] = []
        of_key: dict[object, list[int]] = {}
        for row, sample in enumerate(self._samples):
            if sample is None:
                continue
            kinds_alike = sorted({kind for key in _keys(sample) for kind in of_key.get(key, ())})
            kinds[row] = next((kind for kind in kinds_alike if self._are_similar(first[kind], row)), len(first))
            if kinds[row] == len(first):
                first.append(row)
                for key in _keys(sample):
                    of_key.setdefault(key, []).append(int(kinds[row]))
        return kinds

    def difference(self, group: int, other: int) -> str:
        """Return in one clause what keeps two groups from being similar, "" = they are."""
        sample, its = self._samples[group], self._samples[other]
        if sample is None or its is None:
            return "a label to compare is missing, there is no template, or a group grows as a whole"
        return "" if are_similar(sample, its, self._settings) else _difference(sample, its, self._settings)

    def _are_similar(self, row: int, other: int) -> bool:
        sample, its = self._samples[row], self._samples[other]
        return sample is not None and its is not None and are_similar(sample, its, self._settings)


def are_similar(sample: Sample, other: Sample, ratios: SimilaritySettings) -> bool:
    """Return whether two nodes are similar."""
    if any(mine and mine == its for mine, its in zip(sample.pools, other.pools, strict=False)):
        return True
    return (
        sample.same == other.same
        and _within(sample.memory, other.memory, ratios.memory_ratio)
        and _all_within(sample.allocatable, other.allocatable, ratios.allocatable_ratio)
        and _all_within(sample.free, other.free, ratios.free_ratio)
    )


def _difference(sample: Sample, other: Sample, ratios: SimilaritySettings) -> str:
    if len(sample.same) != len(_PARTS):
        return "the labels to compare differ"
    for name, mine, its in zip(_PARTS, sample.same, other.same, strict=True):
        if mine != its and (differing := sorted({str(part[0]) for part in _pairs(mine) ^ _pairs(its)})):
            return f"{name} {', '.join(differing[:3])} {'differ' if len(differing) > 1 else 'differs'}"
    amounts = (
        ("capacity", (_MEMORY,), (sample.memory,), (other.memory,), ratios.memory_ratio),
        ("allocatable", sample.same[1], sample.allocatable, other.allocatable, ratios.allocatable_ratio),
        ("free", sample.same[2], sample.free, other.free, ratios.free_ratio),
    )
    for name, resources, mine_, its_, ratio in amounts:
        for resource, amount, its_amount in zip(resources, mine_, its_, strict=True):  # type: ignore[call-overload]
            if not _within(amount, its_amount, ratio):
                more = " after DaemonSets" if name == "free" else ""
                return f"{name} {resource}{more} differs by more than {100 * ratio:g} %"
    return "they differ"


_PARTS: Final = ("capacity", "allocatable", "free", "label", "taint")
"""What `Sample.same` holds of a whole node."""


def _pairs(part: object) -> set[tuple[object, ...]]:
    """Return the parts as tuples that begin with their names."""
    return {entry if isinstance(entry, tuple) else (entry,) for entry in part}  # type: ignore[attr-defined]


def _keys(sample: Sample | None) -> list[object]:
    """Return keys such that similar samples share at least one."""
    return [sample.same, *((at, pool) for at, pool in enumerate(sample.pools) if pool)] if sample else []


def _all_within(some: Sequence[int], others: Sequence[int], ratio: float) -> bool:
    return all(_within(amount, other, ratio) for amount, other in zip(some, others, strict=True))


def _within(amount: int, other: int, ratio: float) -> bool:
    return abs(amount - other) <= max(amount, other) * ratio


_NO_NAMES: Final = Readiness()


class Parts(NamedTuple):
    """The parts of a cluster that balanced scale-down keeps even: similar node groups, and the zones of their nodes;
    over the nodes that are not being deleted.

    group, zone : int32[N] part of each node, -1 = none; a zone within one kind of groups is a part; group_kind :
    int32[G], zone_kind : int32[Z] similar parts have the same kind, -1 = none; group_size : int64[G], zone_size :
    int64[Z] nodes of each part.
    """

    group: Int32
    zone: Int32
    group_kind: Int32
    zone_kind: Int32
    group_size: Int64
    zone_size: Int64


def divide(snapshot: Snapshot, leaving: Bool, settings: SimilaritySettings) -> Parts:
    """Return the parts. leaving : bool[N], nodes that are being deleted. O(N + S + G).

    A group is represented by its first node, by capacity, allocatable amounts, lasting taints and those labels that
    some pod selects nodes by, including labels of providers. All-or-nothing groups are left out.
    """
    count = len(snapshot.groups)
    row = snapshot.nodes.group
    whole = np.array([group.zero_or_max for group in snapshot.groups], bool)
    group = np.where(leaving | take_or(whole, row, True), -1, row).astype(np.int32)
    group_kind = _kinds(snapshot, group, settings)
    kind = take_or(group_kind, group, -1)
    zone_of = codes_by_label_set(snapshot, ZONE_LABEL)[snapshot.nodes.label_set]
    in_zone = np.flatnonzero((kind >= 0) & (zone_of >= 0))
    zone = np.full(len(row), -1, np.int32)
    pairs, of = np.unique(np.stack([kind[in_zone], zone_of[in_zone]]), axis=1, return_inverse=True)
    zone[in_zone] = of.reshape(-1)
    return Parts(
        group=group,
        zone=zone,
        group_kind=group_kind,
        zone_kind=pairs[0].astype(np.int32),
        group_size=np.bincount(group[group >= 0], minlength=count).astype(np.int64),
        zone_size=np.bincount(zone[in_zone], minlength=pairs.shape[1]).astype(np.int64),
    )


def _kinds(snapshot: Snapshot, group: Int32, settings: SimilaritySettings) -> Int32:
    """Return the kind of each group, -1 for those without nodes. int32[G]; kinds are numbered by their first group."""
    shapes: list[NodeShape | None] = [None] * len(snapshot.groups)
    wanted = set(settings.compared_labels) or _selected_keys(snapshot)
    for row, node in zip(*(column.tolist() for column in np.unique(group, return_index=True)), strict=True):
        if row >= 0:
            shapes[row] = _shape(snapshot, node, wanted)
    return Similarity(lambda: samples(shapes, settings), settings).kinds


def _selected_keys(snapshot: Snapshot) -> set[str]:
    """Return the labels by which some pod selects nodes."""
    keys = {key for spec in snapshot.specs for key, _ in spec.node_selector}
    for spec in snapshot.specs:
        for term in spec.node_affinity or ():
            keys |= {requirement.key for requirement in term.match_expressions}
    return keys


def _shape(snapshot: Snapshot, node: int, wanted: set[str]) -> NodeShape:
    nodes = snapshot.nodes
    labels = snapshot.labels_of(int(nodes.label_set[node])) if len(snapshot.label_sets.offsets) > 1 else ()
    return NodeShape(
        capacity=_amounts(snapshot, nodes.capacity[node]),
        allocatable=_amounts(snapshot, nodes.allocatable[node]),
        free=(),
        labels=[(key, value) for key, value in labels if key in wanted],
        taints=lasting(nodes.taint_sets[nodes.taint_set[node]], _NO_NAMES),
        ignored=PLACE_LABELS,
    )


def _amounts(snapshot: Snapshot, row: Int64) -> list[tuple[str, int]]:
    return [(snapshot.resources[at], int(row[at])) for at in np.flatnonzero(row).tolist()]
