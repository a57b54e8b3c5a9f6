"""Advisory mode: all decisions are taken, nothing is carried out; counts what it would have cost and saved.

Decides what counts: the growth that a round would order, the nodes that it would delete now, and all waves of its
replacements, as long as rounds propose them. Money is in the currency of the prices, and passes from round to round by
time, as if an order were carried out at once; a pause of the loop counts at most `LONGEST_S`. Units: seconds, and hours
where named.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.verdicts import known_prices
from trimtab.v1 import plan_pb2

LONGEST_S: Final = 300.0
"""Longest time between two rounds that counts: for a longer one it is not known what would have been done."""
HOUR_S: Final = 3600.0
_Observer = Callable[[CallbackOptions], Iterable[Observation]]
SCALE_UP, SCALE_DOWN, REPLACEMENT = "SCALE_UP", "SCALE_DOWN", "REPLACEMENT"


class Proposal(NamedTuple):
    """What a round would do by one decision. `saved_per_hour` : below 0 is a cost; `new_nodes`, `leaving_nodes` : how
    many nodes come and go; `moved_pods` : how many pods are evicted.
    """

    saved_per_hour: float = 0.0
    new_nodes: int = 0
    leaving_nodes: int = 0
    moved_pods: int = 0


def proposals(done: RoundResult) -> dict[str, Proposal]:
    """Return what a round would do, by decision."""
    answer = done.answer
    of = {one.decision: one for one in answer.summary.decisions} if not answer.summary.assumption else {}
    growth = of.get(plan_pb2.Decision.SCALE_UP, plan_pb2.DecisionFigures())
    replacement = of.get(plan_pb2.Decision.REPLACEMENT, plan_pb2.DecisionFigures())
    removal = answer.scale_down
    going = {*removal.delete_empty, *removal.drain}
    prices = known_prices(answer)
    return {
        SCALE_UP: Proposal(
            -growth.bought_per_hour, sum(one.new_size - one.current_size for one in answer.scale_up.splits)
        ),
        SCALE_DOWN: Proposal(
            sum(prices.get(node, 0.0) for node in sorted(going)),
            0,
            len(going),
            sum(one.assumption.pods_to_move_count for one in removal.unneeded if one.node in going),
        ),
        REPLACEMENT: Proposal(
            replacement.saved_per_hour - replacement.bought_per_hour,
            sum(len(wave.new_nodes) for wave in answer.replacement.waves),
            sum(len(wave.leaving) for wave in answer.replacement.waves),
            sum(wave.evicted_pod_count for wave in answer.replacement.waves),
        ),
    }


class Advisory:
    """What rounds would have done, and what that would have cost and saved since the first one."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._now: dict[str, Proposal] = {name: Proposal() for name in (SCALE_UP, SCALE_DOWN, REPLACEMENT)}
        self._last_s: float | None = None
        self._since_s = 0.0
        self._saved: dict[str, float] = dict.fromkeys(self._now, 0.0)
        self._cost: dict[str, float] = dict.fromkeys(self._now, 0.0)
        if meter is not None:
            self._export(meter)

    @property
    def saved(self) -> Mapping[str, float]:
        """What would have been saved so far, by decision."""
        return self._saved

    @property
    def cost(self) -> Mapping[str, float]:
        """What would have been spent more so far, by decision."""
        return self._cost

    def add(self, now_s: float, done: RoundResult) -> None:
        """Take a round into account. now_s : Unix seconds, or those of any clock."""
        if self._last_s is None:
            self._since_s = now_s
        else:
            hours = min(max(now_s - self._last_s, 0.0), LONGEST_S) / HOUR_S
            for name, before in self._now.items():
                self._saved[name] += max(0.0, before.saved_per_hour) * hours
                self._cost[name] += max(0.0, -before.saved_per_hour) * hours
        self._last_s, self._now = now_s, proposals(done)

    def document(self) -> dict[str, Any]:
        """Return it for the status: what the last round would do, and the sums since the first one, to the cent."""
        decisions = {
            name: {
                "savesPerHour": round(one.saved_per_hour, 4),
                "newNodes": one.new_nodes,
                "leavingNodes": one.leaving_nodes,
                "movedPods": one.moved_pods,
            }
            for name, one in self._now.items()
        }
        return {
            "nothingIsCarriedOut": True,
            "wouldDo": decisions,
            "wouldHaveSaved": round(sum(self._saved.values()), 2),
            "wouldHaveCost": round(sum(self._cost.values()), 2),
        }

    def sentence(self) -> str:
        """Return the sums as a sentence for people."""
        saved, cost = sum(self._saved.values()), sum(self._cost.values())
        hours = ((self._last_s or 0.0) - self._since_s) / HOUR_S
        return f"in {hours:.2f} h it would have saved {saved:.2f} and spent {cost:.2f} more; nothing was carried out"

    def _export(self, meter: Meter) -> None:
        def by_decision(amounts: Callable[[], Mapping[str, float]]) -> _Observer:
            return lambda _options: [Observation(amount, {"decision": name}) for name, amount in amounts().items()]

        meter.create_observable_counter(
            "trimtab_would_have_saved",
            [by_decision(lambda: self._saved)],
            description="What would have been saved so far, in the currency of the prices",
        )
        meter.create_observable_counter(
            "trimtab_would_have_cost",
            [by_decision(lambda: self._cost)],
            description="What would have been spent more so far, in the currency of the prices",
        )
        meter.create_observable_gauge(
            "trimtab_would_save_per_hour",
            [by_decision(lambda: {name: one.saved_per_hour for name, one in self._now.items()})],
            description="What the last round would save in an hour; below 0 is a cost",
        )
        meter.create_observable_gauge(
            "trimtab_would_add_nodes",
            [by_decision(lambda: {name: one.new_nodes for name, one in self._now.items()})],
            description="Nodes that the last round would order",
        )
        meter.create_observable_gauge(
            "trimtab_would_remove_nodes",
            [by_decision(lambda: {name: one.leaving_nodes for name, one in self._now.items()})],
            description="Nodes that the last round would delete or replace",
        )
