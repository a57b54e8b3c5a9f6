"""Our NodeGroup objects as rows, and which node belongs to which.

A node belongs to the group that names it in `spec.nodes` or whose `nodeSelector` its labels meet; to two: an error
that names both. An empty selector selects nothing, so that a group may have no nodes yet.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from trimtab.v1 import snapshot_pb2 as pb

from clients.kubernetes_objects.dictionary import Dictionary
from clients.kubernetes_objects.errors import FieldError, below
from clients.kubernetes_objects.kinds import Node, NodeGroup, ObjectMeta
from clients.kubernetes_objects.kinds.nodes import NodeGroupSpec, NodeGroupStatus
from clients.kubernetes_objects.nodes import template_row
from clients.kubernetes_objects.times import timestamp

_MOST = 2**31 - 1


class Membership:
    """Which groups a node belongs to.

    Each group stands under one pair of its `nodeSelector`, the one that the fewest groups ask for, so that a node looks
    at few groups, however many there are.
    """

    def __init__(self, groups: Iterable[NodeGroup]) -> None:
        self._groups = list(groups)
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._by_label: dict[tuple[str, str], list[int]] = defaultdict(list)
        specs = [group.spec or NodeGroupSpec() for group in self._groups]
        self._selectors = [spec.node_selector or {} for spec in specs]
        askers = Counter(pair for wanted in self._selectors for pair in wanted.items())
        for i, (spec, wanted) in enumerate(zip(specs, self._selectors, strict=True)):
            for name in spec.nodes or ():
                self._by_name[name].append(i)
            if wanted:
                self._by_label[min(wanted.items(), key=lambda pair: (askers[pair], pair))].append(i)

    def groups_of(self, name: str, node: Node) -> list[NodeGroup]:
        """Return the groups that name or select a node, in their order."""
        return [self._groups[i] for i in self._places_of(name, node)]

    def members(self, nodes: Mapping[str, Node]) -> list[list[str]]:
        """Return the names of the nodes of each group, sorted."""
        found: list[list[str]] = [[] for _ in self._groups]
        for name in sorted(nodes):
            for i in self._places_of(name, nodes[name]):
                found[i].append(name)
        return found

    def _places_of(self, name: str, node: Node) -> list[int]:
        labels = (node.metadata and node.metadata.labels) or {}
        found = set(self._by_name.get(name, ()))
        for pair in labels.items():
            found.update(i for i in self._by_label.get(pair, ()) if self._selectors[i].items() <= labels.items())
        return sorted(found)


def assign(group_of: dict[str, str], group: str, names: Iterable[str]) -> None:
    """Add the members of a group to the group of each node. Errors: FieldError for a node that has another."""
    for name in names:
        other = group_of.setdefault(name, group)
        if other != group:
            problem = f"node {name} belongs to this group and to {other}"
            raise FieldError("spec", problem, "let nodeSelector or nodes of one of them leave it out")


def group_row(group: NodeGroup, size: int, dictionary: Dictionary) -> pb.NodeGroup:
    """Return the row of a group with `size` member nodes. Errors: FieldError with the path below the object."""
    meta, spec = group.metadata or ObjectMeta(), group.spec or NodeGroupSpec()
    low, high = spec.min_size or 0, spec.max_size
    if high is None:
        raise FieldError("spec.maxSize", "it is missing", "give the largest size of the group")
    target = size if spec.target_size is None else spec.target_size
    for field, value in (("minSize", low), ("maxSize", high), ("targetSize", target)):
        if not 0 <= value <= _MOST:
            raise FieldError(f"spec.{field}", f"{value} is absurd", "give a number of at least 0")
    if low > high:
        raise FieldError("spec.minSize", f"{low} is more than maxSize {high}", "give minSize <= maxSize")
    price = spec.price
    if price is not None and not (math.isfinite(price) and price >= 0):
        raise FieldError("spec.price", f"{price} is absurd", "give the price of a node and hour, at least 0")
    status = group.status or NodeGroupStatus()
    row = pb.NodeGroup(
        id=meta.name or "",
        min_size=low,
        max_size=high,
        target_size=target,
        price_per_hour=price,
        zero_or_max=bool(spec.zero_or_max),
        last_scale_up_time=timestamp(status.last_scale_up_time),
        last_deletion_time=timestamp(status.last_deletion_time),
        last_failure_time=timestamp(status.last_failure_time),
    )
    if spec.template is not None:
        with below("spec.template"):
            row.template.CopyFrom(template_row(spec.template, dictionary))
    return row
