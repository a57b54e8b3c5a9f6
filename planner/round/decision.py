"""The face of a decision: what its package offers, and what it answers.

A decision is one package with one `Decision`, and one line in `planner.decisions.table`. Requests, answers, state,
notes, logs, metrics and the warm-up follow from the table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.message import Message
from trimtab.v1 import plan_pb2 as pb

from planner.round.round import Round
from planner.simulation.growth import GrowthNeed
from planner.snapshot.columns import Snapshot


def _nothing() -> None:
    """Leave the simulation as it is."""


class Decided(NamedTuple):
    """What a decision answers.

    result : the decision's field of `PlanResponse`; state : its field of `PlanState`, for the next request; notes :
    what the caller should know; finish : brings what was decided into the round's simulation, as far as it is not there
    yet, called only where another decision follows; more : the rest of the result as bytes of messages, merged in turn
    once it is in the answer, because a copy of many entries takes as long as reading them.
    """

    result: Message
    state: Message
    notes: tuple[str, ...] = ()
    finish: Callable[[], None] = _nothing
    more: Iterable[bytes] = ()


class Summary(NamedTuple):
    """What logs and metrics say of a result. result : name of an enumeration's value; counts : numbers by name."""

    result: str
    counts: dict[str, int]


@dataclass(frozen=True)
class Decision:
    """One decision.

    resolve : returns its settings from those of the request; raises SettingsError; decide : takes the decision, given
    the round, the settings as `resolve` returns them, and the state of the last answer, None = first loop; summarize :
    returns what came of a result; warm_up : changes the settings of the request with which kernels are compiled, so
    that all of them run; growth : returns what the decision asks of the simulation so that groups can grow in it
    (`Round.growth`), a function of snapshot, settings and Unix nanoseconds; None = nothing.
    """

    code: "pb.Decision.Code.ValueType"
    resolve: Callable[[pb.PlanSettings], Any]
    decide: Callable[[Round, Any, Any], Decided]
    summarize: Callable[[Any], Summary]
    warm_up: Callable[[pb.PlanSettings], None]
    growth: Callable[[Snapshot, Any, int], GrowthNeed | None] | None = None

    @property
    def name(self) -> str:
        """Name of the decision, as `Decision.Code` has it."""
        return pb.Decision.Code.Name(self.code)

    @property
    def field(self) -> str:
        """Name of its field in `PlanSettings`, `PlanState` and `PlanResponse`."""
        return self.name.lower()
