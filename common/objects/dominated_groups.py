"""Node groups that no plan by price needs, left out of a snapshot: another group that no pod can tell apart from it
costs no more and offers at least as much.

Decides which groups may be left out without a change of what the cheapest plan costs: those without nodes, minimum or
back-off. Two groups cannot be told apart if everything is the same that may decide where a pod fits, whatever that is:

- all fields of the group, of its template and of its declared devices, except those of `IRRELEVANT`. A field that the
  contract gains is compared until somebody lists it there.
- of the labels, those whose keys occur anywhere in the snapshot or the settings but in label sets and in what describes
  nodes (`DESCRIBING`), as whoever reads a label names its key; and those that planners read by themselves
  (`ALWAYS_READ`), or under another name (`ALIASES`).

Equal texts may have several indices in a snapshot, so texts are compared, and indices where they only can say that two
groups are the same. Where a limit counts a resource, both must have the same amount of it. A group without a price is
never left out, nor does it replace another; nor is any where an expander looks at more than prices.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from numpy.typing import NDArray

from trimtab.common.deltas.renumbering import STRING_FIELDS
from trimtab.common.kubernetes.signals import cluster_autoscaler, karpenter, well_known
from trimtab.common.kubernetes.signals.clouds import GKE_ACCELERATOR
from trimtab.common.kubernetes.signals.table import SPOT_LABELS
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

ROOM: Final = 1000
"""A group that can grow by so many nodes has room for all that a plan adds."""
IRRELEVANT: Final = {
    "NodeGroup": ("id", "max_size", "price_per_hour", "template"),
    "NodeTemplate": ("label_set", "allocatable", "capacity"),
    "TemplateSlices": ("node_group",),
}
"""Fields that are not compared for equality: names, and what is compared in another way."""
DESCRIBING: Final = frozenset(("strings", "resources", "label_sets", "namespaces", "nodes", "node_groups"))
"""Tables of the snapshot that describe nodes and labels, and read none of these."""
ALWAYS_READ: Final = frozenset(
    (karpenter.NODE_POOL.key, GKE_ACCELERATOR.key, cluster_autoscaler.SCALING_PRIORITY.key, *SPOT_LABELS)
)
"""Labels of nodes that planners read whatever the snapshot says."""
ALIASES: Final = (
    (well_known.ZONE.key, well_known.OLD_ZONE.key),
    (well_known.REGION.key, well_known.OLD_REGION.key),
    (well_known.INSTANCE_TYPE.key, well_known.OLD_INSTANCE_TYPE.key),
)
"""Labels of which who reads one may be given the other."""
_BY_PRICE: Final = (
    plan_pb2.Expander.UNSPECIFIED,
    plan_pb2.Expander.PRICE,
    plan_pb2.Expander.CHEAPEST_PLAN,
    plan_pb2.Expander.RANDOM,
)


class _Template(NamedTuple):
    """A group that may be left out or replace others. place : its row; offers : int64[R] allocatable amounts, then the
    capacity of limited resources, negated too, so that only an equal one is at least as good.
    """

    place: int
    price: float
    offers: list[int]


def leave_out_dominated(snapshot: pb.ClusterSnapshot, settings: plan_pb2.PlanSettings) -> int:
    """Take such groups out of a snapshot, in place; return how many. O(groups * those that stay in each class)."""
    if any(expander not in _BY_PRICE for expander in settings.scale_up.expanders):
        return 0
    limited = [
        place
        for place, name in enumerate(snapshot.resources)
        if any(limit.resource == name for limit in settings.planner.limits)
    ]
    labels = _LabelSetTexts(snapshot, labels_read(snapshot, settings))
    used = {node.node_group for node in snapshot.nodes}
    used.update(settings.node_groups, _texts(snapshot.actuation_status, None))
    declared = {one.node_group: _rest(one) for one in snapshot.devices.templates}
    classes: dict[tuple[object, ...], list[_Template]] = defaultdict(list)
    for place, group in enumerate(snapshot.node_groups):
        if _is_comparable(group, used):
            template = group.template
            alike = _rest(group), _rest(template), labels.of(template.label_set), declared.get(group.id)
            classes[alike].append(_Template(place, group.price_per_hour, _offered(template, limited, snapshot)))
    dropped = {place for members in classes.values() for place in _dominated(members)}
    if dropped:
        kept = [group for place, group in enumerate(snapshot.node_groups) if place not in dropped]
        del snapshot.node_groups[:]
        snapshot.node_groups.extend(kept)
    return len(dropped)


def _rest(message: Message) -> bytes:
    """Return a message without the fields that are irrelevant, as bytes."""
    copy = type(message)()
    copy.CopyFrom(message)
    for name in IRRELEVANT[message.DESCRIPTOR.name]:
        copy.ClearField(name)
    return copy.SerializeToString(deterministic=True)


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
    offers = np.array([member.offers for member in members], np.int64)
    prices = np.array([member.price for member in members])
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


class _LabelSetTexts:
    """The values of some labels in label sets."""

    def __init__(self, snapshot: pb.ClusterSnapshot, read: frozenset[str]) -> None:
        sets = snapshot.label_sets
        self._offsets = np.frombuffer(sets.offsets, "<i4").tolist()
        self._keys = np.frombuffer(sets.keys, "<i4").tolist()
        self._values = np.frombuffer(sets.values, "<i4").tolist()
        self._texts, self._read = snapshot.strings, read
        self._known: dict[int, tuple[tuple[str, str], ...]] = {}

    def of(self, label_set: int) -> tuple[tuple[str, str], ...]:
        """Return the labels that count, by key."""
        if not self._offsets:
            return ()
        if label_set not in self._known:
            inside = range(self._offsets[label_set], self._offsets[label_set + 1])
            pairs = ((self._texts[self._keys[at]], self._texts[self._values[at]]) for at in inside)
            self._known[label_set] = tuple(sorted(pair for pair in pairs if pair[0] in self._read))
        return self._known[label_set]


def labels_read(snapshot: pb.ClusterSnapshot, settings: plan_pb2.PlanSettings) -> frozenset[str]:
    """Return the texts that may be keys of labels which something reads."""
    found = {*ALWAYS_READ, *_texts(settings, None)}
    for field, value in snapshot.ListFields():
        if field.name not in DESCRIBING and field.message_type is not None:
            # Of a message with a dictionary of its own, all texts count.
            own = "strings" in field.message_type.fields_by_name or "dictionary" in field.message_type.fields_by_name
            strings = None if own else snapshot.strings
            for one in value if field.is_repeated else (value,):
                found.update(_texts(one, strings))
    for names in ALIASES:
        if not found.isdisjoint(names):
            found.update(names)
    return frozenset(found)


def _texts(message: Message, strings: Sequence[str] | None) -> Iterator[str]:
    """Yield the texts of a message, keys of maps included. strings : of its indices, None = they count for nothing."""
    indices = STRING_FIELDS.get(message.DESCRIPTOR, ()) if strings is not None else ()
    for field, value in message.ListFields():
        values: Iterable[Any] = value if field.is_repeated else (value,)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from (key for key in value if isinstance(key, str))
            values = value.values()
            yield from (one for one in values if isinstance(one, str))
            values = [one for one in values if isinstance(one, Message)]
        if field.name in indices and strings is not None:
            yield from (strings[index] for index in values)
        elif field.type == FieldDescriptor.TYPE_STRING:
            yield from values
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for one in values:
                yield from _texts(one, strings)
