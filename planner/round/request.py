"""The input of a decision that simulates: the round, and the decision's own settings and state."""

from typing import Generic, NamedTuple, TypeVar

from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.caches import KeyedCache, SnapshotCache
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
    def cache(self) -> SnapshotCache:
        """Cache of values of the snapshot."""
        return self.round.work.cache

    @property
    def limits(self) -> RequestLimits:
        """Limits of the request, on time and memory."""
        return self.round.work.limits

    @property
    def encodings(self) -> KeyedCache:
        """Cache of encodings of the same content."""
        return self.round.work.encodings
