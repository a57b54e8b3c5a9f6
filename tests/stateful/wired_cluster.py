"""The simulated cluster behind HTTP messages: all code between the actuator and an API server runs, on virtual time.

`Wire` replaces a connection: it answers requests as an API server does and makes chosen ones fail. It uses one thread
and no sockets, so a run depends only on its inputs.
"""

import io
import json
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import urllib3
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from tests.builders.absent import absent
from trimtab.actuator.kube.api import KubeApi
from trimtab.actuator.kube.cluster import (
    ClusterError,
    NotFoundError,
    PodView,
    RefusedError,
    TaintView,
    TooManyRequestsError,
)
from trimtab.actuator.kube.live import KubeCluster
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ApiRequest

Json = dict[str, Any]
# Small, so that lists have several pages.
PAGE = 3
EMPTY_POOL = urllib3.HTTPConnectionPool("wire")


class WireFault(NamedTuple):
    """A fault of one request. `status` 0 = the connection breaks."""

    name: str
    status: int = 0
    # Whether the request is executed and only the answer is lost.
    after: bool = False
    # Delay before the request.
    delay_s: float = 0.0
    retry_after: str = ""
    # The answer arrives, but is not correct.
    spoils: bool = False
    passes: bool = False


FAULTS = [
    WireFault("cut before"),
    WireFault("cut after", after=True),
    WireFault("timeout before", delay_s=10),
    WireFault("timeout after", after=True, delay_s=10),
    WireFault("slow", delay_s=8, passes=True),
    WireFault("conflict", status=409),
    WireFault("expired", status=410),
    WireFault("busy", status=429),
    WireFault("busy with a hint", status=429, retry_after="3"),
    WireFault("internal error before", status=500),
    WireFault("internal error after", status=500, after=True),
    WireFault("unavailable", status=503),
    WireFault("path not found", status=404),
    WireFault("gateway timeout after", status=504, after=True),
    WireFault("cut within the answer", after=True, spoils=True),
]


