"""Node groups that no plan by price needs, left out of a snapshot: another group that no pod can tell apart from it
costs no more and offers at least as much.

Decides which groups may be left out without a change of what the cheapest plan costs: those without nodes, minimum or
back-off. Two groups cannot be told apart if their templates have the same taints, attach limits and features, and the
same values of every label that a pod, a volume or a setting reads. Where a limit counts a resource, both must have the
same amount of it. A group without a price is never left out, nor does it replace another.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.kubernetes.signals import clouds, karpenter
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

ROOM: Final = 1000
"""A group that can grow by so many nodes has room for all that a plan adds."""
_ALWAYS_READ: Final = (karpenter.NODE_POOL.key, clouds.GKE_ACCELERATOR.key)


class _Template(NamedTuple):
    """A group that may be left out or replace others. place : its row; offers : int64[R] allocatable amounts, then the
    capacity of limited resources, negated too, so that only an equal one is at least as good.
    """

    place: int
    price: float
    offers: list[int]


def leave_out_dominated(snapshot: pb.ClusterSnapshot, settings: plan_pb2.PlanSettings) -> int:
    """Take such groups out of a snapshot, in place; return how many. O(groups * those that stay in each class)."""
    limited = [
        place
        for place, name in enumerate(snapshot.resources)
        if any(limit.resource == name for limit in settings.planner.limits)
    ]
    read = labels_read(snapshot, settings)
    labels = _LabelSetValues(snapshot, read)
    used = {node.node_group for node in snapshot.nodes}
    classes: dict[tuple[object, ...], list[_Template]] = defaultdict(list)
    for place, group in enumerate(snapshot.node_groups):
        if _is_comparable(group, used):
            template = group.template
            alike = (
                labels.of(template.label_set),
                tuple((one.key, one.value, one.effect) for one in template.taints),
                tuple((one.driver, one.count) for one in template.attach_limits),
                tuple(template.declared_features),
                template.volume_drivers.SerializeToString(deterministic=True),
                tuple(one.SerializeToString(deterministic=True) for one in template.daemonset_pods),
            )
            classes[alike].append(_Template(place, group.price_per_hour, _offered(template, limited, snapshot)))
    dropped = {place for members in classes.values() for place in _dominated(members)}
    if dropped:
        kept = [group for place, group in enumerate(snapshot.node_groups) if place not in dropped]
        del snapshot.node_groups[:]
        snapshot.node_groups.extend(kept)
    return len(dropped)


def _is_comparable(group: pb.NodeGroup, used: set[str]) -> bool:
    return (
        group.id not in used
        and group.HasField("template")
        and group.HasField("price_per_hour")
        and not (group.min_size or group.target_size or group.zero_or_max)
        and group.max_size >= ROOM
        and group.health in (pb.NodeGroupHealth.UNSPECIFIED, pb.NodeGroupHealth.HEALTHY)
    )


def _offered(template: pb.NodeTemplate, limited: Sequence[int], snapshot: pb.ClusterSnapshot) -> list[int]:
    count = len(snapshot.resources)
    allocatable = [*template.allocatable, *[0] * (count - len(template.allocatable))]
    capacity = [*(template.capacity or template.allocatable)]
    amounts = [capacity[place] if place < len(capacity) else 0 for place in limited]
    return [*allocatable, *amounts, *(-amount for amount in amounts)]


def _dominated(members: Sequence[_Template]) -> list[int]:
    """Return the places of the members that another one of the class replaces; of equal ones the first stays."""
    if len(members) < 2:
        return []
    offers = np.array([one.offers for one in members], np.int64)
    prices = np.array([one.price for one in members])
    # A member can only be replaced by one that costs no more, and at the same price by one that offers more.
    totals = offers.astype(np.float64).sum(axis=1)
    order = np.lexsort((np.arange(len(members)), -totals, prices))
    kept: NDArray[np.int64] = np.empty_like(offers)
    count, dropped = 0, []
    for row in order.tolist():
        if count and bool((kept[:count] >= offers[row]).all(axis=1).any()):
            dropped.append(members[row].place)
        else:
            kept[count] = offers[row]
            count += 1
    return dropped


class _LabelSetValues:
    """The values of some labels in label sets."""

    def __init__(self, snapshot: pb.ClusterSnapshot, read: frozenset[int]) -> None:
        sets = snapshot.label_sets
        self._offsets = np.frombuffer(sets.offsets, "<i4").tolist()
        self._keys = np.frombuffer(sets.keys, "<i4").tolist()
        self._values = np.frombuffer(sets.values, "<i4").tolist()
        self._read = read

    def of(self, label_set: int) -> tuple[tuple[int, int], ...]:
        """Return the (key, value) pairs that count, as string indices."""
        if not self._offsets:
            return ()
        inside = range(self._offsets[label_set], self._offsets[label_set + 1])
        return tuple((self._keys[i], self._values[i]) for i in inside if self._keys[i] in self._read)


def labels_read(snapshot: pb.ClusterSnapshot, settings: plan_pb2.PlanSettings) -> frozenset[int]:
    """Return the keys of the labels that something reads, as string indices."""
    found = {key for spec in snapshot.pod_specs for key in _keys_of(spec)}
    for volume in snapshot.volumes:
        found.update(_selector_keys(volume.node_affinity))
        found.update(pair.key for pair in volume.zone_labels)
    named = {*_ALWAYS_READ, *settings.planner.balance.compared_labels}
    selectors = [*(one.nodes for one in settings.planner.limits), *(one.nodes for one in settings.slack.pools)]
    for selector in selectors:
        named.update(selector.match_labels)
        named.update(one.key for one in selector.match_expressions)
    found.update(place for place, text in enumerate(snapshot.strings) if text in named)
    return frozenset(found)


def _keys_of(spec: pb.PodSpec) -> Iterable[int]:
    yield from (pair.key for pair in spec.node_selector)
    yield from _selector_keys(spec.node_affinity)
    yield from (one.topology_key for one in (*spec.pod_affinity, *spec.pod_anti_affinity))
    yield from (one.term.topology_key for one in spec.preferred_pod_anti_affinity)
    yield from (one.topology_key for one in spec.topology_spread)


def _selector_keys(selector: pb.NodeSelector) -> Iterable[int]:
    return (one.key for term in selector.terms for one in term.match_expressions)
