"""Node groups of the cloud `kwok`, from a file of `NodeGroup` objects.

Decides the Node object of a new instance, and which nodes belong to a group. Every refusal names object and field.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.actuator.cloud.options import options_of, price_of, template_of
from trimtab.actuator.cloud.provider import CloudNodeTemplate, GroupOptions
from trimtab.actuator.kube.live import StoredNode
from trimtab.common.kubernetes.object_files import Object, ObjectFileError, load_files
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.kubernetes.signals import clouds, ours, well_known

# kwok manages nodes with this label.
KWOK_LABEL = ("kwok", "on")
GROUP_LABEL = ours.NODE_GROUP.key
# Most instances that the cloud has capacity for; a scale-up beyond it is accepted, but creates no instances.
CAPACITY_ANNOTATION = ours.KWOK_CAPACITY.key


class KwokGroup(NamedTuple):
    """A node group. Sizes in nodes; `target_size` : what it starts with; `capacity` : most nodes that its cloud has
    room for, None = without bound; `selector`, `node_names` : which nodes are its own; `template` : a new one, as JSON;
    `price` : of a node for an hour, None = not known. `name` : the id of the group; `min_size`, `max_size` : its
    bounds; `options` : settings that it has in place of those for all.
    """

    name: str
    min_size: int
    max_size: int
    target_size: int
    capacity: int | None
    selector: Mapping[str, str]
    node_names: frozenset[str]
    template: Mapping[str, Any]
    price: float | None = None
    options: GroupOptions = GroupOptions()

    def new_node_template(self) -> CloudNodeTemplate | None:
        """Return a new node of the group, without what belongs to one node; None = it has no amounts."""
        return template_of(self.template, {**self.selector, GROUP_LABEL: self.name, KWOK_LABEL[0]: KWOK_LABEL[1]})

    def owns(self, node: StoredNode) -> bool:
        """Return whether a node is this group's."""
        labels = node.metadata.labels or {}
        if node.metadata.name in self.node_names or labels.get(GROUP_LABEL) == self.name:
            return True
        return bool(self.selector) and all(labels.get(key) == value for key, value in self.selector.items())

    def new_node(self, name: str) -> Object:
        """Return the Node object of a new instance."""
        metadata = self.template.get("metadata") or {}
        labels = {
            **(metadata.get("labels") or {}),
            **self.selector,
            GROUP_LABEL: self.name,
            well_known.HOSTNAME.key: name,
            KWOK_LABEL[0]: KWOK_LABEL[1],
        }
        annotations = {**(metadata.get("annotations") or {}), clouds.KWOK_NODE.key: "fake"}
        spec: Object = {"providerID": made_provider_id(self.name, name)}
        taints = (self.template.get("spec") or {}).get("taints")
        if taints:
            spec["taints"] = taints
        status = self.template.get("status") or {}
        amounts = status.get("allocatable") or status.get("capacity") or {}
        return {
            **BY_KIND["Node"].type_meta,
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": spec,
            "status": {"capacity": status.get("capacity") or amounts, "allocatable": amounts},
        }


def load_groups(path: Path) -> dict[str, KwokGroup]:
    """Read the groups of a file, by name; objects of other kinds are skipped. Raises `ObjectFileError`."""
    groups: dict[str, KwokGroup] = {}
    for item in load_files([path]):
        if item["kind"] != "NodeGroup":
            continue
        group = read_group(item)
        if group.name in groups:
            raise ObjectFileError(f"NodeGroup {group.name}: given twice")
        groups[group.name] = group
    if not groups:
        raise ObjectFileError(f"{path}: has no NodeGroup; give at least one")
    return groups


def read_group(item: Object) -> KwokGroup:
    """Read one group. Raises `ObjectFileError`."""
    name, spec = item["metadata"]["name"], item.get("spec") or {}
    if "maxSize" not in spec:
        raise ObjectFileError(f"NodeGroup {name}: spec.maxSize is missing; give the largest size of the group")
    low = _whole(name, "spec.minSize", spec.get("minSize", 0))
    high = _whole(name, "spec.maxSize", spec["maxSize"])
    target = _whole(name, "spec.targetSize", spec.get("targetSize", low))
    if not low <= target <= high:
        raise ObjectFileError(
            f"NodeGroup {name}: sizes must be minSize <= targetSize <= maxSize, not {low}/{target}/{high}"
        )
    try:
        price, options = price_of(spec), options_of(item)
    except ValueError as error:
        raise ObjectFileError(f"NodeGroup {name}: {error}") from error
    limit = (item["metadata"].get("annotations") or {}).get(CAPACITY_ANNOTATION)
    return KwokGroup(
        name=name,
        min_size=low,
        max_size=high,
        target_size=target,
        capacity=None if limit is None else _whole(name, f"annotation {CAPACITY_ANNOTATION}", limit),
        selector=_selector(name, spec.get("nodeSelector") or {}),
        node_names=frozenset(spec.get("nodes") or ()),
        template=spec.get("template") or {},
        price=price,
        options=options,
    )


def made_provider_id(group: str, node: str) -> str:
    """Return the provider id of an instance of this cloud."""
    return f"kwok://{group}/{node}"


def group_of(node: StoredNode, groups: Iterable[KwokGroup]) -> str | None:
    """Return the name of the group that owns a node."""
    return next((group.name for group in groups if group.owns(node)), None)


def _selector(name: str, selector: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that select the group's nodes; a new node could not be given expressions."""
    labels = selector.get("matchLabels", selector)
    if not isinstance(labels, dict) or "matchExpressions" in selector:
        raise ObjectFileError(f"NodeGroup {name}: spec.nodeSelector must be labels and their values")
    return {str(key): str(value) for key, value in labels.items()}


def _whole(name: str, field: str, value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdigit():
        raise ObjectFileError(f"NodeGroup {name}: {field} must be a whole number of at least 0, not {value!r}")
    return int(text)
