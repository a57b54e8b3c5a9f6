"""Creates, reads and deletes the load's own objects in a live cluster. Touches nothing without the load's label.

Errors of all methods: KubernetesError.
"""

from typing import Final, TypeVar

import msgspec

from trimtab.clients.load.bursts import LABEL, VALUE, LoadSettings, PodTimes, deployment, namespace
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.errors import ApiError
from trimtab.common.kubernetes.json_envelope import ObjectList, decode
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import NodeCondition
from trimtab.common.kubernetes.registry import BY_KIND

NAMESPACES: Final = BY_KIND["Namespace"]
METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
OURS: Final = {"labelSelector": f"{LABEL}={VALUE}"}
T = TypeVar("T")
CONFLICT: Final = 409
NOT_FOUND: Final = 404


class _Conditions(msgspec.Struct):
    conditions: list[NodeCondition] | None = None


class _LoadObject(msgspec.Struct):
    """A namespace or a pod, with the times of conditions, which the model of pods skips: they take long to decode."""

    metadata: ObjectMeta
    status: _Conditions = msgspec.field(default_factory=_Conditions)


class LoadedCluster:
    """One namespace of a live cluster."""

    def __init__(self, api: Api, settings: LoadSettings) -> None:
        self._api, self._settings = api, settings
        self._deployments = BY_KIND["Deployment"].path_in(settings.namespace)
        self._pods = BY_KIND["Pod"].path_in(settings.namespace)
        self._namespace = NAMESPACES.path_of(settings.namespace)

    def prepare(self) -> None:
        """Create the namespace unless it exists."""
        try:
            self._api.json("POST", NAMESPACES.path, namespace(self._settings))
        except ApiError as error:
            if error.status != CONFLICT:
                raise

    def begin(self, burst: int) -> None:
        """Create the Deployments of a burst."""
        for number in range(1, self._settings.deployment_count + 1):
            self._api.json("POST", self._deployments, deployment(self._settings, burst, number))

    def end(self) -> None:
        """Delete all Deployments of the load; their pods go with them."""
        self._delete(ApiRequest("DELETE", self._deployments, OURS))

    def clean(self) -> None:
        """Delete everything that the load has created, including the namespace if it created it."""
        self.end()
        try:
            found = self._read(_LoadObject, ApiRequest("GET", self._namespace))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return
        if (found.metadata.labels or {}).get(LABEL) == VALUE:
            self._delete(ApiRequest("DELETE", self._namespace))

    def pods(self) -> list[PodTimes]:
        """Return the pods of the load that are not being deleted, sorted by name."""
        pods = self._read(ObjectList[_LoadObject], ApiRequest("GET", self._pods, OURS)).items or []
        return sorted(_times(pod) for pod in pods if pod.metadata.deletion_timestamp is None)

    def node_count(self) -> int:
        """Return the number of nodes on which the load may run."""
        selector = ",".join(f"{key}={value}" for key, value in sorted(self._settings.node_selector.items()))
        query = {"labelSelector": selector} if selector else {}
        request = ApiRequest("GET", BY_KIND["Node"].path, query, accept=METADATA_LIST)
        return len(self._read(ObjectList[msgspec.Raw], request).items or [])

    def _read(self, kind: type[T], request: ApiRequest) -> T:
        return decode(kind, self._api.read_with_retries(request), f"GET {request.path}")

    def _delete(self, request: ApiRequest) -> None:
        try:
            self._api.read_with_retries(request)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise


def _times(pod: _LoadObject) -> PodTimes:
    meta, bound_s = pod.metadata, None
    for condition in pod.status.conditions or ():
        changed = condition.last_transition_time
        if condition.type == "PodScheduled" and condition.status == "True" and changed is not None:
            bound_s = changed.timestamp()
    created_s = meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0
    return PodTimes(meta.name or "", created_s, bound_s)
