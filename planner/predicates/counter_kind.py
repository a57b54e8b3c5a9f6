"""Counted predicates, and what a kind of counters declares of its arrays, so that others handle them without knowing
them.

Contract: a counted predicate is declared in its module and listed in `trimtab.planner.predicates.order`; that decides
which counters a simulation has, what is read of other pods, and who is concerned. Kernels of a kind are in the module
of its name in `trimtab.planner.predicates.kernels`, listed as `CounterHooks`. Symbols: S pod classes, N nodes, P pods,
C some classes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.node_classes import NodeClasses
from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.classes.pod_matching import PodMatching
from trimtab.planner.classes.scheduling_specs import PodsLookedAt, SchedulingSpec, SchedulingSpecs
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import NodeTraits
from trimtab.planner.predicates.static import StaticAnswers
from trimtab.planner.predicates.topologies import Topologies
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot


class Lists(NamedTuple):
    """Items of owner i are `items[offsets[i] : offsets[i + 1]]`. offsets : int32[owners+1]; items : int32[n, width]."""

    offsets: Int32
    items: Int32


def items_of(lists: Lists, owners: Int64) -> tuple[Int64, Int32]:
    """Return the items of some owners, int32[n, …]; and for each its first number, times the number of these owners,
    plus the position of its owner. int64[n]. owners : int64[C].
    """
    lengths = np.diff(lists.offsets)[owners].astype(np.int64)
    starts = lists.offsets[owners] - np.cumsum(lengths) + lengths
    items = lists.items[np.arange(int(lengths.sum())) + np.repeat(starts, lengths)]
    return items[:, 0].astype(np.int64) * len(owners) + np.repeat(np.arange(len(owners)), lengths), items


def rows_by_number(number: Int64, row: Int64) -> list[tuple[int, ...]]:
    """Return the rows of each number. number, row : int64[n], sorted by number."""
    if not len(number):
        return []
    return [tuple(some.tolist()) for some in np.split(row, np.flatnonzero(np.diff(number)) + 1)]


class ListBuilder:
    """Collects rows of small integers for owners."""

    def __init__(self, owners: int, width: int, limits: RequestLimits = UNLIMITED) -> None:
        self._limits = limits
        self._owners = owners
        self._width = width
        self._parts: list[tuple[Int64, tuple[int, ...]]] = []

    def add(self, owners: NDArray[np.int64], *row: int) -> None:
        """Add one row to each of the owners given : int64[k]."""
        if len(owners):
            self._limits.check()
            self._limits.reserve(len(owners) * (24 + 8 * self._width), "pod classes times their terms")
            self._parts.append((owners.astype(np.int64), row))

    def build(self) -> Lists:
        """Return the lists, sorted by owner."""
        if not self._parts:
            return Lists(np.zeros(self._owners + 1, np.int32), np.zeros((0, self._width), np.int32))
        owners = np.concatenate([owners for owners, _ in self._parts])
        lengths = [len(owners) for owners, _ in self._parts]
        rows = np.repeat(np.array([row for _, row in self._parts], np.int32), lengths, axis=0)
        order = np.argsort(owners, kind="stable")
        offsets = np.zeros(self._owners + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=self._owners), out=offsets[1:])
        return Lists(offsets, np.ascontiguousarray(rows[order]))


EACH_NODE: Final = -1


class NodeLimit(NamedTuple):
    """How many pods of some classes a node takes together.

    rows : positions of the classes among those asked for, ascending; max_pods : on a node; over : EACH_NODE, or the
    number of nodes that count now: `max_pods` is then what a node may have more than the emptiest of these and of new
    ones.
    """

    rows: tuple[int, ...]
    max_pods: int
    over: int = EACH_NODE


class BuildContext(NamedTuple):
    """What counters are built from. traits : of each of the N nodes; pod_count : P, virtual pods included; static :
    what the static predicates say of the classes; limits : see `RequestLimits`."""

    snapshot: Snapshot
    specs: SchedulingSpecs
    matching: PodMatching
    nodes: NodeClasses
    traits: tuple[NodeTraits, ...]
    pod_count: int
    static: StaticAnswers
    topologies: Topologies
    limits: RequestLimits

    @property
    def classes(self) -> PodClasses:
        """The S pod classes."""
        return self.matching.classes


class CounterBuilder(Protocol):
    """Collects what the predicates of a kind add."""

    def build(self) -> Any:
        """Return the arrays of the kind, a NamedTuple, with no pod counted and no node in the topology."""


class CounterKind(NamedTuple):
    """A kind of counters: a NamedTuple of arrays, called `arrays` here, which is a field of `Counters`.

    field : its name there, and that of the module of its kernels; cost : rank of its checks, cheapest first;
    builder : returns a new builder; notes : returns the notes on arrays, in which nothing is noted.
    written : arrays that moves of pods and nodes write.
    of_nodes : arrays whose last axis is the nodes, and which a spare node takes from a template; by_row : those of them
    whose first axis is the topology rows, `own_row` telling in which of them each node is its own domain.
    lists : arrays of items by class, each with an array `…_offsets`; of_classes : uint8[S], 0 for a class that the
    predicates do not concern; of_pods : int32[P], -1 for a pod that has nothing of its own.

    local(arrays) : bool[S], whether a node admits pods of a class or not whatever is on other nodes;
    takes_one(arrays) : bool[S], whether a node or domain takes only one pod of a class; node_limits(arrays, classes) :
    limits on a node's pods of classes : int64[C]; kept_out(arrays, classes) : bool[C], whether other pods of these
    classes, or pods placed before, may keep pods of a class out of a new node; together(arrays) : bool[S], whether pods
    of a class have to be on one node, and none has a place; over_nodes(arrays) : classes of constraints whose domains
    are single nodes : int64[n], and 1 where a class counts itself : int32[n]; domains(arrays) : int32[N] domain of each
    node, -1 = none, by the row that the kernels `chained_limit` and `row_of_limit` mean. None = there are none.
    """

    field: str
    cost: int
    builder: Callable[[BuildContext], CounterBuilder]
    written: tuple[str, ...]
    of_nodes: tuple[str, ...] = ()
    by_row: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    of_classes: tuple[str, ...] = ()
    of_pods: tuple[str, ...] = ()
    notes: Callable[[Any], Any] | None = None
    local: Callable[[Any], Bool] | None = None
    takes_one: Callable[[Any], Bool] | None = None
    node_limits: Callable[[Any, Int64], Iterable[NodeLimit]] | None = None
    kept_out: Callable[[Any, Int64], Bool] | None = None
    together: Callable[[Any], Bool] | None = None
    over_nodes: Callable[[Any], tuple[Int64, Int32]] | None = None
    domains: Callable[[Any], dict[int, Int32]] | None = None


class CountedPredicate(NamedTuple):
    """A predicate that pods placed before affect.

    reasons : each a `PredicateReason.Code`, whose texts are in reason.proto, in the order in which the scheduler checks
    them; kind : its counters, None if they are those of resources, or if it never fails;
    add(context, builder) : adds what it counts to the kind's builder, None = the builder finds it in the context;
    concerns : whether it concerns the pods of a scheduling spec, None = that is no matter of specs; looks_at : what it
    reads of other pods for pods of a spec that it concerns, None = nothing.
    """

    reasons: tuple[int, ...]
    kind: CounterKind | None = None
    add: Callable[[BuildContext, Any], None] | None = None
    concerns: Callable[[SchedulingSpec], bool] | None = None
    looks_at: Callable[[SchedulingSpec], PodsLookedAt] | None = None


@dataclass(frozen=True)
class CounterHooks:
    """The kernels of a kind, each over its arrays; O(terms of the pod). None = the kind has no part in it.

    count(arrays, pod_class, node, sign) : count `sign` pods of a class on a node;
    count_own(arrays, pod, node, sign) : the same for what a pod has of its own; has_own(arrays, pod) : whether it has
    any; prefetch_own(arrays, pod) : load what tells it;
    refuses_for_good, refuses_for_now(arrays, pod_class, node) : whether a node refuses a class while pods are only
    added: permanently, or until counters elsewhere change; refuses_pod(arrays, pod, node) : whether for what a pod has
    of its own; because(arrays, pod_class, node), because_own(arrays, pod, node) : `1 << PredicateReason.Code` for each
    predicate that refuses it;
    move_node(arrays, node, sign, stays), move_shared_domains(arrays, node, sign), look_like(arrays, node, like),
    may_need_others, excludes_pods, starts_on_one_node(arrays, pod_class), is_refused_in_domains(arrays, pod_class,
    node), forget, may_pass_again, note_failure, may_fit_now(arrays, notes, pod_class), chained_limit(arrays, chain,
    pod_class), row_of_limit(arrays, limit), excludes_domain(arrays, limit, domain) : the kind's part of the kernel of
    the same name in `trimtab.planner.predicates.kernels.compose`.
    """

    count: Callable[..., None] | None = None
    count_own: Callable[..., None] | None = None
    has_own: Callable[..., bool] | None = None
    prefetch_own: Callable[..., None] | None = None
    refuses_for_good: Callable[..., bool] | None = None
    refuses_for_now: Callable[..., bool] | None = None
    refuses_pod: Callable[..., bool] | None = None
    because: Callable[..., int] | None = None
    because_own: Callable[..., int] | None = None
    move_node: Callable[..., None] | None = None
    move_shared_domains: Callable[..., None] | None = None
    look_like: Callable[..., None] | None = None
    may_need_others: Callable[..., bool] | None = None
    excludes_pods: Callable[..., bool] | None = None
    starts_on_one_node: Callable[..., bool] | None = None
    is_refused_in_domains: Callable[..., bool] | None = None
    forget: Callable[..., None] | None = None
    may_pass_again: Callable[..., bool] | None = None
    note_failure: Callable[..., None] | None = None
    may_fit_now: Callable[..., bool] | None = None
    chained_limit: Callable[..., int] | None = None
    row_of_limit: Callable[..., int] | None = None
    excludes_domain: Callable[..., bool] | None = None


HOOK_NAMES: Final = tuple(field.name for field in fields(CounterHooks))


def builders_of(predicates: Iterable[CountedPredicate], context: BuildContext) -> dict[CounterKind, CounterBuilder]:
    """Return the builder of each kind, with all that the predicates add, in their order."""
    builders: dict[CounterKind, CounterBuilder] = {}
    for predicate in predicates:
        if predicate.kind is not None:
            if predicate.kind not in builders:
                builders[predicate.kind] = predicate.kind.builder(context)
            if predicate.add is not None:
                predicate.add(context, builders[predicate.kind])
    return builders
