"""CUSTOM: a strategy from a package that is installed with the planner, found by entry point.

A package offers one in the entry point group "trimtab.pod_cost_strategies", under the name that settings use:

    [project.entry-points."trimtab.pod_cost_strategies"]
    fewest-connections = "my_package:FewestConnections"

The object, or what calling a class returns, is a `CustomStrategy`. The rules are those for every strategy: a rank for
each pod of a group, finite and at least 0, from its arguments only, so that equal requests have equal answers. An error
leaves the group unranked, with a note; other groups are not affected. The data that it reads are not known, so every
group of its target is ranked again for every snapshot, even if a delta touches none of them. A strategy with
`own_group_only = True` promises that its ranks depend only on the group that it is given, and not on the time, which it
does not get: then only changed groups are ranked again.

Example, pods without the label "keep" first, and of those the youngest:

    class Disposable:
        threshold = 2.0**26
        after_each_removal = False
        own_group_only = True

        def ranks(self, group):
            first = min(pod.created_s for pod in group.pods)
            return [0.0 if "keep" in pod.labels else 1.0 + pod.created_s - first for pod in group.pods]
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from trimtab.planner.pod_costs.members import owner_name
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.pod_costs.strategy import Code, Input, RankingContext, Ranks, Strategy, Unranked
from trimtab.planner.snapshot.columns import FLAG_READY, Float64, LabelSets, Snapshot
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason

ENTRY_POINTS: Final = "trimtab.pod_cost_strategies"


class CustomPod(NamedTuple):
    """A pod as a custom strategy sees it. created_s : Unix seconds, 0 = unknown; node : "" = none; numbers : from the
    annotations that other strategies in the settings read."""

    namespace: str
    name: str
    node: str
    created_s: int
    ready: bool
    labels: Mapping[str, str]
    node_labels: Mapping[str, str]
    numbers: Mapping[str, float]


class CustomGroup(NamedTuple):
    """A group as a custom strategy sees it: owner as "Kind/namespace/name", its pods by name, current time in Unix
    seconds, 0 if the strategy is `own_group_only`."""

    owner: str
    pods: Sequence[CustomPod]
    now_s: int


class CustomStrategy(Protocol):
    """threshold : divisor of ranks if the settings have none; after_each_removal : ranks are valid only until the next
    removal. With own_group_only = True, it depends only on the group that it ranks."""

    threshold: float
    after_each_removal: bool

    def ranks(self, group: CustomGroup) -> Sequence[float]:
        """Return a rank for each pod, in their order: finite, at least 0, larger = removed sooner."""


@cache
def installed(name: str) -> CustomStrategy | None:
    """Return the strategy of a name; None = none, or it cannot be loaded. Installed strategies never change."""
    for point in entry_points(group=ENTRY_POINTS, name=name):
        try:
            found: Any = point.load()
            return found() if isinstance(found, type) else found  # type: ignore[no-any-return]
        except Exception:
            return None
    return None


def threshold_of(name: str) -> float:
    """Return the threshold that a strategy declares; the general default if it declares no valid one."""
    value = getattr(installed(name), "threshold", None)
    usable = isinstance(value, int | float) and math.isfinite(value) and value > 0
    return float(value) if usable and value is not None else CUSTOM.threshold


def is_ranked_after_each_removal(name: str) -> bool:
    """Return whether a strategy has to rank again after each removal."""
    return bool(getattr(installed(name), "after_each_removal", False))


def looks_at_own_group_only(term: PodCostTerm) -> bool:
    """Return whether a strategy promises to depend only on the group that it ranks. True for a missing one."""
    return bool(getattr(installed(term.name), "own_group_only", installed(term.name) is None))


def content_of_pods(context: RankingContext, term: PodCostTerm) -> tuple[Float64, ...]:
    """Return the data of `Input.CONTENT`: whether pods are ready, their labels and numbers."""
    del term
    pods, members = context.snapshot.pods, context.members
    ready = (pods.flags & FLAG_READY)[members.pods] != 0
    found = [ready.astype(np.float64), pods.label_set[members.pods].astype(np.float64)]
    for key in np.unique(pods.number_key).tolist():
        by_pod = np.full(len(pods.spec), np.nan)
        mine = (pods.number_key == key) & np.isfinite(pods.number)
        by_pod[pods.number_pod[mine]] = pods.number[mine]
        # With the key: otherwise numbers of one annotation could be mistaken for those of another.
        found += [np.full(len(members.pods), float(key)), by_pod[members.pods]]
    return tuple(found)


def _rank(context: RankingContext, term: PodCostTerm, threshold: float) -> Ranks:
    del threshold
    strategy, members = installed(term.name), context.members
    rank = np.zeros(len(members.pods))
    failed: dict[int, str] = {}
    if strategy is None:
        everybody = np.ones(len(rank), np.bool_)
        text = f"no strategy named {term.name!r} is installed with the planner"
        return Ranks(rank, (Unranked(everybody, Reason.STRATEGY_UNKNOWN, lambda _: text),))
    read = _GroupReader(context, 0 if looks_at_own_group_only(term) else context.round.now_ns // 1_000_000_000)
    for group in range(len(members.owners)):
        context.round.work.limits.check()
        first, last = int(members.bounds[group]), int(members.bounds[group + 1])
        try:
            rank[first:last] = _checked(strategy.ranks(read.group(group)), last - first)
        except Exception as error:
            failed[group] = f"strategy {term.name!r}: {type(error).__name__}: {error}"
    if not failed:
        return Ranks(rank)
    of_member = members.group
    which = np.isin(of_member, list(failed))
    return Ranks(rank, (Unranked(which, Reason.STRATEGY_FAILED, lambda member: failed[int(of_member[member])]),))


def _checked(ranks: Sequence[float], count: int) -> Sequence[float]:
    if len(ranks) != count:
        raise ValueError(f"it returned {len(ranks)} ranks for {count} pods")
    for value in ranks:
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{value} is not a rank; give finite numbers of at least 0")
    return ranks


class _GroupReader:
    """Makes groups from columns."""

    def __init__(self, context: RankingContext, now_s: int) -> None:
        self._context, self._snapshot, self._now_s = context, context.snapshot, now_s
        self._labels: dict[int, Mapping[str, str]] = {}
        pods = self._snapshot.pods
        self._numbers: dict[int, dict[str, float]] = {}
        for pod, key, value in zip(pods.number_pod.tolist(), pods.number_key.tolist(), pods.number, strict=True):
            if math.isfinite(value):
                self._numbers.setdefault(pod, {})[self._snapshot.strings[key]] = float(value)

    def group(self, group: int) -> CustomGroup:
        """Return one group."""
        members = self._context.members
        pods = members.pods[members.bounds[group] : members.bounds[group + 1]].tolist()
        owner = owner_name(self._snapshot, int(members.owners[group]))
        return CustomGroup(owner, [*map(self._pod, pods)], self._now_s)

    def _pod(self, pod: int) -> CustomPod:
        s = self._snapshot
        node = int(s.pods.node[pod])
        return CustomPod(
            namespace=s.strings[s.pods.namespace[pod]],
            name=s.pods.name.get(pod),
            node=s.nodes.name[node] if node >= 0 else "",
            created_s=int(s.pods.created_s[pod]),
            ready=bool(s.pods.flags[pod] & FLAG_READY),
            labels=self._set(int(s.pods.label_set[pod])),
            node_labels=self._set(int(s.nodes.label_set[node])) if node >= 0 else {},
            numbers=self._numbers.get(pod, {}),
        )

    def _set(self, number: int) -> Mapping[str, str]:
        known = self._labels.get(number)
        if known is None:
            known = self._labels[number] = labels_of(self._snapshot, self._snapshot.label_sets, number)
        return known


def labels_of(snapshot: Snapshot, sets: LabelSets, number: int) -> Mapping[str, str]:
    """Return a label set."""
    entries = range(int(sets.offsets[number]), int(sets.offsets[number + 1]))
    return {snapshot.strings[sets.keys[entry]]: snapshot.strings[sets.values[entry]] for entry in entries}


CUSTOM = Strategy(Code.CUSTOM, _rank, depends_on=frozenset({Input.CONTENT, Input.ANYTHING}))
