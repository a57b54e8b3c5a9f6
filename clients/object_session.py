"""Plans for a cluster whose Kubernetes objects the caller has: sends all of them once, then those that have changed.

    with ObjectSession("planner:9090") as session:
        session.put(pod)          # a dict, as `kubectl get -o json` or a watch gives it
        session.delete("v1", "Pod", "default", "web-1")
        answer = session.plan(request)

Decides what is sent of an object: the fields that the planner reads, and no others. Objects of kinds that the planner
ignores are not sent. Data that the planner no longer has are sent again, so an answer never depends on earlier calls.
One cluster for each session; thread-safe, one call at a time. Raises `TrimtabError`. Units: seconds.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec

from trimtab.clients.required_features import require_features
from trimtab.common.kubernetes.registry import BY_KIND, STRUCTS, registered_kind
from trimtab.common.objects.annotated_numbers import annotations_read, pod_struct
from trimtab.common.objects.objects import is_read
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import ServiceConnection, about_cluster, new_session
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2, plan_pb2, planner_pb2, planner_pb2_grpc, snapshot_pb2

PART_BYTES: Final = 1 << 20
TIMEOUT_S: Final = 60.0
Key = tuple[str, str, str]
"""Kind, as the registry has it, namespace, name."""
_NOTHING: Final = snapshot_pb2.ClusterSnapshot()


def trimmed(obj: Mapping[str, Any], numbers: Iterable[str] = ()) -> bytes:
    """Return the JSON of an object without the fields that the planner does not read. numbers : keys of the annotations
    of pods that settings name. An object that the planner will refuse is returned whole, for its error.
    """
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    name = registered_kind(api_version, kind)
    struct: Any = pod_struct(tuple(sorted(numbers))) if name == "Pod" else STRUCTS.get(name)
    names = {} if struct is None else {info.encode_name for info in msgspec.structs.fields(struct)}
    types = {"apiVersion": api_version, "kind": kind}
    head = msgspec.json.encode({key: value for key, value in types.items() if key not in names})
    try:
        fields = msgspec.json.encode(msgspec.convert(obj, struct))
    except (msgspec.ValidationError, TypeError):
        return msgspec.json.encode(obj)
    return head[:-1] + (b"," + fields[1:] if fields != b"{}" else b"}")


class ObjectSession(ServiceConnection):
    """The planner at "host:port", and the objects of one cluster. Close it, or use it as a context.

    numbers : keys of the annotations of pods that the requests' settings name (`PodCostStrategy.annotation`)
    """

    def __init__(
        self,
        address: str,
        numbers: Iterable[str] = (),
        policy: RetryPolicy | None = None,
        timeout_s: float = TIMEOUT_S,
        security: ChannelSecurity | None = None,
    ) -> None:
        """Set up. security : None = from the environment (TRIMTAB_TLS_CA, …). Errors: ValueError, OSError."""
        super().__init__(address, policy, timeout_s, security)
        self._session = new_session()
        self._planner = planner_pb2_grpc.PlannerStub(self._channel)
        self._numbers = tuple(sorted(set(numbers)))
        self._lock = threading.Lock()
        self._objects: dict[Key, bytes] = {}
        # The version of each change, for deletions.
        self._changed: dict[Key, str] = {}
        self._version = ""
        # Whole clusters sent.
        self.whole_count = 0

    def put(self, obj: Mapping[str, Any]) -> None:
        """Add or replace an object. Errors: ValueError for one without kind or name."""
        api_version, kind, namespace, name = _names_of(obj)
        if not is_read(api_version, kind):
            return
        key = _key(api_version, kind, namespace, name)
        data = trimmed(obj, self._numbers)
        with self._lock:
            if self._objects.get(key) != data:
                self._objects[key] = data
                self._changed[key] = api_version

    def delete(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """Remove an object; nothing happens if it is not there."""
        key = _key(api_version, kind, namespace, name)
        with self._lock:
            if self._objects.pop(key, None) is not None:
                self._changed[key] = api_version

    def plan(
        self, request: plan_pb2.PlanRequest, status: actuator_pb2.ActuatorStatus | None = None
    ) -> plan_pb2.PlanResponse:
        """Ask for a plan. `base_version` is set in a copy of `request`; status : of the actuator, None = without one.
        Errors: ValueError if the settings name annotations that the session does not send.
        """
        if missing := annotations_read(request.settings) - set(self._numbers):
            raise ValueError(f"{', '.join(sorted(missing))}: the settings name them; give them as `numbers`")
        header = plan_pb2.PlanRequest()
        header.CopyFrom(request)
        require_features(header, _NOTHING)
        with self._lock:
            try:
                answer = self._plan(header, status)
            except TrimtabError as error:
                if error.reason != Reason.SNAPSHOT_BASE_UNKNOWN or not self._version:
                    raise
                self._version = ""
                answer = self._plan(header, status)
            self._version, self._changed = answer.snapshot_version, {}
            return answer

    def _plan(self, header: plan_pb2.PlanRequest, status: actuator_pb2.ActuatorStatus | None) -> plan_pb2.PlanResponse:
        header.base_version = self._version
        self.whole_count += not self._version
        metadata = about_cluster(self._session, header.cluster)
        return self._invoke(
            lambda: self._planner.Plan(self._parts(header, status), timeout=self._timeout_s, metadata=metadata)
        )

    def _parts(
        self, header: plan_pb2.PlanRequest, status: actuator_pb2.ActuatorStatus | None
    ) -> Iterator[planner_pb2.PlanRequestPart]:
        """Yield the header, then what has changed."""
        yield planner_pb2.PlanRequestPart(request=header, actuator_status=status)
        keys = sorted(self._changed) if header.base_version else sorted(self._objects)
        part, size = planner_pb2.ObjectsPart(), 0
        for key in keys:
            data = self._objects.get(key)
            if data is None:
                kind, namespace, name = key
                kind = BY_KIND[kind].object_kind
                part.delete.add(api_version=self._changed[key], kind=kind, namespace=namespace, name=name)
            else:
                part.put.append(data)
            size += len(data or b"") + 100
            if size >= PART_BYTES:
                yield planner_pb2.PlanRequestPart(objects=part)
                part, size = planner_pb2.ObjectsPart(), 0
        if size or not keys:
            yield planner_pb2.PlanRequestPart(objects=part)


def _names_of(obj: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return apiVersion, kind, namespace and name. Errors: ValueError."""
    meta = cast(Mapping[str, Any], obj.get("metadata") or {})
    api_version, kind, name = obj.get("apiVersion"), obj.get("kind"), meta.get("name")
    if not api_version or not kind or not name:
        raise ValueError("an object has no apiVersion, kind or metadata.name; give whole objects")
    return str(api_version), str(kind), str(meta.get("namespace") or ""), str(name)


def _key(api_version: str, kind: str, namespace: str, name: str) -> Key:
    kind = registered_kind(api_version, kind)
    row = BY_KIND.get(kind)
    return kind, (namespace or "default") if row is not None and row.is_namespaced else "", name
