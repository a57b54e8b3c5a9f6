"""The input of the scale-down decision."""

from typing import NamedTuple

from trimtab.v1 import plan_pb2 as pb

from planner.model.derive import Derive, Reuse
from planner.model.effort import Effort
from planner.model.settings import ScaleDownSettings
from planner.round.round import Round
from planner.snapshot.columns import Snapshot


class ScaleDownRequest(NamedTuple):
    """The round, the settings of scale-down, and its state of the last answer, None = first loop."""

    round: Round
    settings: ScaleDownSettings
    state: pb.ScaleDownState | None

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
        return self.round.derive

    @property
    def effort(self) -> Effort:
        """Limits on the decision's effort."""
        return self.round.effort

    @property
    def reuse(self) -> Reuse:
        """Cache of encodings of the same content."""
        return self.round.reuse
