"""The input of the scale-up decision."""

from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.round.request import DecisionRequest
from trimtab.planner.simulation.growth import Growth
from trimtab.v1 import plan_pb2 as pb


class ScaleUpRequest(DecisionRequest[ScaleUpSettings, pb.ScaleUpState]):
    """The round, the settings of scale-up, and its state of the last answer."""

    __slots__ = ()

    @property
    def growth(self) -> Growth:
        """The virtual nodes with which groups grow."""
        return self.round.growth_of(pb.Decision.SCALE_UP)
