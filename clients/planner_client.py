"""A client of the planner: takes whole snapshots, and handles deltas, chunks and resending itself.

Decides what is sent: the difference to the last snapshot that the planner confirmed, if there is one, and only the
version of the state if it is that of the last answer. Data that the planner no longer has are sent again, so an answer
never depends on earlier calls. One cluster for each client; thread-safe, one call at a time.

Raises `TrimtabError`. Units: seconds.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TypeVar, cast

import grpc

from trimtab.clients.required_features import require_features
from trimtab.common.deltas import InternedSnapshot, Interner, difference
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import about_cluster, connect, invoke, new_session, stream, wait_until_serving
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

T = TypeVar("T")
CHUNK_BYTES: Final = 1 << 20
CALL_TIMEOUT_S: Final = 60.0
"""Default deadline of a call. It bounds the simulation, and is therefore not small."""
_WORTH_A_DELTA_BYTES: Final = 256 << 10
"""Smaller snapshots are sent whole: computing the difference would take longer."""
_SURELY_LARGE_PODS: Final = 10_000
"""A snapshot with this many pods counts as large without computing its size, which takes as long as encoding it."""
_GROWTH: Final = 4
"""An interner with this many times the entries of its first snapshot is replaced."""
_WHOLE_MAY_HELP: Final = (Reason.SNAPSHOT_BASE_UNKNOWN, Reason.SNAPSHOT_INVALID, Reason.SNAPSHOT_MALFORMED)
"""Errors of a delta after which the whole snapshot is sent: the base is unknown or a different one, or a row is invalid
(the error is then reported with the row numbers of the whole snapshot)."""


class _Cancellable(Protocol):
    """A call in progress."""

    def cancel(self) -> bool:
        """End it."""


class _Base(NamedTuple):
    """The snapshot that the planner has confirmed. `version` : the planner's name for it."""

    version: str
    snapshot: InternedSnapshot


class _Payload(NamedTuple):
    """The data after the header. `base_version` : of the snapshot that a delta changes, "" = a whole snapshot;
    `snapshot` : of which `data` was made, None = the caller made it.
    """

    base_version: str
    data: bytes
    snapshot: InternedSnapshot | None


