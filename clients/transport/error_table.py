"""Every error of the contract in one table: when it is sent, with which gRPC code, what the caller does.

Decides code and wording of the documentation. `protos/README.md` shows this table; a test compares the two, and checks
the code of every place that raises an error. Never raises one itself.
"""

from typing import Final, NamedTuple

from grpc import StatusCode
from trimtab.v1 import reason_pb2

from clients.transport.errors import Reason


class ErrorRow(NamedTuple):
    """One row. `reason` is an `ErrorReason.Code`; each has one gRPC code."""

    condition: str
    code: StatusCode
    reason: "reason_pb2.ErrorReason.Code.ValueType"
    remedy: str


ERRORS: Final = (
    ErrorRow(
        "A field of the request has an unusable value; `field` names it",
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
        "The bytes of the snapshot or delta are not the message they should be",
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
        "The announced snapshot is larger than this planner accepts; `limit` says how much it does",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.SNAPSHOT_TOO_LARGE,
        "raise the planner's `--max-snapshot-bytes`, or send a delta",
    ),
    ErrorRow(
        "The planner does not have the delta's base (any more)",
        StatusCode.FAILED_PRECONDITION,
        Reason.SNAPSHOT_BASE_UNKNOWN,
        "send the whole snapshot, at once",
    ),
    ErrorRow(
        "The planner does not have the state named by its version (any more)",
        StatusCode.FAILED_PRECONDITION,
        Reason.STATE_UNKNOWN,
        "send the state itself, at once",
    ),
    ErrorRow(
        "A setting has an unusable value; `field` is its path in `PlanSettings`",
        StatusCode.INVALID_ARGUMENT,
        Reason.SETTINGS_INVALID,
        "correct the setting",
    ),
    ErrorRow(
        "This build does not take that decision, or does not have that method",
        StatusCode.UNIMPLEMENTED,
        Reason.DECISION_UNAVAILABLE,
        "ask only for what `GetInfo` lists",
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
        "The `request_id` was used before, with other content",
        StatusCode.ALREADY_EXISTS,
        Reason.REQUEST_ID_REUSED,
        "take a new `request_id`",
    ),
    ErrorRow(
        "This actuator does not lead; `leader` names the one that does",
        StatusCode.FAILED_PRECONDITION,
        Reason.NOT_LEADER,
        "ask the leader",
    ),
    ErrorRow(
        "A node, node group or deletion that the request names does not exist",
        StatusCode.NOT_FOUND,
        Reason.NOT_FOUND,
        "look at the status first",
    ),
    ErrorRow(
        "The request as a whole would exceed a limit of the actuator",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.LIMIT_EXCEEDED,
        "ask for less, or wait for what is in progress",
    ),
    ErrorRow(
        "Store, cluster or cloud cannot be reached, or have not answered in time",
        StatusCode.UNAVAILABLE,
        Reason.BACKEND_UNAVAILABLE,
        "try again with growing pauses and the same `request_id`",
    ),
    ErrorRow(
        "The cluster forbids a verb that is needed",
        StatusCode.PERMISSION_DENIED,
        Reason.PERMISSION_DENIED,
        "grant the verb",
    ),
    ErrorRow(
        "A fault of the service itself; its log has the details",
        StatusCode.INTERNAL,
        Reason.INTERNAL,
        "report it; the next call works",
    ),
    ErrorRow(
        "The caller went away before the answer",
        StatusCode.CANCELLED,
        Reason.CANCELLED,
        "nothing; nothing is left behind",
    ),
    ErrorRow(
        "As many calls as may be are open or being worked on",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.OVERLOADED,
        "try again later, or on another replica",
    ),
    ErrorRow(
        "The request did not arrive in time, or arrived slowest when others came",
        StatusCode.DEADLINE_EXCEEDED,
        Reason.REQUEST_TIMEOUT,
        "send the whole request again, without pauses",
    ),
    ErrorRow(
        "The request would take more memory than the planner has for it; `limit` says how much that is",
        StatusCode.RESOURCE_EXHAUSTED,
        Reason.MEMORY_EXCEEDED,
        "try again later, or raise the planner's `--max-request-memory` and its memory",
    ),
    ErrorRow(
        "The order's `epoch` is lower than one that was taken before; `epoch` says which",
        StatusCode.FAILED_PRECONDITION,
        Reason.EPOCH_SUPERSEDED,
        "stop giving orders: another process leads in your place",
    ),
    ErrorRow(
        "The call has no client certificate and no bearer token that the service accepts",
        StatusCode.UNAUTHENTICATED,
        Reason.CALLER_UNKNOWN,
        "show one; renew the token",
    ),
    ErrorRow(
        "The service's access policy does not grant this to the caller; `right` and, for plans, `cluster` say what"
        " is missing",
        StatusCode.PERMISSION_DENIED,
        Reason.CALLER_NOT_ALLOWED,
        "have a rule of the policy grant it",
    ),
)
