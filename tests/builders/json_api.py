"""A small API server on loopback that speaks JSON: nodes, pods, ConfigMaps, Leases, evictions, and faults on demand.

It checks resource versions and the tests of JSON patches as a real one does. Faults are queued per method and consumed
in order:

    with JsonApiServer() as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}})
        server.fail("PATCH", Fault(500))
"""

import json
import threading
import time
from collections import defaultdict, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

import urllib3

from tests.builders.absent import absent
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.kube.api import KubeApi
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection, ConnectionSettings

Json = dict[str, Any]


LISTED = ("/nodes", "/pods", "/podgroupcosts", "/v1alpha1/capacitybuffers", "/machinedeployments", "/machines")


class Fault(NamedTuple):
    """A fault of one request. `status` 0 = the connection is cut before (or `after`) the request was executed."""

    status: int = 0
    message: str = "as the test wants"
    retry_after: int | None = None
    delay_s: float = 0.0
    after: bool = False
    # Nothing happens before this is set.
    held: threading.Event | None = None
    # The body of the answer; None = JSON with the message.
    body: bytes | None = None


class JsonApiServer:
    """The server; use as a context manager."""

    def __init__(self) -> None:
        self.version = 100
        # By path of the object.
        self.objects: dict[str, Json] = {}
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        # Annotations that server-side apply has set, by path of the object.
        self.applied: dict[str, set[str]] = {}
        # Time that each request takes at least.
        self.delay_s = 0.0
        # "METHOD path" of every request.
        self.requests: list[str] = []
        # Bodies of granted evictions.
        self.evictions: list[Json] = []
        # "verb resource" that are not allowed.
        self.forbidden: set[str] = set()
        # Users and audiences of bearer tokens.
        self.tokens: dict[str, tuple[str, list[str]]] = {}
        self.lock = threading.RLock()

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        self._pool = urllib3.PoolManager(maxsize=16)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.clear()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def api(self, timeout_s: float = LIMIT_S) -> KubeApi:
        """A connection."""
        return KubeApi(self.http(timeout_s), timeout_s)

    def http(self, timeout_s: float = LIMIT_S) -> Api:
        """A connection for single requests."""
        url, settings = f"http://127.0.0.1:{self._http.server_port}", ConnectionSettings(connect_timeout_s=timeout_s)
        return Api(Connection(url, self._pool, lambda: "Bearer token", settings))

    def put(self, collection: str, item: Json) -> Json:
        """Create or replace an object."""
        with self.lock:
            self.version += 1
            meta = item.setdefault("metadata", {})
            meta.setdefault("uid", f"uid-{meta['name']}")
            meta["resourceVersion"] = str(self.version)
            self.objects[f"{collection}/{meta['name']}"] = item
            return item

    def fail(self, method: str, *faults: Fault) -> None:
        """Queue faults for requests with that method."""
        self.faults[method].extend(faults)

    def taints(self, node: str) -> list[str]:
        """Return the keys of a node's taints."""
        return [taint["key"] for taint in self.objects[f"/api/v1/nodes/{node}"].get("spec", {}).get("taints", [])]

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Json]:
        """Execute a request."""
        with self.lock:
            if path.endswith("/eviction"):
                return self._evict(path.removesuffix("/eviction"), body)
            if path.endswith("selfsubjectaccessreviews"):
                return 201, {"status": {"allowed": self._allowed(body["spec"]["resourceAttributes"])}}
            if path.endswith("tokenreviews"):
                return self._review(body["spec"])
            if method == "POST":
                return self._create(path, body)
            if method == "GET" and path not in self.objects:
                return self._list(path, query)
            if method == "PATCH" and "fieldManager" in query:
                return self._apply(path, body, forced="force" in query)
            if path not in self.objects:
                return absent(path)
            return getattr(self, f"_{method.lower()}")(path, body)

    def _allowed(self, attributes: Json) -> bool:
        resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
        return f"{attributes['verb']} {resource}" not in self.forbidden

    def _review(self, spec: Json) -> tuple[int, Json]:
        if "create tokenreviews" in self.forbidden:
            return 403, {"reason": "Forbidden", "message": "tokenreviews is forbidden"}
        user, audiences = self.tokens.get(spec["token"], ("", []))
        accepted = sorted(set(audiences) & set(spec["audiences"]))
        if not accepted:
            return 201, {"status": {"error": "invalid bearer token"}}
        return 201, {"status": {"authenticated": True, "user": {"username": user}, "audiences": accepted}}

    def _evict(self, path: str, body: Json) -> tuple[int, Json]:
        pod = self.objects.get(path)
        if pod is None:
            return absent(path)
        if body["deleteOptions"]["preconditions"]["uid"] != pod["metadata"]["uid"]:
            return 409, {"message": "in another language: the uid differs"}
        self.evictions.append(body)
        return 201, {}

    def _create(self, collection: str, body: Json) -> tuple[int, Json]:
        if f"{collection}/{body['metadata']['name']}" in self.objects:
            return 409, {"message": "already exists"}
        return 201, self.put(collection, body)

    def _list(self, path: str, query: dict[str, str]) -> tuple[int, Json]:
        if not path.endswith(LISTED):
            return absent(path)
        items = [item for key, item in sorted(self.objects.items()) if _collection(key) == path.rpartition("/")[2]]
        if "fieldSelector" in query:
            node = query["fieldSelector"].removeprefix("spec.nodeName=")
            items = [item for item in items if item["spec"]["nodeName"] == node]
        if "labelSelector" in query:
            key, _, value = query["labelSelector"].partition("=")
            items = [item for item in items if item["metadata"].get("labels", {}).get(key) == value]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "1000"))
        rest = str(start + limit) if start + limit < len(items) else ""
        return 200, {"metadata": {"resourceVersion": "1", "continue": rest}, "items": items[start : start + limit]}

    def _get(self, path: str, _: Any) -> tuple[int, Json]:
        return 200, self.objects[path]

    def _delete(self, path: str, _: Any) -> tuple[int, Json]:
        return 200, self.objects.pop(path)

    def _put(self, path: str, body: Json) -> tuple[int, Json]:
        if body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            return 409, {"message": "the object has been modified"}
        return 200, self.put(path.rpartition("/")[0], body)

    def _patch(self, path: str, body: Any) -> tuple[int, Json]:
        item = json.loads(json.dumps(self.objects[path]))
        if isinstance(body, dict):
            return self._merge(path, item, body)
        for step in body:
            *parents, last = (part.replace("~1", "/") for part in step["path"].strip("/").split("/"))
            place = item
            for key in parents:
                place = place.setdefault(key, {})
            if step["op"] == "test" and place.get(last) != step["value"]:
                return 422, {"message": "the server rejected our request due to an error in our request"}
            if step["op"] == "add":
                place[last] = step["value"]
            if step["op"] == "remove":
                del place[last]
        return 200, self.put(path.rpartition("/")[0], item)

    def _apply(self, path: str, body: Json, forced: bool) -> tuple[int, Json]:
        """Apply as one manager: omitted fields are removed, fields of another manager are a conflict."""
        if path.endswith("/status"):
            return 200, self._set(path.removesuffix("/status"), status=body["status"])
        if path not in self.objects and body["kind"] in ("Pod", "Node"):
            return absent(path)
        if "spec" in body:
            before = self.objects.get(path, {"metadata": {"generation": 0}})
            changed = before.get("spec") != body["spec"]
            meta = body["metadata"] | {"generation": before["metadata"]["generation"] + changed}
            return 200, self._set(path, metadata=meta, spec=body["spec"])
        item = json.loads(json.dumps(self.objects[path]))
        if body["metadata"].get("uid", item["metadata"]["uid"]) != item["metadata"]["uid"]:
            return 422, {"message": "in another language: the uid never changes"}
        texts, ours = item["metadata"].setdefault("annotations", {}), self.applied.get(path, set())
        wanted = body["metadata"]["annotations"]
        foreign = [key for key, text in wanted.items() if key in texts and key not in ours and texts[key] != text]
        if foreign and not forced:
            causes = [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": foreign[0]}]
            return 409, {"message": 'in another language: "kubectl" has it', "details": {"causes": causes}}
        for key in ours - wanted.keys():
            texts.pop(key, None)
        texts.update(wanted)
        self.applied[path] = set(wanted)
        return 200, self.put(path.rpartition("/")[0], item)

    def _set(self, path: str, **parts: Json) -> Json:
        item = json.loads(json.dumps(self.objects.get(path, {})))
        return self.put(path.rpartition("/")[0], item | parts)

    def _merge(self, path: str, item: Json, body: Json) -> tuple[int, Json]:
        """A merge patch of a node's provider id, or of annotations, with the uid as precondition."""
        if "spec" in body:
            item.setdefault("spec", {}).update(body["spec"])
            return 200, self.put(path.rpartition("/")[0], item)
        if body["metadata"]["uid"] != item["metadata"]["uid"]:
            return 422, {"message": "in another language: the uid never changes"}
        annotations = item["metadata"].setdefault("annotations", {})
        for key, value in body["metadata"]["annotations"].items():
            annotations.pop(key, None)
            if value is not None:
                annotations[key] = value
        return 200, self.put(path.rpartition("/")[0], item)


def _collection(path: str) -> str:
    return path.split("/")[-2]


def _handler(server: JsonApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes; without this each answer waits for the peer's delayed acknowledgement.
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            assert self.headers["Authorization"] == "Bearer token"
            server.requests.append(f"{self.command} {parts.path}")
            time.sleep(server.delay_s)
            queue = server.faults[self.command]
            fault = queue.popleft() if queue else None
            if fault is None or fault.after:
                status, answer = server.answer(self.command, parts.path, query, body)
            if fault is not None:
                time.sleep(fault.delay_s)
                if fault.held is not None:
                    assert fault.held.wait(LIMIT_S)
                if fault.status == 0 and not fault.delay_s:
                    self.close_connection = True
                    return
                status, answer = fault.status or 500, {"message": fault.message}
            data = json.dumps(answer).encode() if fault is None or fault.body is None else fault.body
            self._write(status, data, fault.retry_after if fault else None)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

        def _write(self, status: int, data: bytes, retry_after: int | None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if retry_after is not None:
                self.send_header("Retry-After", str(retry_after))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
