"""The scale-up decision: choose a group, let it grow, and again with the pods that are left.

Never acts, never looks at a clock. The round's simulation is left with the new nodes open and all pods placed.
"""

from typing import Final

import numpy as np

from planner.placement.packing import packer
from planner.round.decision import Decided
from planner.scale_up.choose import Choice, choose
from planner.scale_up.estimate import admitting, estimate
from planner.scale_up.growing import Growing
from planner.scale_up.kernels.settling import first_fit
from planner.scale_up.ledger import Ledger
from planner.scale_up.reasons import refuse
from planner.scale_up.report.answer import Finding, conclude, not_tried
from planner.scale_up.request import ScaleUpRequest
from planner.scale_up.situation import Situation, survey
from planner.scale_up.waiting_pods import place_waiting
from planner.simulation.build import Simulation
from planner.simulation.log import MoveLogFullError, check_log, current_mark, with_larger_log
from planner.snapshot.columns import Int32

MOST_ROUNDS: Final = 8
"""How often the plan is completed when all its new nodes are there from the start."""


def decide_scale_up(request: ScaleUpRequest) -> Decided:
    """Take the scale-up decision.

    A log that proves too short is replaced by a larger one, and all is decided again.
    """
    if not request.settings.enabled:
        return not_tried(request)
    situation = survey(request)
    start = current_mark(request.round.simulation.state)
    while True:
        simulation = request.round.simulation
        try:
            finding = _Attempt(situation, simulation).run()
            check_log(simulation.state)
        except MoveLogFullError:
            request.round.go_on_with(simulation._replace(state=with_larger_log(simulation.state, start)))
        else:
            return conclude(finding)


class _Attempt:
    """One attempt at the plan, with room for so many moves as the log has."""

    def __init__(self, situation: Situation, simulation: Simulation) -> None:
        request = situation.request
        self.situation, self.simulation = situation, simulation
        within = packer(simulation, request.round.growth)
        ledger = Ledger(request.snapshot.groups, situation.templates, request.settings.max_new_nodes)
        self.growing = Growing(within, ledger)
        self.choices: list[Choice] = []
        self.admits = admitting(within)

    def run(self) -> Finding:
        """Plan, and settle the plan with all its nodes there from the start."""
        waiting = place_waiting(self.situation, self.simulation)
        before = current_mark(self.simulation.state)
        left, refusals = self._grow(waiting.left), None
        for _ in range(MOST_ROUNDS):
            opened = len(self.growing.group_of)
            if opened:
                left = np.concatenate([left, self.growing.open_all_first(before)])
                left = self._fill(left)
            refusals = refuse(self.growing, left) if len(left) else None
            helped = left[refusals.helped] if refusals else left[:0]
            if not len(helped):
                break
            rest = self._grow(helped)
            left = np.concatenate([left[~np.isin(left, helped)], rest])
            if len(self.growing.group_of) == opened:
                break
        return Finding(self.situation, self.simulation, waiting, self.growing, self.choices, refusals)

    def _grow(self, left: Int32) -> Int32:
        """Choose groups until nothing helps; return the pods that are left."""
        while len(left):
            options = [
                found
                for group in range(len(self.growing.ledger.groups))
                if (found := estimate(self.growing, self.admits, group, left)) is not None
            ]
            if not options:
                break
            choice = choose(self.growing, options)
            self.choices.append(choice)
            option = choice.options[choice.chosen]
            rest = self.growing.open([option.group] * option.node_count, option.pods, option.packed.node_of)
            left = np.concatenate([rest, left[~np.isin(left, option.pods)]])
        return left

    def _fill(self, left: Int32) -> Int32:
        """Place pods wherever an open node admits them; return those that find no place."""
        state = self.simulation.state
        nodes = np.concatenate(
            [self.growing.opened, np.flatnonzero(self.situation.room), self.growing.within.growth.upcoming]
        )
        placed = np.full(len(left), -1, np.int64)
        first_fit(state, left, nodes.astype(np.int64), np.zeros(len(state.local_class), np.int64), placed)
        self.growing.note(left, placed)
        return left[placed < 0]
