"""NodeGroup objects as rows, and the group that each node belongs to.

A node belongs to the group that the cloud gives for its provider id, else to the group that names it in `spec.nodes` or
whose `nodeSelector` matches its labels. A node in two groups is an error that names both. An empty selector selects
nothing: a group may have no nodes yet.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import Node, NodeGroup, NodeGroupSpec, NodeGroupStatus
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.nodes import template_row
from trimtab.common.objects.pod_rows import pod_row
from trimtab.common.objects.pod_specs import PodSpecTable
from trimtab.common.objects.times import timestamp
from trimtab.prices import MOST_PER_HOUR, is_price
from trimtab.v1 import snapshot_pb2 as pb

_MOST = 2**31 - 1
HEALTH = {
    "Healthy": pb.NodeGroupHealth.HEALTHY,
    "Unhealthy": pb.NodeGroupHealth.UNHEALTHY,
    "BackedOff": pb.NodeGroupHealth.BACKED_OFF,
}
"""Values of `status.health` of a node group."""


class Membership:
    """The groups that a node belongs to.

    Each group is indexed by the label of its `nodeSelector` that the fewest groups require, so a node is compared with
    few groups, however many there are.
    """

    def __init__(
        self, groups: Iterable[NodeGroup], group_of_instance: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """`group_of_instance` : provider id to the name of its group, as the cloud knows it."""
        self._groups = list(groups)
        self._group_of_instance = group_of_instance
        self._named = {group.metadata.name: group for group in self._groups if group.metadata}
        self._by_name: dict[str, list[int]] = defaultdict(list)
        self._by_label: dict[tuple[str, str], list[int]] = defaultdict(list)
        specs = [group.spec or NodeGroupSpec() for group in self._groups]
        self._selectors = [spec.node_selector or {} for spec in specs]
        requirers = Counter(pair for wanted in self._selectors for pair in wanted.items())
        for i, (spec, wanted) in enumerate(zip(specs, self._selectors, strict=True)):
            for name in spec.nodes or ():
                self._by_name[name].append(i)
            if wanted:
                self._by_label[min(wanted.items(), key=lambda pair: (requirers[pair], pair))].append(i)

    def groups_of(self, name: str, node: Node) -> list[NodeGroup]:
        """Return the groups that name or select a node, in their order."""
        of_cloud = self._group_of_instance.get((node.spec and node.spec.provider_id) or "")
        if of_cloud is not None and of_cloud in self._named:
            return [self._named[of_cloud]]
        return [self._groups[i] for i in self._places_of(name, node)]

    def _places_of(self, name: str, node: Node) -> list[int]:
        labels = (node.metadata and node.metadata.labels) or {}
        found = set(self._by_name.get(name, ()))
        for pair in labels.items():
            found.update(i for i in self._by_label.get(pair, ()) if self._selectors[i].items() <= labels.items())
        return sorted(found)


def shared_node_error(node: str, other: str) -> FieldError:
    """Return the error of a group that shares a node with the group `other`."""
    problem = f"node {node} belongs to this group and to {other}"
    return FieldError("spec", problem, "exclude the node from nodeSelector or nodes of one of them")


def size_notes(group: NodeGroup, row: pb.NodeGroup) -> list[str]:
    """Return a note if the target size of a group is outside its limits, which clouds allow."""
    if group.spec is None or group.spec.target_size is None or row.min_size <= row.target_size <= row.max_size:
        return []
    limit = f"above maxSize {row.max_size}" if row.target_size > row.max_size else f"below minSize {row.min_size}"
    return [f"NodeGroup {row.id}: targetSize {row.target_size} is {limit}"]


def group_row(group: NodeGroup, size: int, dictionary: Dictionary) -> pb.NodeGroup:
    """Return the row of a group with `size` member nodes. Errors: FieldError with the path below the object."""
    meta, spec = group.metadata or ObjectMeta(), group.spec or NodeGroupSpec()
    low, high = spec.min_size or 0, spec.max_size
    if high is None:
        raise FieldError("spec.maxSize", "it is missing", "give the largest size of the group")
    target = size if spec.target_size is None else spec.target_size
    for field, value in (("minSize", low), ("maxSize", high), ("targetSize", target)):
        if not 0 <= value <= _MOST:
            raise FieldError(f"spec.{field}", f"{value} is out of range", "give a number of at least 0")
    if low > high:
        raise FieldError("spec.minSize", f"{low} is more than maxSize {high}", "give minSize <= maxSize")
    price = spec.price
    if price is not None and not is_price(price):
        remedy = f"give the price of a node for an hour, 0 to {MOST_PER_HOUR:.0e}"
        raise FieldError("spec.price", f"{price} is out of range", remedy)
    status = group.status or NodeGroupStatus()
    row = pb.NodeGroup(
        id=meta.name or "",
        min_size=low,
        max_size=high,
        target_size=target,
        price_per_hour=price,
        health=_health(status),
        backoff_until=timestamp(status.backoff_until),
        zero_or_max=bool(spec.zero_or_max),
        last_scale_up_time=timestamp(status.last_scale_up_time),
        last_deletion_time=timestamp(status.last_deletion_time),
        last_failure_time=timestamp(status.last_failure_time),
    )
    if spec.template is not None:
        with below("spec.template"):
            row.template.CopyFrom(template_row(spec.template, dictionary))
    return row


def add_daemon_set_pods(group: NodeGroup, row: pb.NodeGroup, specs: PodSpecTable) -> None:
    """Add the pods that each new node of a group has to its row. Errors: FieldError."""
    pods = (group.spec and group.spec.daemon_set_pods) or ()
    if pods and not row.HasField("template"):
        raise FieldError("spec.daemonSetPods", "there is no template", "give spec.template too")
    for at, pod in enumerate(pods):
        with below(f"spec.daemonSetPods[{at}]"):
            known = pod_row(pod)
            spec = specs.index(known.spec_key, known.pod, known.mounts, f"NodeGroup {row.id}")
        labels = specs.dictionary.label_pairs(known.labels)
        row.template.daemonset_pods.add(namespace=known.namespace, spec=spec, label_set=labels)


def _health(status: NodeGroupStatus) -> pb.NodeGroupHealth.Code.ValueType:
    """Return the health in a group's status, UNSPECIFIED if there is none. Errors: FieldError."""
    if status.health is None:
        return pb.NodeGroupHealth.UNSPECIFIED
    if status.health not in HEALTH:
        raise FieldError("status.health", f"{status.health!r} is not a health value", f"use one of {', '.join(HEALTH)}")
    return HEALTH[status.health]
