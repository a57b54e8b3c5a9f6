"""Counters: what counted predicates remember of placed pods, by kind.

Contract: a kind is declared once, in its module; `trimtab.planner.predicates.order` has the predicates that use it.
What moves write, what virtual pods and nodes take over, and what bounds and plans have to respect follow from the
declaration. No module outside this package reads the arrays of a kind: it asks here, or in
`trimtab.planner.predicates.kernels.compose` inside kernels. Symbols: S pod classes, P pods, N nodes.
"""

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from trimtab.planner.predicates.counter_kind import BuildContext, CounterKind, NodeLimit, builders_of
from trimtab.planner.predicates.order import COUNTED, KINDS
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, UInt8

_record: Callable[[str, Iterable[str]], Any] = namedtuple
_ByKind: Any = _record("_ByKind", [kind.field for kind in KINDS])
_NotesByKind: Any = _record("_NotesByKind", [kind.field for kind in KINDS if kind.notes is not None])


class Counters(_ByKind):  # type: ignore[misc]
    """The counters of a simulation, one field for each of `KINDS`, in their order."""

    __slots__ = ()


class CounterNotes(_NotesByKind):  # type: ignore[misc]
    """Counters as they were when nodes refused a class, for `trimtab.planner.predicates.kernels.compose`: one field for
    each kind that has notes."""

    __slots__ = ()


WRITTEN: Final = tuple(f"{kind.field}.{name}" for kind in KINDS for name in kind.written)
"""Paths of the arrays that moves of pods and nodes write."""
WRITTEN_BY_OPENING: Final = tuple(f"{kind.field}.{name}" for kind in KINDS for name in kind.of_nodes)
"""Paths of the arrays that opening a spare node writes besides."""


def _of(counters: Counters) -> Iterator[tuple[CounterKind, Any]]:
    return zip(KINDS, counters, strict=True)


def build_counters(context: BuildContext) -> Counters:
    """Return the counters of all predicates, with no pod counted and no node in the topology."""
    builders = builders_of(COUNTED, context)
    return Counters(*(builders[kind].build() for kind in KINDS))


def new_notes(counters: Counters) -> CounterNotes:
    """Return notes in which nothing is noted."""
    return CounterNotes(*(kind.notes(arrays) for kind, arrays in _of(counters) if kind.notes is not None))


def with_more_pods(counters: Counters, count: int) -> Counters:
    """Return the counters with pods appended that have nothing of their own, such as volumes."""
    changed = {}
    for kind, arrays in _of(counters):
        columns = {name: np.append(getattr(arrays, name), np.full(count, -1, np.int32)) for name in kind.of_pods}
        changed[kind.field] = arrays._replace(**columns)
    replaced: Counters = counters._replace(**changed)
    return replaced


def is_unlike_its_class(counters: Counters, pods: Int32 | Int64) -> Bool:
    """Return which of pods : int[M] are treated by what they have of their own, not by their class alone. bool[M]."""
    out = np.zeros(len(pods), np.bool_)
    for kind, arrays in _of(counters):
        for name in kind.of_pods:
            out |= getattr(arrays, name)[pods] >= 0
    return out


def local_classes(counters: Counters) -> UInt8:
    """Return the classes for which a node admits pods or not whatever is on other nodes : uint8[S]."""
    by_kind = [kind.local(arrays) for kind, arrays in _of(counters) if kind.local is not None]
    local: Bool = np.logical_and.reduce(by_kind)
    return local.astype(np.uint8)


def takes_one(counters: Counters) -> Bool:
    """Return the classes of which a node or domain takes only one pod : bool[S]."""
    by_kind = [kind.takes_one(arrays) for kind, arrays in _of(counters) if kind.takes_one is not None]
    single: Bool = np.logical_or.reduce(by_kind)
    return single


def node_limits(counters: Counters, classes: Int64) -> list[NodeLimit]:
    """Return the limits of a node on pods of `classes` : int64[C], ascending, which counters set."""
    return [
        limit
        for kind, arrays in _of(counters)
        if kind.node_limits is not None
        for limit in kind.node_limits(arrays, classes)
    ]


def may_be_kept_out(counters: Counters, classes: Int64) -> Bool:
    """Return which of `classes` : int64[C] other pods of them, or pods placed before, may keep out of a new node."""
    by_kind = [kind.kept_out(arrays, classes) for kind, arrays in _of(counters) if kind.kept_out is not None]
    out: Bool = np.logical_or.reduce(by_kind)
    return out


def constraints_of(counters: Counters, of_class: int) -> tuple[bytes, ...]:
    """Return all that counters mean for a class: equal for classes that they treat alike."""
    parts = []
    for kind, arrays in _of(counters):
        for name in kind.lists:
            first, last = getattr(arrays, f"{name}_offsets")[of_class : of_class + 2]
            parts.append(getattr(arrays, name)[first:last].tobytes())
        parts += [getattr(arrays, name)[of_class].tobytes() for name in kind.of_classes]
    return tuple(parts)


def shared_domains(counters: Counters, nodes: Int64) -> list[np.ndarray[Any, Any]]:
    """Return what makes nodes : int64[M] differ for counters over domains : arrays with a row for each node. Domains of
    one node each are left out.
    """
    return [
        (arrays_of[arrays.own_row == 0] if name in kind.by_row else arrays_of).T[nodes]
        for kind, arrays in _of(counters)
        if kind.by_row
        for name in kind.of_nodes
        for arrays_of in (getattr(arrays, name),)
    ]


def own_limits(counters: Counters, nodes: Int64) -> list[np.ndarray[Any, Any]]:
    """Return what makes nodes : int64[M] differ for all other counters : arrays with a row for each node."""
    return [
        getattr(arrays, name).T[nodes] for kind, arrays in _of(counters) if not kind.by_row for name in kind.of_nodes
    ]


def needs_one_node(counters: Counters) -> Bool:
    """Return the classes whose pods have to be together on one node, and of which none has a place. bool[S]."""
    by_kind = [kind.together(arrays) for kind, arrays in _of(counters) if kind.together is not None]
    together: Bool = np.logical_or.reduce(by_kind)
    return together


def spreading_over_nodes(counters: Counters) -> tuple[Int64, Int32]:
    """Return the classes of the constraints whose domains are single nodes : int64[n], one for each constraint; and 1
    where the class counts itself. int32[n]."""
    by_kind = [kind.over_nodes(arrays) for kind, arrays in _of(counters) if kind.over_nodes is not None]
    of_class, counts_itself = zip(*by_kind, strict=True)
    return np.concatenate(of_class), np.concatenate(counts_itself)


def domains_of_constraints(counters: Counters) -> dict[int, Int32]:
    """Return the domain of each node : int32[N], -1 = none, by the topology rows of constraints that exclude whole
    domains, ascending (`chained_limit` of the kernels)."""
    by_kind = (kind.domains(arrays) for kind, arrays in _of(counters) if kind.domains is not None)
    return next(by_kind, {})
