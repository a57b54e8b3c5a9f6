"""The input of a decision that simulates: the round, and the decision's own settings and state."""

from typing import Generic, NamedTuple, TypeVar

from trimtab.planner.model.derive import Derive, Reuse
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Snapshot

Settings = TypeVar("Settings")
State = TypeVar("State")


class DecisionRequest(NamedTuple, Generic[Settings, State]):
    """The round, the settings of a decision, and its state of the last answer, None = first loop."""

    round: Round
    settings: Settings
    state: State | None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the round."""
        return self.round.snapshot

    @property
    def now_ns(self) -> int:
        """The time of the round, Unix nanoseconds."""
        return self.round.now_ns

    @property
    def derive(self) -> Derive:
        """Cache of values that depend on the snapshot only."""
        return self.round.work.derive

    @property
    def limits(self) -> RequestLimits:
        """Limits of the request, on time and memory."""
        return self.round.work.limits

    @property
    def reuse(self) -> Reuse:
        """Cache of encodings of the same content."""
        return self.round.work.reuse
