"""Which annotations of nodes to write, given the nodes' annotations and the plan. Pure; writes nothing. A node that
should stay is protected by the autoscaler's own annotation. A second annotation marks the first as ours and names it:
an annotation without mark belongs to somebody else and is never changed. Annotations only keep an autoscaler off nodes;
one that is left behind deletes nothing.

Every plan considers all nodes again: a node that a used-up budget kept can go as soon as the budget allows it, and must
then lose its protection.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from trimtab.clients.verdicts import going, staying
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT
from trimtab.common.kubernetes.signals.ours import STEERED
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

PROTECTED: Final = "true"
KEYS: Final[Mapping[str, str]] = {"cluster-autoscaler": SCALE_DOWN_DISABLED.key, "karpenter": DO_NOT_DISRUPT.key}
"""The annotation that keeps each autoscaler from removing a node. Karpenter's also prevents replacing it."""


class NodeMarks(NamedTuple):
    """The properties of a node that matter here. name, uid, annotations : its metadata; leaving : it is being deleted,
    and is left alone; candidate : the autoscaler has marked it as one that it may remove.
    """

    name: str
    uid: str
    annotations: Mapping[str, str]
    leaving: bool = False
    candidate: bool = False


class Write(NamedTuple):
    """One write: a node gets exactly these annotations of ours; none = ours are removed. `name`, `uid` : of the node;
    another node of the same name is not written.
    """

    name: str
    uid: str
    annotations: Mapping[str, str]

    @property
    def protects(self) -> bool:
        """Whether the write protects the node."""
        return bool(self.annotations)


def ours(key: str) -> dict[str, str]:
    """Return the annotations of a protected node."""
    return {key: PROTECTED, STEERED.key: key}


def writes(nodes: Iterable[NodeMarks], stay: Collection[str], key: str) -> list[Write]:
    """Return the writes after which we protect the nodes of `stay` and no others; [] = nothing to do. nodes : all
    nodes; stay : names of those to protect; key : the autoscaler's annotation. If somebody else has set the annotation,
    nothing is written; if somebody has changed ours, the mark is removed. Nodes to protect come first, each part in
    order of name: no node loses its protection before all that should stay have it.
    """
    protect, release = [], []
    for node in sorted(nodes):
        if node.leaving:
            continue
        wanted = node.name in stay
        marked = node.annotations.get(STEERED.key)
        if marked is None:
            if wanted and key not in node.annotations:
                protect.append(Write(node.name, node.uid, ours(key)))
        elif not wanted or node.annotations.get(marked) != PROTECTED:
            release.append(Write(node.name, node.uid, {}))
        elif marked != key:
            # The autoscaler has changed.
            if key in node.annotations:
                release.append(Write(node.name, node.uid, {}))
            else:
                protect.append(Write(node.name, node.uid, ours(key)))
    return protect + release


def clean(nodes: Iterable[NodeMarks]) -> list[Write]:
    """Return the writes that remove all our annotations, also from nodes that are being deleted."""
    return [Write(node.name, node.uid, {}) for node in sorted(nodes) if STEERED.key in node.annotations]


UNNEEDED_S: Final = 600.0
"""Source: CA, `--scale-down-unneeded-time`."""
_NOT_STEERED = frozenset({UnremovableReason.NOT_AUTOSCALED, UnremovableReason.CURRENTLY_BEING_DELETED})
"""Nodes without known group, which cannot be judged, and nodes that are already being removed."""


def settings_to_steer(plan_settings: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
    """Return the settings of plans for steering: as given, with nodes considered again at once unless set."""
    settings = plan_pb2.PlanSettings()
    settings.CopyFrom(plan_settings)
    if not settings.scale_down.HasField("unremovable_node_recheck_timeout"):
        settings.scale_down.unremovable_node_recheck_timeout.FromSeconds(0)
    return settings


def nodes_to_keep(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that should stay: all but those that can go together. Those of later waves stay for now."""
    later = {one.node for one in going(answer) if one.wave > 1}
    return later | {one.node for one in staying(answer) if one.reason not in _NOT_STEERED}


def nodes_to_release(answer: plan_pb2.PlanResponse) -> set[str]:
    """Return the nodes that can go together, without any pod losing its place, as far as disruption budgets allow."""
    return {one.node for one in going(answer) if one.wave <= 1}


def unneeded_s(settings: plan_pb2.PlanSettings) -> float:
    """Return for how long a node must be unneeded before it goes, seconds, with the autoscalers' default."""
    scale_down = settings.scale_down
    if not scale_down.HasField("unneeded_time"):
        return UNNEEDED_S
    return scale_down.unneeded_time.ToNanoseconds() / 1e9
