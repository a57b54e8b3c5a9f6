"""The client side of a delta session: send the whole cluster once, then changes; start again if the base is lost.

Decides what is sent: snapshot or delta, state or its version. The planner stays stateless: a replica without the base
or the state says so, and then receives all of it. Reads only the versions of an answer.
"""

from collections.abc import Callable

from trimtab.clients.loop.loop_clock import shift
from trimtab.clients.planner_client import PlannerLink
from trimtab.clients.required_features import require_features
from trimtab.common.rpc.client import is_overloaded
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, snapshot_pb2


class PlannerSession:
    """Successive requests to one planner about one cluster."""

    def __init__(self, link: PlannerLink) -> None:
        self._link = link
        self._version = ""
        self._state: plan_pb2.PlanState | None = None
        self._state_version = ""
        # Whole snapshots sent, for metrics and tests.
        self.whole_count = 0

    @property
    def state(self) -> plan_pb2.PlanState | None:
        """Return the planner's state after the last answer."""
        return self._state

    @property
    def has_base(self) -> bool:
        """Whether the next call may send changes instead of the whole cluster."""
        return bool(self._version)

    def resume(self, state: plan_pb2.PlanState | None) -> None:
        """Continue from a state that was kept elsewhere; None = without state."""
        self._state, self._state_version = state, ""

    def shift_timers(self, by_s: float) -> None:
        """Shift the times of the state, in place, by a step of the wall clock."""
        if self._state is not None:
            shift(self._state, by_s)
            self._state_version = ""  # the planner's copy has the old times

    def edit_state(self, edit: Callable[[plan_pb2.PlanState], None]) -> None:
        """Change the state in place, if there is one; the next request sends it whole."""
        if self._state is not None:
            edit(self._state)
            self._state_version = ""

    def decisions(self) -> list[plan_pb2.Decision.Code.ValueType]:
        """Return the decisions that the planner offers."""
        return list(self._link.info().decisions)

    def plan(
        self, request: plan_pb2.PlanRequest, update: SnapshotUpdate, whole: Callable[[], SnapshotUpdate]
    ) -> tuple[plan_pb2.PlanResponse, SnapshotUpdate]:
        """Return the answer, and the request that was sent. request : without versions, sizes and state, which are
        filled in; taken : the changes since the last call, or the whole cluster; whole : returns the whole cluster, for
        when the planner needs it. After an error the next call must send the whole cluster, unless `has_base`: then an
        overloaded planner refused changes, and the next call sends these again, plus those since.
        """
        version, self._version = self._version, ""
        if update.snapshot is None and not version:
            update = whole()
        try:
            answer = self._send(request, update, version)
        except TrimtabError as error:
            if is_overloaded(error) and update.snapshot is None:
                self._version = version
            if error.reason != Reason.SNAPSHOT_BASE_UNKNOWN:
                raise
            update = whole()
            answer = self._send(request, update, "")
        self._version = answer.snapshot_version
        self._state, self._state_version = answer.state, answer.state_version
        return answer, update

    def ask(self, request: plan_pb2.PlanRequest, update: SnapshotUpdate) -> plan_pb2.PlanResponse:
        """Return the answer to a prepared request, with its own state if it has one. A request with only a state
        version continues from the last answer of this session.
        """
        if request.HasField("state"):
            self._state, self._state_version = request.state, ""
        elif not request.state_version:
            self._state, self._state_version = None, ""
        copied = plan_pb2.PlanRequest()
        copied.CopyFrom(request)
        version, self._version = self._version, ""
        answer = self._send(copied, update, version)
        self._version = answer.snapshot_version
        self._state, self._state_version = answer.state, answer.state_version
        return answer

    def _send(self, request: plan_pb2.PlanRequest, update: SnapshotUpdate, version: str) -> plan_pb2.PlanResponse:
        """Send one request; send it again with the whole state if the planner does not have it."""
        payload = _payload(update)
        require_features(request, _changed_rows(update))
        request.base_version = "" if update.snapshot is not None else version
        request.snapshot_size_bytes = len(payload)
        self.whole_count += update.snapshot is not None
        self._put_state(request)
        try:
            return self._link.send(request, payload)
        except TrimtabError as error:
            if error.reason != Reason.STATE_UNKNOWN:
                raise
        # From now on it goes whole.
        self._state_version = ""
        self._put_state(request)
        return self._link.send(request, payload)

    def _put_state(self, request: plan_pb2.PlanRequest) -> None:
        request.ClearField("state")
        request.state_version = ""
        if self._state is None:
            return
        if self._state_version:
            request.state_version = self._state_version
        else:
            request.state.CopyFrom(self._state)


def _changed_rows(update: SnapshotUpdate) -> snapshot_pb2.ClusterSnapshot | None:
    """Return the rows that are sent; None = nothing has changed."""
    if update.snapshot is not None:
        return update.snapshot
    return None if update.delta is None or update.is_empty else update.delta.changed


def _payload(update: SnapshotUpdate) -> bytes:
    """Encode a snapshot or delta; a delta without change is empty."""
    if update.snapshot is not None:
        return update.snapshot.SerializeToString(deterministic=True)
    if update.delta is None or update.is_empty:
        return b""
    return update.delta.SerializeToString(deterministic=True)
