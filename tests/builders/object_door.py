"""Clusters as the planner's door for Kubernetes objects takes them, and as the compact form."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from trimtab.common.objects import BuiltSnapshot, build_snapshot, decode_objects
from trimtab.common.objects.karpenter.pool_settings import with_pool_settings
from trimtab.common.watched.received_objects import ObjectChanges, ObjectReader, SharedParts
from trimtab.v1 import actuator_pb2, plan_pb2, planner_pb2

Json = dict[str, Any]
Key = tuple[str, str, str, str]


def reserve_any(byte_count: int, what: str) -> None:
    """Refuse nothing."""


def key_of(one: Json) -> Key:
    """Return what a deletion names."""
    meta = one["metadata"]
    return one["apiVersion"], one["kind"], meta.get("namespace", "default"), meta["name"]


def by_identity(objects: Iterable[Json]) -> dict[Key, Json]:
    """Return objects by what identifies them, whatever their version."""
    return {(one["apiVersion"].rpartition("/")[0], *key_of(one)[1:]): one for one in objects}


def texts(objects: Iterable[Json]) -> list[bytes]:
    """Return objects as JSON."""
    return [json.dumps(one).encode() for one in objects]


def changes(put: Iterable[Json] = (), delete: Iterable[Json] = ()) -> ObjectChanges:
    """Return the changes of one request."""
    reader = ObjectReader(SharedParts(()), reserve_any)
    reader.put(texts(put))
    for one in delete:
        reader.delete(*key_of(one))
    return reader.changes


def object_parts(
    request: plan_pb2.PlanRequest,
    put: Sequence[bytes] = (),
    delete: Iterable[Key] = (),
    status: actuator_pb2.ActuatorStatus | None = None,
) -> list[planner_pb2.PlanRequestPart]:
    """Return a request with objects as a stream, ten objects a part."""
    keys = [planner_pb2.ObjectKey(api_version=v, kind=k, namespace=ns, name=n) for v, k, ns, n in delete]
    pieces = [put[start : start + 10] for start in range(0, len(put), 10)]
    parts = [planner_pb2.PlanRequestPart(objects=planner_pb2.ObjectsPart(put=piece)) for piece in pieces]
    if keys:
        parts.append(planner_pb2.PlanRequestPart(objects=planner_pb2.ObjectsPart(delete=keys)))
    return [planner_pb2.PlanRequestPart(request=request, actuator_status=status), *parts]


def from_objects(objects: list[Json]) -> BuiltSnapshot:
    """Return the snapshot of objects from files."""
    return build_snapshot(decode_objects(objects))


def compact_request(request: plan_pb2.PlanRequest, built: BuiltSnapshot) -> plan_pb2.PlanRequest:
    """Return the request that a client with the compact form sends: with the settings that NodePools ask for."""
    completed = plan_pb2.PlanRequest()
    completed.CopyFrom(request)
    if built.settings is not None:
        completed.settings.CopyFrom(with_pool_settings(request.settings, built.settings))
    return completed


def comparable(answer: plan_pb2.PlanResponse) -> bytes:
    """Return an answer without what may differ: durations, and notes on objects."""
    answer.diagnostics.ClearField("stages")
    answer.summary.ClearField("object_notes")
    return answer.SerializeToString(deterministic=True)
