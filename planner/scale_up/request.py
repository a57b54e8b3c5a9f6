"""The input of the scale-up decision."""

from typing import TypeAlias

from trimtab.v1 import plan_pb2 as pb

from planner.model.settings import ScaleUpSettings
from planner.round.request import DecisionRequest

ScaleUpRequest: TypeAlias = DecisionRequest[ScaleUpSettings, pb.ScaleUpState]
