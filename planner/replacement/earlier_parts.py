"""Parts of later waves that need not wait for those before them, moved into the earliest wave that has room for them.

The search fills one wave after the other, so what a wave had no reason to take at first may be in a later one. A part
is the nodes of a wave that leave and share new nodes, with these. It can be in an earlier wave if none of its pods goes
to a new node that comes only later, and if the limits of all waves from there on hold: nodes that leave and come,
disruption budgets jointly, budgets for nodes, sizes of groups, and what a wave has to save. What leaves, what comes
and where pods go is the same in the end. The moves are made again in their new order, so that the simulation decides
whether every pod has its place at all times; otherwise the waves stay as they were. Deterministic. Raises
MoveLogFullError.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability.limits import admits
from trimtab.planner.model.tuning import ORDER_CHECKS
from trimtab.planner.replacement.judge import Wave, broken_limit, value_of
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.target import NOT_OPEN
from trimtab.planner.replacement.trial import Trial
from trimtab.planner.replacement.wave_limits import breaks_spot_rules, limits_of_wave
from trimtab.planner.replacement.wave_search import ReplacementWaves
from trimtab.planner.snapshot.columns import Bool, Int32, Int64


class _WavePart(NamedTuple):
    """Nodes that leave together. leaving : int32, ascending; new : (node of the simulation, group) of each new node;
    pods : int32[M]; node : int32[M] node of the simulation of each."""

    leaving: Int32
    new: tuple[tuple[int, int], ...]
    pods: Int32
    node: Int32


def move_parts_forward(search: ReplacementWaves) -> None:
    """Move parts of the adopted waves into earlier ones. The simulation has the moves of all waves afterwards."""
    before = list(search.waves)
    if len(before) < 2:
        return
    plan = _WavePlan(search, before)
    if not plan.improve():
        return
    start = before[0].start
    search.target = None
    search.undo(0, start)
    try:
        plan.adopt()
    except RuntimeError:
        search.undo(0, start)
        for wave in before:
            search.adopt_again(wave)


class _WavePlan:
    """The parts of each wave, in order."""

    def __init__(self, search: ReplacementWaves, waves: Sequence[Wave]) -> None:
        self._search, self._context = search, search.context
        self._home = np.repeat(np.arange(len(self._context.request.leaving)), np.diff(self._context.pods.offsets))
        order = np.argsort(self._context.pods.pods, kind="stable")
        self._pods, self._home = self._context.pods.pods[order], self._home[order]
        self._waves = [self._parts_of(wave) for wave in waves]
        self._waits = _may_not_be_first(search)
        self._checks = 0

    def improve(self) -> bool:
        """Move what can be moved; return whether anything was."""
        moved = False
        for number in range(1, len(self._waves)):
            for part in list(self._waves[number]):
                earliest = self._earliest(part)
                for earlier in range(earliest, number):
                    if self._move(part, number, earlier):
                        moved = True
                        break
        self._waves = [parts for parts in self._waves if parts]
        return moved

    def adopt(self) -> None:
        """Make the moves in the simulation. Raises RuntimeError if pods do not fit."""
        renamed: dict[int, int] = {}
        opened = 0
        for parts in self._waves:
            rows = [new_node for part in parts for new_node in part.new]
            spare = self._search.packer.growth.spare_nodes[opened : opened + len(rows)]
            place = {row: number for number, (row, _) in enumerate(rows)}
            renamed |= {row: int(new) for (row, _), new in zip(rows, spare, strict=True)}
            opened += len(rows)
            self._search.adopt_again(self._wave(parts, place, renamed, spare))

    def _wave(self, parts: Sequence[_WavePart], place: dict[int, int], renamed: dict[int, int], spare: Int64) -> Wave:
        """Return a wave. place : of its new nodes; renamed : what each new node of the plan so far is now."""
        pods = np.concatenate([part.pods for part in parts])
        was = np.concatenate([part.node for part in parts])
        order = np.argsort(self._search.rank[pods], kind="stable")
        pods, was = pods[order], was[order]
        count = len(self._search.packer.simulation.state.node_state)
        node = np.array(
            [count + place[row] if row in place else renamed.get(row, row) for row in was.tolist()], np.int32
        )
        leaving = np.sort(np.concatenate([part.leaving for part in parts]))
        groups = tuple(group for part in parts for _, group in part.new)
        trial = Trial(leaving, groups, pods, node, pods[:0], (NOT_OPEN,) * len(groups))
        at = np.array([renamed.get(row, row) for row in was.tolist()], np.int32)
        return Wave(trial, value_of(self._context, leaving, groups), at, spare.copy(), 0)

    def _parts_of(self, wave: Wave) -> list[_WavePart]:
        """Return the parts of a wave, those with more nodes first."""
        home = self._home[np.searchsorted(self._pods, wave.trial.pods)]
        rows = wave.new_nodes.tolist()
        group_of = dict(zip(rows, wave.trial.group_of, strict=True))
        label = {key: key for key in [*wave.trial.leaving.tolist(), *(-1 - row for row in rows)]}

        def root(key: int) -> int:
            while label[key] != key:
                label[key] = label[label[key]]
                key = label[key]
            return key

        for node, row in {(n, r) for n, r in zip(home.tolist(), wave.node.tolist(), strict=True) if r in group_of}:
            label[root(-1 - row)] = root(node)
        of_node = np.array([root(node) for node in wave.trial.leaving.tolist()], np.int64)
        of_pod = np.array([root(node) for node in home.tolist()], np.int64)
        parts = [
            _WavePart(
                wave.trial.leaving[of_node == number],
                tuple((row, group) for row, group in group_of.items() if root(-1 - row) == number),
                wave.trial.pods[of_pod == number],
                wave.node[of_pod == number],
            )
            for number in np.unique(of_node).tolist()
        ]
        return sorted(parts, key=lambda part: (-len(part.leaving), int(part.leaving[0])))

    def _earliest(self, part: _WavePart) -> int:
        """Return the first wave by which all nodes that a part's pods go to are there."""
        own, needed = {row for row, _ in part.new}, set(part.node.tolist())
        needed -= own
        first = 1 if self._waits[part.leaving].any() else 0
        for number, parts in enumerate(self._waves):
            if any(row in needed for other in parts for row, _ in other.new):
                first = max(first, number)
        return first

    def _move(self, part: _WavePart, number: int, earlier: int) -> bool:
        """Move a part of a wave to an earlier one if all limits hold; return whether they do."""
        settings = self._context.request.settings
        into = [*self._waves[earlier], part]
        if sum(len(other.leaving) for other in into) > settings.max_leaving_nodes:
            return False
        if sum(len(other.new) for other in into) > settings.max_surge_nodes or self._checks >= ORDER_CHECKS:
            return False
        self._checks += 1
        waves = list(self._waves)
        waves[earlier] = into
        waves[number] = [other for other in waves[number] if other is not part]
        if not self._holds(waves, earlier, number):
            return False
        self._waves = waves
        return True

    def _holds(self, waves: Sequence[Sequence[_WavePart]], first: int, last: int) -> bool:
        """Return whether waves keep their limits."""
        context = self._context
        groups, group = len(context.request.snapshot.groups), context.request.snapshot.nodes.group
        removed, added, gone = np.zeros(groups, np.int64), np.zeros(groups, np.int64), context.pods.pods[:0]
        for number, parts in enumerate(waves[: last + 1]):
            if not parts:
                continue
            leaving = np.sort(np.concatenate([group_row.leaving for group_row in parts]))
            new = tuple(group_row for part in parts for _, group_row in part.new)
            counts = np.bincount(np.array(new, np.int64), minlength=groups).astype(np.int64)
            if number >= first:
                budgets = context.budgets_later if number else context.budgets_now
                limits = limits_of_wave(context, budgets, removed, added, gone)
                value = value_of(context, leaving, new)
                if not (admits(limits, leaving) and context.limits.after(added, removed).admit(counts)):
                    return False
                if broken_limit(context, value) or breaks_spot_rules(self._search.spots, leaving, new):
                    return False
            added += counts
            np.add.at(removed, group[leaving], 1)
            gone = np.concatenate([gone, leaving])
        return True


def _may_not_be_first(search: ReplacementWaves) -> Bool:
    """Return the nodes that may not be in the first wave: those to which scale-down moves pods, unless there is one
    in it, and those that have not been planned for `stable_time`. bool[N]."""
    context: ReplacementContext = search.context
    stable_ns, since = context.request.settings.stable_time_ns, context.earlier.planned_ns
    is_new = (since == 0) | (context.request.now_ns - since < stable_ns)
    waits: Bool = is_new & (stable_ns > 0)
    is_after = bool(context.takes_pods[search.waves[0].trial.leaving].any())
    return waits if is_after else waits | context.takes_pods
