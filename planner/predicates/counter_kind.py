"""What a kind of counters declares of its arrays, so that others can handle them without knowing them.

Symbols: S pod classes, N nodes, P pods, C some classes.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from trimtab.planner.snapshot.columns import Bool, Int64

NO_CLASS: Final = -1
"""In place of a class: of one that none of the predicates concerns."""
EACH_NODE: Final = -1


class NodeLimit(NamedTuple):
    """How many pods of some classes a node takes together.

    rows : positions of the classes among those asked for, ascending; most : pods on a node; over : EACH_NODE, or the
    number of nodes that count now: `most` is then what a node may have more than the emptiest of these and of new ones.
    """

    rows: tuple[int, ...]
    most: int
    over: int = EACH_NODE


class CounterKind(NamedTuple):
    """A kind of counters: a NamedTuple of arrays, called `arrays` here, which is a field of `Counters`.

    field : its name there.
    written : arrays that moves of pods and nodes write.
    of_nodes : arrays whose last axis is the nodes, and which a spare node takes from a template; by_row : those of them
    whose first axis is the topology rows, `own_row` telling in which of them each node is its own domain.
    lists : arrays of items by class, each with an array `…_offsets`; of_classes : uint8[S], 0 for a class that the
    predicates do not concern; of_pods : int32[P], -1 for a pod that has nothing of its own.

    local(arrays) : bool[S], whether a node admits pods of a class or not whatever is on other nodes;
    takes_one(arrays) : bool[S], whether a node or domain takes only one pod of a class; node_limits(arrays, classes) :
    limits on a node's pods of classes : int64[C]; kept_out(arrays, classes) : bool[C], whether other pods of these
    classes, or pods placed before, may keep pods of a class out of a new node. None = there are none.
    """

    field: str
    written: tuple[str, ...]
    of_nodes: tuple[str, ...] = ()
    by_row: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    of_classes: tuple[str, ...] = ()
    of_pods: tuple[str, ...] = ()
    local: Callable[[Any], Bool] | None = None
    takes_one: Callable[[Any], Bool] | None = None
    node_limits: Callable[[Any, Int64], Iterable[NodeLimit]] | None = None
    kept_out: Callable[[Any, Int64], Bool] | None = None
