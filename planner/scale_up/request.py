"""The input of the scale-up decision."""

from typing import TypeAlias

from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.round.request import DecisionRequest
from trimtab.v1 import plan_pb2 as pb

ScaleUpRequest: TypeAlias = DecisionRequest[ScaleUpSettings, pb.ScaleUpState]
