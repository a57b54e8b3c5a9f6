"""Node groups by label, for input without node groups: nodes with the same values of some labels form a group. kubectl
does not know node groups. For a first look, machines of one type in one zone are a good guess. Such a group has a
minimum of 0, its current size as target, and room for as many more nodes as one plan adds. Control plane nodes are in
no group.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.cluster_view import ClusterView
from trimtab.clients.cli.failures import InputError
from trimtab.clients.cli.output import note
from trimtab.v1 import snapshot_pb2 as pb

INSTANCE_TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"
DEFAULT_LABELS = (INSTANCE_TYPE, ZONE)
NONE = "none"
ROOM = 1000
"""By how many nodes a group may grow: as many as one plan adds by default."""
_OLD_NAMES = {
    INSTANCE_TYPE: "beta.kubernetes.io/instance-type",
    ZONE: "failure-domain.beta.kubernetes.io/zone",
}
_CONTROL_PLANE = {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}


def read_labels(text: str | None) -> tuple[str, ...] | None:
    """Read `--group-by`: labels separated by commas, or "none"; None = not given."""
    if text is None:
        return None
    labels = tuple(part.strip() for part in text.split(",")) if text.strip() != NONE else ()
    if not all(labels):
        raise InputError(f'--group-by {text}: give label keys separated by commas, or "{NONE}"')
    return labels


def group_by_labels(snapshot: pb.ClusterSnapshot, labels: Sequence[str] | None) -> None:
    """Add such groups to a snapshot without node groups, in place, and write a note about it. labels : None = the
    default ones, () = none. Errors: InputError if the snapshot has node groups.
    """
    if snapshot.node_groups:
        if labels:
            raise InputError("--group-by: the input has its own NodeGroup objects; omit the option")
        return
    if not snapshot.nodes or labels == ():
        return
    chosen, view = labels or DEFAULT_LABELS, ClusterView(snapshot)
    sizes: Counter[str] = Counter()
    for node in snapshot.nodes:
        node.node_group = label_group(view.labels(node.label_set), chosen)
        if node.node_group:
            sizes[node.node_group] += 1
    for name, size in sorted(sizes.items()):
        snapshot.node_groups.add(id=name, min_size=0, max_size=size + ROOM, target_size=size)
    left_out = len(snapshot.nodes) - sum(sizes.values())
    out = f"; {counted(left_out, 'node')} of the control plane excluded" if left_out else ""
    note(
        f"the input has no NodeGroup objects, so nodes are grouped by {' and '.join(chosen)} into "
        f"{counted(len(sizes), 'group')} with minimum 0 and room to grow{out}. --group-by LABEL,… chooses other "
        f"labels, --group-by {NONE} makes no groups"
    )


def label_value(found: Mapping[str, str], label: str) -> str:
    """Return the value of a node's label, also under the label's old name; "" = it has none."""
    return found.get(label) or found.get(_OLD_NAMES.get(label, ""), "")


def label_group(found: Mapping[str, str], labels: Sequence[str]) -> str:
    """Return the group of a node: the values of the labels without missing ones; "unlabelled" if all are missing, "" =
    it is in none, because it belongs to the control plane.
    """
    if _CONTROL_PLANE & found.keys():
        return ""
    values = (label_value(found, label) for label in labels)
    return "/".join(value for value in values if value) or "unlabelled"
