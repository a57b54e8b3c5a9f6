"""What a plan does for gangs, and why one gets no places. Decides nothing."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.scale_up.reasons import Refusals
from trimtab.v1.reason_pb2 import GangReason


class Rejection(NamedTuple):
    """gang : position among the gangs with pending pods; reason : `GangReason.Code`; node_groups : ids of those whose
    limit binds; lacking : pods without a place that it needs, 0 = places were not looked for; detail : one sentence."""

    gang: int
    reason: "GangReason.Code.ValueType"
    node_groups: tuple[str, ...] = ()
    lacking: int = 0
    detail: str = ""


class GangOutcome(NamedTuple):
    """gangs : all that have pending pods; rejections : of those without places, by position; refusals : why their pods,
    and others that have to be where their gang is, have none; domains : value of each gang's topology key, "" = none.
    """

    gangs: Sequence[Gang]
    rejections: Mapping[int, Rejection]
    refusals: Refusals
    domains: Sequence[str]
