"""How many placeholders there would be to be if some nodes were not there.

Slack is a share of the nodes that are there, so with a node a part of what is asked for goes as well. Scale-down asks
this of nodes whose placeholders have no place elsewhere. Decides nothing; the same formulas, on the other nodes.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.slack.objects import NOTHING_ASKED
from planner.slack.parts import Part
from planner.slack.placeholder_sets import PlaceholderSet
from planner.slack.sets import Given, wanted
from planner.snapshot.columns import Int32, Int64

_OF_NODES: Final = (pb.PlaceholderKind.STANDARD, pb.PlaceholderKind.LARGEST)
"""Kinds of placeholders that parts of the cluster ask for; how many of others there are does not depend on nodes."""
_OF_PODS: Final = (pb.SlackStrategy.LARGEST_POD, pb.SlackStrategy.LARGEST_BY_RESOURCE)
"""Strategies for which the pods of a pool's nodes matter, too."""


class Without:
    """Numbers of placeholders on other nodes than those that are there.

    given, parts : what the sets were computed from; sets : Q of them, as they are.
    """

    def __init__(self, given: Given, parts: Sequence[Part], sets: Sequence[PlaceholderSet]) -> None:
        self._given = given._replace(before={one.name: one.size for one in sets if one.kind in _OF_NODES})
        self._parts = parts
        self._sets = sets

    def numbers(self, nodes: Int32) -> Int64:
        """Return how many there would be to be of each set if nodes of the snapshot were not there. int64[Q].

        As many as now where they would have another size: then all of them move anyway. A part that would lose its last
        node asks for as much as now. O(parts · (N + S)).
        """
        found = {
            one.name: one
            for one in wanted(self._given, [_left(part, nodes) for part in self._parts], NOTHING_ASKED).sets
        }
        return np.array([_number(one, found.get(one.name)) for one in self._sets], np.int64)

    def kind(self, node: int) -> Hashable:
        """Return what of a node that depends on: nodes of one kind make the same difference."""
        if any(part.pool.strategy in _OF_PODS for part in self._parts):
            return node
        return tuple(bool(part.nodes[node]) for part in self._parts), self._given.rooms.of_node(node)


def _left(part: Part, nodes: Int32) -> Part:
    """Return a part without nodes, all of it where none would be left."""
    left = part.nodes.copy()
    left[nodes] = False
    return part._replace(nodes=left) if left.any() else part


def _number(now: PlaceholderSet, then: PlaceholderSet | None) -> int:
    if now.kind not in _OF_NODES:
        return now.number
    if then is None:
        return 0
    return then.number if then.size == now.size else now.number