class Wire:
    """A connection to the simulated cluster. `faults` : by number of the request, counted from 1 from now on."""

    server = "http://wire"

    def __init__(self, cluster: SimulatedCluster, sleep: Callable[[float], None]) -> None:
        self._cluster = cluster
        self._sleep = sleep
        self.faults: dict[int, WireFault] = {}
        # Names of the faults that occurred.
        self.struck: list[str] = []

    def send(self, request: ApiRequest) -> urllib3.HTTPResponse:
        """Answer a request, or raise as urllib3 does."""
        fault = self.faults.pop(1, None)
        self.faults = {number - 1: later for number, later in self.faults.items() if number > 1}
        if fault is None:
            return _response(*self._answer(request))
        self.struck.append(fault.name)
        self._sleep(fault.delay_s)
        answer = self._answer(request) if fault.after or fault.passes else (0, {})
        if fault.passes or fault.spoils:
            return _response(*answer, cut=fault.spoils)
        if fault.status:
            return _response(fault.status, {"message": "as the test wants"}, fault.retry_after)
        if fault.delay_s:
            raise ReadTimeoutError(EMPTY_POOL, request.path, "read timed out")
        raise ProtocolError("the connection was reset")

    def close(self) -> None:
        """Do nothing, as there is nothing to close."""

    def _answer(self, request: ApiRequest) -> tuple[int, Json]:
        body: Any = None if request.body is None else json.loads(request.body)
        words = request.path.removeprefix("/api/v1/").split("/")
        try:
            match request.method, *words:
                case "GET", "nodes":
                    return 200, self._nodes(request.query)
                case "GET", "nodes", name:
                    return 200, self._node(name)
                case "PATCH", "nodes", name:
                    return self._patch(name, body)
                case "DELETE", "nodes", name:
                    return self._delete(name, body["preconditions"]["uid"])
                case "GET", "pods":
                    views = self._cluster.list_pods(request.query["fieldSelector"].removeprefix("spec.nodeName="))
                    return 200, {"metadata": {}, "items": [_pod(view) for view in views]}
                case "POST", "namespaces", namespace, "pods", name, "eviction":
                    return self._evict(f"{namespace}/{name}", body)
        except NotFoundError:
            return absent(request.path)
        except ClusterError as error:
            return _status(error), {"message": str(error)}
        raise AssertionError(f"nobody answers {request.method} {request.path}")

    def _nodes(self, query: Mapping[str, str]) -> Json:
        names = [view.name for view in self._cluster.list_nodes()]
        start = int(query.get("continue", "0"))
        rest = str(start + PAGE) if start + PAGE < len(names) else ""
        return {"metadata": {"continue": rest}, "items": [self._node(name) for name in names[start : start + PAGE]]}

    def _node(self, name: str) -> Json:
        view = self._cluster.get_node(name)
        taints = [{key: text for key, text in taint._asdict().items() if text} for taint in view.taints]
        spec = {"providerID": view.provider_id} | ({"taints": taints} if taints else {})
        version = str(zlib.crc32(json.dumps(spec).encode()))
        return {"metadata": {"name": name, "uid": view.uid, "resourceVersion": version}, "spec": spec}

    def _patch(self, name: str, steps: list[Json]) -> tuple[int, Json]:
        found = self._node(name)
        for step in steps:
            parent, _, field = step["path"].strip("/").partition("/")
            if step["op"] == "test" and found[parent].get(field) != step["value"]:
                return 422, {"message": f"testing value {step['path']} failed: test failed"}
            if step["op"] == "add":
                assert step["path"] == "/spec/taints", step
                self._write_taints(name, step["value"])
        return 200, self._node(name)

    def _delete(self, name: str, uid: str) -> tuple[int, Json]:
        if self._cluster.get_node(name).uid != uid:
            return 409, {"message": "in another language: the uid differs"}
        self._cluster.delete_node(name, uid)
        return 200, {}

    def _write_taints(self, name: str, wanted: list[Json]) -> None:
        taints = {one["key"]: TaintView(one["key"], one.get("value", ""), one["effect"]) for one in wanted}
        before = {taint.key for taint in self._cluster.get_node(name).taints}
        for key in sorted(before - taints.keys()):
            self._cluster.remove_taint(name, key)
        for key in sorted(taints.keys() - before):
            self._cluster.add_taint(name, taints[key])

    def _evict(self, key: str, body: Json) -> tuple[int, Json]:
        namespace, _, name = key.partition("/")
        found = self._cluster.state.pods.get((namespace, name))
        if found is None:
            raise NotFoundError(key)
        options = body["deleteOptions"]
        if options["preconditions"]["uid"] != found.uid:
            return 409, {"message": "in another language: the uid differs"}
        self._cluster.evict(found.view(), options.get("gracePeriodSeconds"))
        return 201, {}


def wired(cluster: SimulatedCluster, sleep: Callable[[float], None]) -> tuple[KubeCluster, Wire]:
    """Return the live-cluster client on the simulated cluster, and the wire between them."""
    wire = Wire(cluster, sleep)
    return KubeCluster(KubeApi(Api(wire))), wire  # type: ignore[arg-type]


def _status(error: ClusterError) -> int:
    match error:
        case TooManyRequestsError():
            return 429
        case RefusedError():
            return 403
        case _:
            return 500


def _pod(view: PodView) -> Json:
    meta: Json = {"namespace": view.namespace, "name": view.name, "uid": view.uid}
    if view.owner_kind:
        owner = {"kind": view.owner_kind, "name": view.owner_name, "uid": view.owner_uid, "controller": True}
        meta["ownerReferences"] = [owner]
    if view.deletion_ms:
        meta["deletionTimestamp"] = datetime.fromtimestamp(view.deletion_ms / 1000, UTC).isoformat()
    spec = {"nodeName": view.node, "priority": view.priority, "terminationGracePeriodSeconds": view.grace_s}
    return {"metadata": meta, "spec": spec, "status": {"phase": view.phase}}


def _response(status: int, body: Json, retry_after: str = "", *, cut: bool = False) -> urllib3.HTTPResponse:
    data = json.dumps(body).encode()
    headers = {"Content-Length": str(len(data))} | ({"Retry-After": retry_after} if retry_after else {})
    if cut:
        data = data[: len(data) // 2]
    return urllib3.HTTPResponse(
        io.BytesIO(data), headers, status, preload_content=False, enforce_content_length=True, request_method="GET"
    )
