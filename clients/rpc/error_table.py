"""Every error of the contract in one table: when it is sent, with which gRPC code, what the caller does.

Decides code and wording of the documentation. `protos/README.md` shows this table; a test compares the two, and checks
the code of every place that raises an error. Never raises one itself.
"""

from typing import Final, NamedTuple

from grpc import StatusCode

from trimtab.clients.rpc.errors import Reason
from trimtab.v1 import reason_pb2


class ErrorRow(NamedTuple):
    """One row. `reason` is an `ErrorReason.Code`; each has one gRPC code."""

    condition: str
    code: StatusCode
    reason: "reason_pb2.ErrorReason.Code.ValueType"
    remedy: str


ERRORS: Final = (
    ErrorRow(
        "A field of the request has an invalid value; `field` names it",
        StatusCode.INVALID_ARGUMENT,
        Reason.REQUEST_INVALID,
        "correct the request; the same request fails again",
    ),
    ErrorRow(
        "The parts of a stream are out of order, repeated, too many, too large or too few",
        StatusCode.INVALID_ARGUMENT,
        Reason.STREAM_INVALID,
        "correct the sender; send the whole request again",
    ),
    ErrorRow(
        "The bytes of the snapshot or delta are not a valid message",
        StatusCode.INVALID_ARGUMENT,
        Reason.SNAPSHOT_MALFORMED,
        "correct the sender; check that `base_version` and the kind of payload agree",
    ),
    ErrorRow(
        "A table of the snapshot or delta breaks its contract; `table`, `row`, `field` say where",
        StatusCode.INVALID_ARGUMENT,
        Reason.SNAPSHOT_INVALID,
        "correct the row; after a delta, sending the whole snapshot may help",
    ),
    ErrorRow(
        "The announced snapshot is larger than this planner accepts; `limit` is the largest size",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.SNAPSHOT_TOO_LARGE,
        "raise the planner's `--max-snapshot-bytes`, or send a delta",
    ),
    ErrorRow(
        "The planner does not have the delta's base, or no longer has it",
        StatusCode.FAILED_PRECONDITION,
        Reason.SNAPSHOT_BASE_UNKNOWN,
        "send the whole snapshot, at once",
    ),
    ErrorRow(
        "The planner does not have the state with this version, or no longer has it",
        StatusCode.FAILED_PRECONDITION,
        Reason.STATE_UNKNOWN,
        "send the state itself, at once",
    ),
    ErrorRow(
        "A setting has an invalid value; `field` is its path in `PlanSettings`",
        StatusCode.INVALID_ARGUMENT,
        Reason.SETTINGS_INVALID,
        "correct the setting",
    ),
    ErrorRow(
        "This build does not support the decision or the method",
        StatusCode.UNIMPLEMENTED,
        Reason.DECISION_UNAVAILABLE,
        "request only what `GetInfo` lists",
    ),
    ErrorRow(
        "The deadline passed before an answer was ready",
        StatusCode.DEADLINE_EXCEEDED,
        Reason.DEADLINE_EXCEEDED,
        "give more time, or bound `max_evaluated_nodes`",
    ),
    ErrorRow(
        "The service is starting or stopping",
        StatusCode.UNAVAILABLE,
        Reason.NOT_READY,
        "try again with growing pauses, on any replica",
    ),
    ErrorRow(
        "The `request_id` was used before with different content",
        StatusCode.ALREADY_EXISTS,
        Reason.REQUEST_ID_REUSED,
        "use a new `request_id`",
    ),
    ErrorRow(
        "This actuator is not the leader; `leader` names the leader",
        StatusCode.FAILED_PRECONDITION,
        Reason.NOT_LEADER,
        "call the leader",
    ),
    ErrorRow(
        "A node, node group or deletion that the request names does not exist",
        StatusCode.NOT_FOUND,
        Reason.NOT_FOUND,
        "read the status first",
    ),
    ErrorRow(
        "The request as a whole would exceed a limit of the actuator",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.LIMIT_EXCEEDED,
        "request less, or wait until work in progress has ended",
    ),
    ErrorRow(
        "Store, cluster or cloud cannot be reached, or have not answered in time",
        StatusCode.UNAVAILABLE,
        Reason.BACKEND_UNAVAILABLE,
        "try again with growing pauses and the same `request_id`",
    ),
    ErrorRow(
        "The cluster denies a required verb",
        StatusCode.PERMISSION_DENIED,
        Reason.PERMISSION_DENIED,
        "grant the verb",
    ),
    ErrorRow(
        "An internal error; the service's log has the details",
        StatusCode.INTERNAL,
        Reason.INTERNAL,
        "report it; later calls are not affected",
    ),
    ErrorRow(
        "The caller cancelled the call or disconnected",
        StatusCode.CANCELLED,
        Reason.CANCELLED,
        "nothing; there is nothing to clean up",
    ),
    ErrorRow(
        "The maximum number of calls is open or in progress",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.OVERLOADED,
        "try again later, or on another replica",
    ),
    ErrorRow(
        "The request did not arrive in time, or was the slowest to arrive while others waited",
        StatusCode.DEADLINE_EXCEEDED,
        Reason.REQUEST_TIMEOUT,
        "send the whole request again, without pauses",
    ),
    ErrorRow(
        "The request needs more memory than the planner may use for it; `limit` is the maximum",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.MEMORY_EXCEEDED,
        "try again later, or raise the planner's `--max-request-memory` and its memory",
    ),
    ErrorRow(
        "The order's `epoch` is lower than one accepted before; `epoch` is that one",
        StatusCode.FAILED_PRECONDITION,
        Reason.EPOCH_SUPERSEDED,
        "stop sending orders: another process is the leader",
    ),
    ErrorRow(
        "The call has no client certificate and no bearer token that the service accepts",
        StatusCode.UNAUTHENTICATED,
        Reason.CALLER_UNKNOWN,
        "present one; renew the token",
    ),
    ErrorRow(
        "The service's access policy does not grant this to the caller; `right` and, for plans, `cluster` say what"
        " is missing",
        StatusCode.PERMISSION_DENIED,
        Reason.CALLER_NOT_ALLOWED,
        "grant it in a rule of the policy",
    ),
)
