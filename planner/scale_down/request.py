"""The input of the scale-down decision."""

from typing import TypeAlias

from trimtab.planner.model.settings import ScaleDownSettings
from trimtab.planner.round.request import DecisionRequest
from trimtab.v1 import plan_pb2 as pb

ScaleDownRequest: TypeAlias = DecisionRequest[ScaleDownSettings, pb.ScaleDownState]
