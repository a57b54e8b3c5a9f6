"""Validation of a request, except for snapshot and settings. Raises RequestError, DecisionUnavailableError,
FeatureUnknownError.
"""

from collections.abc import Sequence
from typing import Final

from trimtab.planner.decisions.table import TABLE, Table
from trimtab.planner.snapshot.checks import MAX_TIME_S
from trimtab.setting_options import FEATURES
from trimtab.v1 import plan_pb2 as pb

MAX_REQUEST_ID_BYTES: Final = 128
MAX_CLUSTER_BYTES: Final = 253
MAX_VERSION_BYTES: Final = 64
MAX_FEATURES: Final = 256
MAX_FEATURE_BYTES: Final = 128


class RequestError(ValueError):
    """A field of the request has an unusable value."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class DecisionUnavailableError(ValueError):
    """The decision exists, but not in this build."""

    def __init__(self, decision: str) -> None:
        super().__init__(f"decision {decision} is not available in this build; GetInfo lists those that are")
        self.decision = decision


class FeatureUnknownError(ValueError):
    """The request requires a feature that this build lacks."""

    def __init__(self, feature: str) -> None:
        super().__init__(f"required_features: {feature!r} is not a feature of this build; GetInfo lists those that are")
        self.feature = feature


def check_request(request: pb.PlanRequest) -> None:
    """Refuse requests that neither Plan nor CheckFit can use, and features that this build lacks."""
    _check_size("request_id", request.request_id, MAX_REQUEST_ID_BYTES)
    _check_size("cluster", request.cluster, MAX_CLUSTER_BYTES)
    _check_size("base_version", request.base_version, MAX_VERSION_BYTES)
    _check_size("state_version", request.state_version, MAX_VERSION_BYTES)
    _check_features(request.required_features)
    if not request.HasField("now"):
        raise RequestError("now", "it is missing; give the time to decide for")
    if not (0 < request.now.seconds <= MAX_TIME_S and 0 <= request.now.nanos < 1_000_000_000):
        raise RequestError("now", f"{request.now.seconds} s is not a time; use 1 to {MAX_TIME_S} s since 1970")


def _check_features(required: Sequence[str]) -> None:
    """Refuse features that this build lacks, the first one by name."""
    if len(required) > MAX_FEATURES:
        raise RequestError("required_features", f"there are {len(required)}; use at most {MAX_FEATURES}")
    for index, feature in enumerate(required):
        _check_size(f"required_features[{index}]", feature, MAX_FEATURE_BYTES)
    unknown = set(required).difference(FEATURES)
    if unknown:
        raise FeatureUnknownError(min(unknown))


def check_decisions(request: pb.PlanRequest, table: Table = TABLE) -> None:
    """Refuse a list of decisions that is empty, has one twice, or one that does not exist or is not in the table."""
    if not request.decisions:
        raise RequestError("decisions", "it is empty; name at least one")
    codes = set(pb.Decision.Code.values()) - {pb.Decision.UNSPECIFIED}
    for i, decision in enumerate(request.decisions):
        if decision not in codes:
            raise RequestError(f"decisions[{i}]", f"{decision} is not a decision; use one of {sorted(codes)}")
        if decision in request.decisions[:i]:
            raise RequestError(f"decisions[{i}]", f"{pb.Decision.Code.Name(decision)} is given twice; name each once")
    available = {decision.code for decision in table}
    for decision in request.decisions:
        if decision not in available:
            raise DecisionUnavailableError(pb.Decision.Code.Name(decision))


def _check_size(field: str, value: str, limit: int) -> None:
    size = len(value.encode())
    if size > limit:
        raise RequestError(field, f"it has {size} bytes; use at most {limit}")
