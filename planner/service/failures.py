"""Converts errors of the pure packages to errors of the contract. The only place that decides code, reason and
metadata. `protos/README.md` lists them with the remedies for the caller.
"""

import grpc

from trimtab.common.kubernetes.object_errors import InvalidInputError, ObjectError
from trimtab.common.rpc import errors
from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.planner.decisions.requests import DecisionUnavailableError, FeatureUnknownError, RequestError
from trimtab.planner.model.settings import SettingsError
from trimtab.planner.snapshot.checks import WHOLE_TABLE, SnapshotError, SnapshotMalformedError
from trimtab.v1 import plan_pb2


def as_service_error(error: Exception) -> ServiceError | None:
    """Return the contract's error for one of the pure packages, None for any other exception."""
    match error:
        case SnapshotError():
            row = {} if error.row == WHOLE_TABLE else {"row": str(error.row)}
            metadata = {"table": error.table, "field": error.field} | row
            return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.SNAPSHOT_INVALID, str(error), metadata)
        case SnapshotMalformedError():
            return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.SNAPSHOT_MALFORMED, str(error))
        case InvalidInputError():
            return object_invalid(error)
        case SettingsError():
            metadata = {"field": error.field}
            return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.SETTINGS_INVALID, str(error), metadata)
        case RequestError():
            metadata = {"field": error.field}
            return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID, str(error), metadata)
        case DecisionUnavailableError():
            metadata = {"decision": error.decision}
            return ServiceError(grpc.StatusCode.UNIMPLEMENTED, Reason.DECISION_UNAVAILABLE, str(error), metadata)
        case FeatureUnknownError():
            metadata = {"feature": error.feature}
            return ServiceError(grpc.StatusCode.UNIMPLEMENTED, Reason.FEATURE_UNKNOWN, str(error), metadata)
    return None


def stream_invalid(problem: str) -> ServiceError:
    """Return the error: the parts of the stream do not form a request."""
    return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.STREAM_INVALID, problem)


def snapshot_too_large(size: int, limit: int) -> ServiceError:
    """Return the error: the announced snapshot is larger than this planner accepts."""
    message = f"snapshot_size_bytes: {size} is more than the {limit} bytes this planner accepts (--max-snapshot-bytes)"
    metadata = {"field": "snapshot_size_bytes", "limit": str(limit)}
    return ServiceError(grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.SNAPSHOT_TOO_LARGE, message, metadata)


def objects_too_large(size: int, limit: int) -> ServiceError:
    """Return the error: the objects have more bytes than this planner accepts."""
    message = (
        f"the objects have {size} bytes or more, and this planner accepts {limit} (--max-object-bytes); leave out "
        "fields that decide nothing, such as managedFields, or send only what has changed"
    )
    metadata = {"field": "objects", "limit": str(limit)}
    return ServiceError(grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.SNAPSHOT_TOO_LARGE, message, metadata)


def object_invalid(error: InvalidInputError, part: int = 0) -> ServiceError:
    """Return the error: an object cannot be used. part : of the stream, 0 = not known."""
    metadata = {"part": str(part)} if part else {}
    if isinstance(error, ObjectError):
        metadata |= {"kind": error.kind, "object": error.name, "field": error.path}
    return ServiceError(grpc.StatusCode.INVALID_ARGUMENT, Reason.OBJECT_INVALID, str(error), metadata)


def base_unknown(request: plan_pb2.PlanRequest) -> ServiceError:
    """Return the error: the delta's base is not in the cache."""
    message = f"base_version: snapshot {request.base_version!r} is unknown here; send the whole cluster"
    metadata = {"base_version": request.base_version}
    return ServiceError(grpc.StatusCode.FAILED_PRECONDITION, Reason.SNAPSHOT_BASE_UNKNOWN, message, metadata)


def state_unknown(request: plan_pb2.PlanRequest) -> ServiceError:
    """Return the error: the state given by its version is not in the cache."""
    message = f"state_version: state {request.state_version!r} is unknown here; send the state itself"
    metadata = {"state_version": request.state_version}
    return ServiceError(grpc.StatusCode.FAILED_PRECONDITION, Reason.STATE_UNKNOWN, message, metadata)


def deadline_exceeded() -> ServiceError:
    """Return the error: the deadline passed before the answer was ready."""
    message = "the deadline passed before an answer was ready; give more time, or bound max_evaluated_nodes"
    return ServiceError(grpc.StatusCode.DEADLINE_EXCEEDED, Reason.DEADLINE_EXCEEDED, message)


def cancelled() -> ServiceError:
    """Return the error: the caller has gone."""
    return ServiceError(grpc.StatusCode.CANCELLED, Reason.CANCELLED, "the caller cancelled the call or disconnected")


def overloaded(limit: int) -> ServiceError:
    """Return the error: the maximum number of requests is in progress."""
    return errors.overloaded(
        f"{limit} requests are in progress, and others wait; try again later (--max-concurrent, --max-queue)"
    )


def memory_exceeded(what: str, byte_count: int, limit: int) -> ServiceError:
    """Return the error: this request and the others in progress would need too much memory."""
    message = (
        f"the request needs {byte_count >> 20} MiB or more ({what}), and all requests together may use "
        f"{limit >> 20} MiB; send less, try again later, or raise --max-request-memory"
    )
    return ServiceError(grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.MEMORY_EXCEEDED, message, {"limit": str(limit)})
