"""Objects of a kind that clusters may lack: read, and their status applied.

Decides the API version: the newest of those listed that the server serves. Never decides the content of the status.
Source: Kubernetes, server-side apply.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from trimtab.actuator.kube.api import Call, KubeApi
from trimtab.actuator.kube.cluster import NotServedError
from trimtab.actuator.kube.group_costs import APPLY_PATCH
from trimtab.common.kubernetes.registry import Resource

T = TypeVar("T")


class ServedKind(Generic[T]):
    """The objects of a kind behind an API server."""

    def __init__(self, api: KubeApi, kind: Resource, stored: type[T], timeout_s: float) -> None:
        """`stored` : what is read of each object; `timeout_s` : longest silence of a list."""
        self._api, self._kind, self._stored, self._timeout_s = api, kind, stored, timeout_s
        self._served = kind

    def read_all(self) -> Sequence[T]:
        """Return all; remember the version. Raises `NotServedError` where the server serves none."""
        for version in self._kind.by_version:
            call = Call("GET", version.path, timeout_s=self._timeout_s)
            try:
                found = list(self._api.objects(call, self._stored))
            except NotServedError as error:
                unknown = error
                continue
            self._served = version
            return found
        raise unknown

    def apply_status(self, metadata: Mapping[str, str], status: Mapping[str, Any], query: Mapping[str, str]) -> None:
        """Apply the status of an object. metadata : `namespace`, `name`, and what must be as it was read; query : of
        server-side apply.
        """
        body = self._served.type_meta | {"metadata": dict(metadata), "status": dict(status)}
        path = self._served.path_in(metadata["namespace"], metadata["name"], "status")
        self._api.call(Call("PATCH", path, query, body=body, content_type=APPLY_PATCH))
