"""Which annotations of nodes to write, given what nodes have and what the plan says. Pure; writes nothing.

A node that should stay is protected by the autoscaler's own annotation. A second one marks it as ours, and names the
first: what has no mark is somebody else's and never written. Annotations only ever keep an autoscaler from nodes; one
that stays behind deletes nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from clients.kubernetes_objects.nodes import SCALE_DOWN_DISABLED, STEERED

PROTECTED: Final = "true"
KARPENTER: Final = "karpenter.sh/do-not-disrupt"
KEYS: Final[Mapping[str, str]] = {"cluster-autoscaler": SCALE_DOWN_DISABLED, "karpenter": KARPENTER}
"""The annotation that keeps each autoscaler from a node. Karpenter's keeps it from replacing one as well."""


class NodeMarks(NamedTuple):
    """A node as far as it matters here. leaving : it is being deleted, and is let alone."""

    name: str
    uid: str
    annotations: Mapping[str, str]
    leaving: bool = False


class Write(NamedTuple):
    """One write: exactly these annotations of ours on a node; none of them takes ours off."""

    name: str
    uid: str
    annotations: Mapping[str, str]

    @property
    def protects(self) -> bool:
        """Whether the node is protected by it."""
        return bool(self.annotations)


def ours(key: str) -> dict[str, str]:
    """Return the annotations of a protected node."""
    return {key: PROTECTED, STEERED: key}


def writes(nodes: Iterable[NodeMarks], stay: Collection[str], key: str) -> list[Write]:
    """Return the writes after which the nodes of `stay`, and no others, are protected by us; [] = nothing to do.

    nodes : all nodes; stay : names of those to protect; key : the autoscaler's annotation. Where somebody else has set
    the annotation, nothing is written; where somebody has changed ours, the mark is taken off. Nodes to protect come
    first, both in order of name: an autoscaler never sees a node open that should stay once another one is opened.
    """
    protect, release = [], []
    for node in sorted(nodes):
        if node.leaving:
            continue
        wanted = node.name in stay
        marked = node.annotations.get(STEERED)
        if marked is None:
            if wanted and key not in node.annotations:
                protect.append(Write(node.name, node.uid, ours(key)))
        elif not wanted or node.annotations.get(marked) != PROTECTED:
            release.append(Write(node.name, node.uid, {}))
        elif marked != key:
            # For another autoscaler from now on.
            if key in node.annotations:
                release.append(Write(node.name, node.uid, {}))
            else:
                protect.append(Write(node.name, node.uid, ours(key)))
    return protect + release


def clean(nodes: Iterable[NodeMarks]) -> list[Write]:
    """Return the writes that take everything of ours off, from nodes that are being deleted too."""
    return [Write(node.name, node.uid, {}) for node in sorted(nodes) if STEERED in node.annotations]
