"""The input of the scale-up decision."""

from typing import NamedTuple

from trimtab.v1 import plan_pb2 as pb

from planner.model.settings import ScaleUpSettings
from planner.round.round import Round
from planner.snapshot.columns import Snapshot


class ScaleUpRequest(NamedTuple):
    """The round, the settings of scale-up, and its state of the last answer, None = first loop."""

    round: Round
    settings: ScaleUpSettings
    state: pb.ScaleUpState | None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the round."""
        return self.round.snapshot

    @property
    def now_ns(self) -> int:
        """The time of the round, Unix nanoseconds."""
        return self.round.now_ns
