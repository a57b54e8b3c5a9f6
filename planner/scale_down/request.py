"""The input of the scale-down decision."""

from typing import TypeAlias

from trimtab.v1 import plan_pb2 as pb

from planner.model.settings import ScaleDownSettings
from planner.round.request import DecisionRequest

ScaleDownRequest: TypeAlias = DecisionRequest[ScaleDownSettings, pb.ScaleDownState]
