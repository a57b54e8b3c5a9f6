"""Our NodeGroup objects as rows, and which node belongs to which.

A node belongs to the group that names it in `spec.nodes` or whose `nodeSelector` its labels meet; to two: an error
that names both. An empty selector selects nothing, so that a group may have no nodes yet.
"""

import math
from collections.abc import Iterable, Mapping

from trimtab.v1 import snapshot_pb2 as pb

from clients.kubernetes_objects.dictionary import Dictionary
from clients.kubernetes_objects.errors import FieldError, below
from clients.kubernetes_objects.kinds import Node, NodeGroup, ObjectMeta
from clients.kubernetes_objects.kinds.nodes import NodeGroupSpec, NodeGroupStatus
from clients.kubernetes_objects.nodes import template_row
from clients.kubernetes_objects.times import timestamp

_MOST = 2**31 - 1


def members(group: NodeGroup, nodes: Mapping[str, Node]) -> list[str]:
    """Return the names of the nodes of a group, sorted; names of nodes that do not exist are left out."""
    spec = group.spec or NodeGroupSpec()
    found = {name for name in spec.nodes or () if name in nodes}
    wanted = spec.node_selector
    if wanted:
        found |= {name for name, node in nodes.items() if _has_labels(node, wanted)}
    return sorted(found)


def _has_labels(node: Node, wanted: Mapping[str, str]) -> bool:
    labels = (node.metadata and node.metadata.labels) or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def assign(groups: Iterable[tuple[str, list[str]]]) -> dict[str, str]:
    """Return the group of each node, from (group, members). Errors: FieldError for a node in two groups."""
    group_of: dict[str, str] = {}
    for group, names in groups:
        for name in names:
            other = group_of.setdefault(name, group)
            if other != group:
                problem = f"node {name} belongs to this group and to {other}"
                raise FieldError("spec", problem, "let nodeSelector or nodes of one of them leave it out")
    return group_of


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
