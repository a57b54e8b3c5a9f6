"""How many placeholders would be required without some nodes.

Slack is a share of the existing nodes, so removing a node also reduces the requested slack. Scale-down uses this for
nodes whose placeholders have no place elsewhere. The same formulas, on the other nodes.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from trimtab.planner.slack.objects import NO_OBJECT_REQUESTS
from trimtab.planner.slack.parts import Part
from trimtab.planner.slack.placeholder_sets import PlaceholderSet
from trimtab.planner.slack.sets import SetInputs, required_sets
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.v1 import plan_pb2 as pb

_OF_NODES: Final = (pb.PlaceholderKind.STANDARD, pb.PlaceholderKind.LARGEST)
"""Kinds of placeholders that parts of the cluster request; the number of other kinds does not depend on nodes."""
_OF_PODS: Final = (pb.SlackStrategy.LARGEST_POD, pb.SlackStrategy.LARGEST_BY_RESOURCE)
"""Strategies that also depend on the pods of a pool's nodes."""


class RequiredWithout:
    """Numbers of placeholders for a changed set of nodes.

    given, parts : the inputs from which the sets were computed; sets : the Q current sets.
    """

    def __init__(self, inputs: SetInputs, parts: Sequence[Part], sets: Sequence[PlaceholderSet]) -> None:
        self._inputs = inputs._replace(before={one.name: one.size for one in sets if one.kind in _OF_NODES})
        self._parts = parts
        self._sets = sets

    def without(self, nodes: Int32) -> Int64:
        """Return how many placeholders of each set would be required without some nodes : int32[n]. int64[Q].

        As many as now if they would have another size: then all of them move anyway. A part that would lose its last
        node requests as much as now. O(parts · (N + S)).
        """
        parts = [_left(part, nodes) for part in self._parts]
        found = {one.name: one for one in required_sets(self._inputs, parts, NO_OBJECT_REQUESTS).sets}
        return np.array([_number(one, found.get(one.name)) for one in self._sets], np.int64)

    def kind(self, node: int) -> Hashable:
        """Return the properties of a node on which this depends: nodes of one kind make the same difference."""
        if any(part.pool.strategy in _OF_PODS for part in self._parts):
            return node
        return tuple(bool(part.nodes[node]) for part in self._parts), self._inputs.rooms.of_node(node)


def _left(part: Part, nodes: Int32) -> Part:
    """Return a part without some nodes, or the whole part if none would be left."""
    left = part.nodes.copy()
    left[nodes] = False
    return part._replace(nodes=left) if left.any() else part


def _number(now: PlaceholderSet, then: PlaceholderSet | None) -> int:
    if now.kind not in _OF_NODES:
        return now.number
    if then is None:
        return 0
    return then.number if then.size == now.size else now.number