class PlannerClient:
    """The planner at "host:port". Opens the connection on first use; close it, or use it as a context."""

    def __init__(
        self,
        address: str,
        policy: RetryPolicy | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        security: ChannelSecurity | None = None,
    ) -> None:
        """Set up. security : None = from the environment (TRIMTAB_TLS_CA, …). Errors: ValueError, OSError."""
        self._channel: grpc.Channel = connect(address, security)
        self._session = new_session()
        self._policy = policy or RetryPolicy()
        self._timeout_s = timeout_s
        self._planner = planner_pb2_grpc.PlannerStub(self._channel)
        self._lock = threading.Lock()
        self._interner = Interner()
        self._first_size = 0
        self._base: _Base | None = None
        self._state: tuple[bytes, str] | None = None

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; calls in progress are cancelled."""
        self._channel.close()

    def wait_until_serving(self, timeout_s: float = 30.0) -> None:
        """Wait until the planner reports SERVING."""
        wait_until_serving(self._channel, timeout_s=timeout_s)

    def info(self) -> planner_pb2.GetPlannerInfoResponse:
        """Return the planner's capabilities."""
        request = planner_pb2.GetPlannerInfoRequest()
        return invoke(lambda: self._planner.GetInfo(request, timeout=self._timeout_s), self._policy)

    def balance_scale_up(self, request: planner_pb2.BalanceScaleUpRequest) -> planner_pb2.BalanceScaleUpResponse:
        """Ask how to split new nodes between node groups."""
        return invoke(lambda: self._planner.BalanceScaleUp(request, timeout=self._timeout_s), self._policy)

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Ask for a plan. The fields that describe the snapshot are set in a copy of `request`."""
        with self._lock:
            answer, sent = self._exchange(snapshot, request, self._plan)
            if sent.snapshot is not None:
                self._base = _Base(answer.snapshot_version, sent.snapshot)
            self._state = (answer.state.SerializeToString(deterministic=True), answer.state_version)
            return answer

    def plan_delta(
        self, delta: snapshot_pb2.SnapshotDelta, base_version: str, request: plan_pb2.PlanRequest
    ) -> plan_pb2.PlanResponse:
        """Ask for a plan over a delta from the caller. The caller handles SNAPSHOT_BASE_UNKNOWN."""
        with self._lock:
            header = plan_pb2.PlanRequest()
            header.CopyFrom(request)
            require_features(header, delta.changed)
            return self._plan(header, _Payload(base_version, delta.SerializeToString(), None))

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Ask which nodes each pod fits; return answers as the planner sends them."""
        with self._lock:
            first, _ = self._exchange(snapshot, request, self._check_fit)
        return first

    def _exchange(
        self,
        snapshot: snapshot_pb2.ClusterSnapshot,
        request: plan_pb2.PlanRequest,
        call: Callable[[plan_pb2.PlanRequest, _Payload], T],
    ) -> tuple[T, _Payload]:
        """Make a call with as little data as possible; repeat it with all data if the planner lacks some."""
        header = plan_pb2.PlanRequest()
        header.CopyFrom(request)
        require_features(header, snapshot)
        payload = self._payload(snapshot)
        self._shorten_state(header)
        while True:
            try:
                return call(header, payload), payload
            except TrimtabError as error:
                if error.reason in _WHOLE_MAY_HELP and payload.base_version:
                    self._base = None
                    payload = _Payload("", snapshot.SerializeToString(), payload.snapshot)
                elif error.reason == Reason.STATE_UNKNOWN and not request.state_version and header.state_version:
                    self._state = None
                    header.state_version = ""
                    header.state.CopyFrom(request.state)
                else:
                    raise

    def _payload(self, snapshot: snapshot_pb2.ClusterSnapshot) -> _Payload:
        """Return the difference to the confirmed snapshot, or the whole snapshot."""
        if snapshot.pods.count < _SURELY_LARGE_PODS and snapshot.ByteSize() < _WORTH_A_DELTA_BYTES:
            return _Payload("", snapshot.SerializeToString(), None)
        try:
            interned = self._intern(snapshot)
            delta = difference(self._base.snapshot, interned, self._interner) if self._base else None
        except (ValueError, IndexError):
            # The snapshot breaks the contract; the planner's error names the row.
            return _Payload("", snapshot.SerializeToString(), None)
        if self._base is None or delta is None:
            return _Payload("", snapshot.SerializeToString(), interned)
        return _Payload(self._base.version, delta.SerializeToString(), interned)

    def _intern(self, snapshot: snapshot_pb2.ClusterSnapshot) -> InternedSnapshot:
        if self._interner.size() > _GROWTH * self._first_size:
            self._interner, self._base, self._first_size = Interner(), None, 0
        interned = self._interner.intern(snapshot)
        self._first_size = self._first_size or self._interner.size()
        return interned

    def _shorten_state(self, header: plan_pb2.PlanRequest) -> None:
        """Replace the state by its version if it is that of the last answer."""
        if self._state is None or not header.HasField("state"):
            return
        data, version = self._state
        if header.state.SerializeToString(deterministic=True) == data:
            header.ClearField("state")
            header.state_version = version

    def _plan(self, header: plan_pb2.PlanRequest, payload: _Payload) -> plan_pb2.PlanResponse:
        metadata = about_cluster(self._session, header.cluster)
        return invoke(
            lambda: self._planner.Plan(parts(header, payload), timeout=self._timeout_s, metadata=metadata), self._policy
        )

    def _check_fit(self, header: plan_pb2.PlanRequest, payload: _Payload) -> Iterator[planner_pb2.CheckFitResponse]:
        """Return the answers; an error of the request is raised here, before the first answer."""

        metadata = about_cluster(self._session, header.cluster)

        def begin() -> tuple[list[planner_pb2.CheckFitResponse], Iterator[planner_pb2.CheckFitResponse]]:
            answers = iter(self._planner.CheckFit(parts(header, payload), timeout=self._timeout_s, metadata=metadata))
            return [one for one in (next(answers, None),) if one is not None], answers

        first, rest = invoke(begin, self._policy)
        return _chain(first, rest)


def _chain(
    first: list[planner_pb2.CheckFitResponse], rest: Iterator[planner_pb2.CheckFitResponse]
) -> Iterator[planner_pb2.CheckFitResponse]:
    try:
        yield from first
        yield from stream(lambda: rest)
    finally:
        cast(_Cancellable, rest).cancel()


def parts(header: plan_pb2.PlanRequest, payload: _Payload) -> Iterator[planner_pb2.PlanRequestPart]:
    """Yield a request as the contract streams it: the header, then the snapshot in pieces."""
    header.base_version, header.snapshot_size_bytes = payload.base_version, len(payload.data)
    yield planner_pb2.PlanRequestPart(request=header)
    for index, start in enumerate(range(0, len(payload.data), CHUNK_BYTES)):
        piece = planner_pb2.SnapshotPart(index=index, data=payload.data[start : start + CHUNK_BYTES])
        yield planner_pb2.PlanRequestPart(snapshot=piece)
