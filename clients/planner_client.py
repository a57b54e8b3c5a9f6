"""Access to a planner: two links of one protocol, a service over gRPC (`GrpcLink`) or a planner in this process
(`trimtab.clients.in_process_planner`), and `PlannerClient`, which plans over whole snapshots with either.

Decides how a request travels; an answer never depends on earlier calls. Whoever follows a cluster sends its changes: as
objects (`trimtab.clients.object_session`) or as deltas (`trimtab.clients.loop.planner_session`). Raises `TrimtabError`.
Units: seconds.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol, cast

from trimtab.clients.required_features import require_features
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import (
    Closing,
    ServiceConnection,
    about_cluster,
    call_once,
    is_overloaded,
    is_unavailable,
    new_session,
    stream,
)
from trimtab.common.rpc.retries import RetryPolicy, attempts, with_retries
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

PIECE_BYTES: Final = 1 << 20
"""Largest piece of a snapshot that the contract allows."""
CALL_TIMEOUT_S: Final = 60.0
"""Default deadline of a call. It bounds the simulation, and is therefore not small."""
WHILE_BUSY: Final = attempts(3, 0.5, 2.0)
"""How often a request is sent to an overloaded planner, after it has waited there for its turn."""


class PlannerLink(Protocol):
    """The planner as clients and sessions use it. Raises TrimtabError."""

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Call `Plan`; `payload` is the encoded snapshot or delta."""

    def close(self) -> None:
        """End the connection, if there is one; calls in progress fail."""


class CheckFitLink(PlannerLink, Protocol):
    """A link that can also check where pods fit."""

    def check_fit(self, request: plan_pb2.PlanRequest, payload: bytes) -> Iterable[planner_pb2.CheckFitResponse]:
        """Call `CheckFit`; return answers as the planner sends them."""


class _Cancellable(Protocol):
    """A call in progress."""

    def cancel(self) -> bool:
        """End it."""


class GrpcLink(ServiceConnection):
    """A planner service at "host:port". Close it, or use it as a context."""

    def __init__(
        self,
        address: str,
        timeout_s: float = CALL_TIMEOUT_S,
        policy: RetryPolicy | None = None,
        security: ChannelSecurity | None = None,
    ) -> None:
        """Set up. security : None = from the environment (TRIMTAB_TLS_CA, …). Errors: ValueError, OSError."""
        super().__init__(address, policy, timeout_s, security)
        self._session = new_session()
        self._stub = planner_pb2_grpc.PlannerStub(self._channel)

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        request = planner_pb2.GetPlannerInfoRequest()
        return self._invoke(lambda: self._stub.GetInfo(request, timeout=self._timeout_s))

    def balance_scale_up(self, request: planner_pb2.BalanceScaleUpRequest) -> planner_pb2.BalanceScaleUpResponse:
        """Ask how to split new nodes between node groups."""
        return self._invoke(lambda: self._stub.BalanceScaleUp(request, timeout=self._timeout_s))

    def send(self, request: plan_pb2.PlanRequest, payload: bytes) -> plan_pb2.PlanResponse:
        """Call `Plan`; repeat it unchanged while the planner is unavailable, within the retry policy (five calls in
        total by default), and while it is overloaded (three calls in total).
        """
        metadata = about_cluster(self._session, request.cluster)

        def call() -> plan_pb2.PlanResponse:
            return self._stub.Plan(parts(request, payload), timeout=self._timeout_s, metadata=metadata)

        return with_retries(lambda: call_once(call), self._policy_of)

    def check_fit(self, request: plan_pb2.PlanRequest, payload: bytes) -> Iterator[planner_pb2.CheckFitResponse]:
        """Call `CheckFit`, repeated likewise until the first answer; an error of the request is raised here."""
        metadata = about_cluster(self._session, request.cluster)

        def begin() -> tuple[list[planner_pb2.CheckFitResponse], Iterator[planner_pb2.CheckFitResponse]]:
            answers = iter(self._stub.CheckFit(parts(request, payload), timeout=self._timeout_s, metadata=metadata))
            return [one for one in (next(answers, None),) if one is not None], answers

        return _chain(*with_retries(lambda: call_once(begin), self._policy_of))

    def _policy_of(self, error: BaseException) -> RetryPolicy | None:
        """Return how often a request is sent that failed in this way; None = once."""
        if is_overloaded(error):
            return WHILE_BUSY
        return self._policy if is_unavailable(error) else None


def _chain(
    first: list[planner_pb2.CheckFitResponse], rest: Iterator[planner_pb2.CheckFitResponse]
) -> Iterator[planner_pb2.CheckFitResponse]:
    try:
        yield from first
        yield from stream(lambda: rest)
    finally:
        cast(_Cancellable, rest).cancel()


class PlannerClient(Closing):
    """Plans over whole snapshots. Close it, or use it as a context; thread-safe."""

    def __init__(
        self,
        planner: str | CheckFitLink,
        policy: RetryPolicy | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        security: ChannelSecurity | None = None,
    ) -> None:
        """Set up. planner : "host:port", with the other arguments as for `GrpcLink`, or a link. Errors: ValueError,
        OSError."""
        self.link = GrpcLink(planner, timeout_s, policy, security) if isinstance(planner, str) else planner

    def close(self) -> None:
        """Close the link; calls in progress are cancelled."""
        self.link.close()

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        return self.link.info()

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Ask for a plan. The fields that describe the snapshot are set in a copy of `request`."""
        return self.link.send(*_whole(snapshot, request))

    def plan_delta(
        self, delta: snapshot_pb2.SnapshotDelta, base_version: str, request: plan_pb2.PlanRequest
    ) -> plan_pb2.PlanResponse:
        """Ask for a plan over changes to a snapshot that was planned for. The caller handles SNAPSHOT_BASE_UNKNOWN."""
        return self.link.send(
            *_described(request, delta.SerializeToString(deterministic=True), delta.changed, base_version)
        )

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Ask which nodes each pod fits; return answers as the planner sends them."""
        return self.link.check_fit(*_whole(snapshot, request))


def _whole(snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> tuple[plan_pb2.PlanRequest, bytes]:
    return _described(request, snapshot.SerializeToString(deterministic=True), snapshot, "")


def _described(
    request: plan_pb2.PlanRequest, payload: bytes, rows: snapshot_pb2.ClusterSnapshot, base_version: str
) -> tuple[plan_pb2.PlanRequest, bytes]:
    """Return a copy of a request with the fields that describe its payload, and the payload."""
    header = plan_pb2.PlanRequest()
    header.CopyFrom(request)
    header.base_version, header.snapshot_size_bytes = base_version, len(payload)
    require_features(header, rows)
    return header, payload


def parts(request: plan_pb2.PlanRequest, payload: bytes) -> Iterator[planner_pb2.PlanRequestPart]:
    """Yield a request as the contract streams it: the header, then the snapshot in pieces."""
    yield planner_pb2.PlanRequestPart(request=request)
    for index, start in enumerate(range(0, len(payload), PIECE_BYTES)):
        piece = planner_pb2.SnapshotPart(index=index, data=payload[start : start + PIECE_BYTES])
        yield planner_pb2.PlanRequestPart(snapshot=piece)
