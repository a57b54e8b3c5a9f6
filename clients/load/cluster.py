"""Creates, reads and deletes the load's own objects in a live cluster. Touches nothing without the load's label.

Errors of all methods: ClusterError.
"""

from datetime import datetime
from typing import Any, Final

import msgspec

from trimtab.clients.kubernetes.api import Api
from trimtab.clients.kubernetes.connection import Request
from trimtab.clients.kubernetes.errors import ApiError, MalformedAnswerError
from trimtab.clients.kubernetes.names import object_path
from trimtab.clients.load.bursts import LABEL, VALUE, LoadSettings, PodTimes, deployment, namespace

NAMESPACES: Final = "/api/v1/namespaces"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces"
NODES: Final = "/api/v1/nodes"
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
OURS: Final = {"labelSelector": f"{LABEL}={VALUE}"}
CONFLICT: Final = 409
NOT_FOUND: Final = 404


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    labels: dict[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[_Object] | None = None


class LoadedCluster:
    """One namespace of a live cluster."""

    def __init__(self, api: Api, settings: LoadSettings) -> None:
        self._api, self._settings = api, settings
        self._deployments = object_path(DEPLOYMENTS, settings.namespace, "deployments")
        self._pods = object_path(NAMESPACES, settings.namespace, "pods")
        self._namespace = object_path(NAMESPACES, settings.namespace)

    def prepare(self) -> None:
        """Create the namespace unless it exists."""
        try:
            self._api.json("POST", NAMESPACES, namespace(self._settings))
        except ApiError as error:
            if error.status != CONFLICT:
                raise

    def begin(self, burst: int) -> None:
        """Create the Deployments of a burst."""
        for number in range(1, self._settings.deployment_count + 1):
            self._api.json("POST", self._deployments, deployment(self._settings, burst, number))

    def end(self) -> None:
        """Delete all Deployments of the load; their pods go with them."""
        self._delete(Request("DELETE", self._deployments, OURS))

    def clean(self) -> None:
        """Delete everything that the load has created, including the namespace if it created it."""
        self.end()
        try:
            found = self._read(_Object, Request("GET", self._namespace))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return
        if (found.metadata.labels or {}).get(LABEL) == VALUE:
            self._delete(Request("DELETE", self._namespace))

    def pods(self) -> list[PodTimes]:
        """Return the pods of the load that are not being deleted, sorted by name."""
        every = self._read(_List, Request("GET", self._pods, OURS)).items or []
        return sorted(_times(pod) for pod in every if pod.metadata.deletion_timestamp is None)

    def node_count(self) -> int:
        """Return the number of nodes on which the load may run."""
        selector = ",".join(f"{key}={value}" for key, value in sorted(self._settings.node_selector.items()))
        query = {"labelSelector": selector} if selector else {}
        return len(self._read(_List, Request("GET", NODES, query, accept=METADATA_LIST)).items or [])

    def _read(self, kind: Any, request: Request) -> Any:
        answer = self._api.read_patiently(request)
        try:
            return msgspec.json.decode(answer, type=kind)
        except msgspec.MsgspecError as error:
            raise MalformedAnswerError(f"GET {request.path}: {error}") from error

    def _delete(self, request: Request) -> None:
        try:
            self._api.read_patiently(request)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise


def _times(pod: _Object) -> PodTimes:
    meta, bound_s = pod.metadata, None
    for one in pod.status.conditions or ():
        if one.type == "PodScheduled" and one.status == "True" and one.last_transition_time is not None:
            bound_s = one.last_transition_time.timestamp()
    created_s = meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0
    return PodTimes(meta.name, created_s, bound_s)
