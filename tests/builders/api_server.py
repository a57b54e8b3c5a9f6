"""A small API server on loopback: lists with pages, watches with bookmarks, JSON objects, and faults on demand.

It keeps pods as encoded protobuf, all others as JSON, and interprets only their metadata. Faults are queued per path
and consumed in order, one per request:

    with FakeApiServer() as server:
        server.put("/api/v1/pods", pod_message)
        server.fail("/api/v1/pods", Fault(status=429, retry_after=1))
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from tests.builders.absent import absent
from tests.builders.kubernetes_protobuf import frame_bytes, wrap
from tests.builders.waiting import LIMIT_S
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.k8s.v1 import core_pb2, meta_pb2

Json = dict[str, Any]


class Fault(NamedTuple):
    """A fault of one request. `status` 0 = the connection is closed without an answer."""

    status: int = 0
    reason: str = ""
    message: str = "as the test wants"
    retry_after: int = 0
    delay_s: float = 0.0
    # Serve the request, but close the connection after this number of bytes of the body.
    cut_after: int | None = None
    # Serve the request with this instead of the body.
    body: bytes | None = None
    # Match only watches (True) or only lists (False).
    watch: bool | None = None
    # Serve a watch without events: True = no byte after the headers; "trickle" = one byte at a time, no frame.
    silent: bool | str = False
    # Serve the request once this is set.
    held: threading.Event | None = None


class FakeApiServer:
    """The server; use as a context manager."""

    def __init__(self) -> None:
        self.version = 100
        self.oldest = 0
        self.objects: dict[str, dict[str, tuple[int, bytes]]] = defaultdict(dict)
        self.log: list[tuple[int, str, str, bytes]] = []
        self.documents: dict[str, Json] = {}
        self.forbidden: set[tuple[str, str]] = set()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: dict[str, deque[Fault]] = defaultdict(deque)
        self.expired_pages = 0
        self.changed = threading.Condition()
        self.closing = False
        self.cuts = 0
        self._kinds = {one.path: one.kind for one in WATCHED.values() if not one.is_custom}
        # Paths of kinds served as JSON; `define` registers custom ones.
        self.defined = self._kinds.keys() - {WATCHED["Pod"].path}
        outer = self

        class Handler(_Handler):
            server_state = outer

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.closing = True
            self.changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(LIMIT_S)

    def put(self, path: str, message: Any) -> bytes:
        """Create or replace an object, a message or JSON; its resource version is set here."""
        if path in self.defined:
            return self.put_json(path, message)
        with self.changed:
            self.version += 1
            message.metadata.resource_version = str(self.version)
            key = _key(message)
            known = key in self.objects[path]
            raw = message.SerializeToString()
            self.objects[path][key] = (self.version, raw)
            self._note(path, "MODIFIED" if known else "ADDED", raw)
            return raw

    def define(self, path: str, kind: str) -> None:
        """Register a kind as a CustomResourceDefinition does: its objects are served as JSON."""
        self.defined.add(path)
        # Last, because the kind is served from here on.
        self._kinds[path] = kind

    def put_json(self, path: str, obj: Json) -> bytes:
        """Create or replace an object of a kind that is served as JSON."""
        with self.changed:
            self.version += 1
            metadata = obj["metadata"] | {"resourceVersion": str(self.version)}
            raw = json.dumps(obj | {"metadata": metadata}).encode()
            key = f"{metadata.get('namespace', '')}/{metadata['name']}"
            known = key in self.objects[path]
            self.objects[path][key] = (self.version, raw)
            self._note(path, "MODIFIED" if known else "ADDED", raw)
            return raw

    def remove(self, path: str, key: str) -> None:
        """Delete an object by "namespace/name", or "/name"."""
        with self.changed:
            self.version += 1
            _, raw = self.objects[path].pop(key)
            if path in self.defined:
                gone = json.loads(raw)
                gone["metadata"]["resourceVersion"] = str(self.version)
                self._note(path, "DELETED", json.dumps(gone).encode())
                return
            head = core_pb2.Pod.FromString(raw)
            head.metadata.resource_version = str(self.version)
            self._note(path, "DELETED", head.SerializeToString())

    def bookmark(self, path: str) -> None:
        """Send a bookmark with the current version."""
        with self.changed:
            self.version += 1
            if path in self.defined:
                head = {"kind": self._kinds[path], "metadata": {"resourceVersion": str(self.version)}}
                self._note(path, "BOOKMARK", json.dumps(head).encode())
                return
            message = core_pb2.Pod()
            message.metadata.resource_version = str(self.version)
            self._note(path, "BOOKMARK", message.SerializeToString())

    def compact(self) -> None:
        """Discard the history: new watches from an older version get 410; open ones miss nothing."""
        with self.changed:
            self.oldest = self.version

    def cut_watches(self) -> None:
        """End all open watches."""
        with self.changed:
            self.cuts += 1
            self.changed.notify_all()

    def fail(self, path: str, *faults: Fault) -> None:
        """Queue faults for the next requests to a path."""
        self.faults[path].extend(faults)

    def count(self, path: str, *, watch: bool) -> int:
        """Return the number of lists or watches requested for a path."""
        return sum(p == path and ("watch" in q) == watch for _, p, q in self.requests)

    def _note(self, path: str, event: str, raw: bytes) -> None:
        self.log.append((self.version, path, event, raw))
        self.changed.notify_all()


def _key(message: Any) -> str:
    return f"{message.metadata.namespace}/{message.metadata.name}"


class _Handler(BaseHTTPRequestHandler):
    server_state: FakeApiServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        self._serve(self._body())

    def do_PUT(self) -> None:
        self._serve(self._body())

    def do_PATCH(self) -> None:
        self._serve(self._body())

    def _body(self) -> Json:
        read: Json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return read

    def _serve(self, body: Json | None) -> None:
        state = self.server_state
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        # Before the request is visible: faults or cuts that a test makes after seeing it always affect it.
        cuts = state.cuts
        state.requests.append((self.command, split.path, query))
        fault = self._fault(split.path, "watch" in query)
        if fault is not None:
            time.sleep(fault.delay_s)
            if fault.held is not None:
                assert fault.held.wait(LIMIT_S)
            if fault.body is not None:
                self._send(200, fault.body)
                return
            if fault.status:
                self._status(fault)
                return
            if fault.cut_after is None and not fault.delay_s and not fault.silent and fault.held is None:
                self._hang_up()
                return
        try:
            if body is not None or split.path not in state._kinds:
                self._document(split.path, body)
                return
            if "watch" in query:
                self._watch(split.path, query, fault, cuts)
                return
            self._list(split.path, query, fault)
            return
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _fault(self, path: str, watch: bool) -> Fault | None:
        queue = self.server_state.faults[path]
        if queue and queue[0].watch in (None, watch):
            return queue.popleft()
        return None

    def _hang_up(self) -> None:
        self.close_connection = True

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None, cut: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self._hang_up()

    def _status(self, fault: Fault) -> None:
        status = meta_pb2.Status(status="Failure", reason=fault.reason, message=fault.message, code=fault.status)
        headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
        self._send(fault.status, wrap("Status", "v1", status.SerializeToString()), headers)

    def _list(self, path: str, query: Mapping[str, str], fault: Fault | None) -> None:
        state = self.server_state
        with state.changed:
            version, items = state.version, sorted(state.objects[path].items())
        start = 0
        if "continue" in query:
            if state.expired_pages:
                state.expired_pages -= 1
                self._status(Fault(410, "Expired"))
                return
            version, start = (int(part) for part in query["continue"].split(":"))
        limit = int(query.get("limit", "0")) or len(items)
        if path in state.defined:
            found = [json.loads(raw) for _, (_, raw) in items[start : start + limit]]
            metadata = {"resourceVersion": str(version)}
            if start + limit < len(items):
                metadata["continue"] = f"{version}:{start + limit}"
            body = json.dumps({"kind": "List", "metadata": metadata, "items": found}).encode()
            self._send(200, body, cut=fault.cut_after if fault else None)
            return
        page = meta_pb2.RawList(items=[raw for _, (_, raw) in items[start : start + limit]])
        page.metadata.resource_version = str(version)
        if start + limit < len(items):
            setattr(page.metadata, "continue", f"{version}:{start + limit}")
        self._send(200, wrap("List", "v1", page.SerializeToString()), cut=fault.cut_after if fault else None)

    def _watch(self, path: str, query: Mapping[str, str], fault: Fault | None, cuts: int) -> None:
        """Send events until the watch's timeout, or until watches were cut more than `cuts` times."""
        state, kind = self.server_state, self.server_state._kinds[path]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        after, sent = int(query["resourceVersion"]), 0
        if after < state.oldest:
            gone = meta_pb2.Status(status="Failure", code=410, reason="Expired", message="too old resource version")
            error = {"kind": "Status", "code": gone.code, "reason": gone.reason, "message": gone.message}
            self._chunk(
                json.dumps({"type": "ERROR", "object": error}).encode() + b"\n"
                if path in state.defined
                else frame_bytes("ERROR", "Status", "v1", gone.SerializeToString())
            )
            self._chunk(b"")
            return
        end = time.monotonic() + int(query["timeoutSeconds"])
        if fault is not None and fault.silent:
            self._keep_silent(fault)
            return
        while True:
            with state.changed:
                events = [entry for entry in state.log if entry[0] > after and entry[1] == path]
                if not events:
                    if state.closing or state.cuts != cuts or time.monotonic() >= end:
                        break
                    state.changed.wait(0.2)
                    continue
            for version, _, event, raw in events:
                frame = frame_bytes(event, kind, "v1", raw)
                if path in state.defined:
                    frame = json.dumps({"type": event, "object": json.loads(raw)}).encode() + b"\n"
                if fault is not None and fault.cut_after is not None and sent + len(frame) > fault.cut_after:
                    self._chunk(frame[: fault.cut_after - sent])
                    self._hang_up()
                    return
                self._chunk(frame)
                after, sent = version, sent + len(frame)
        if state.closing:
            self._hang_up()
            return
        self._chunk(b"")

    def _keep_silent(self, fault: Fault) -> None:
        """Keep a watch open beyond its requested timeout without sending a complete frame."""
        if fault.silent == "trickle":
            self._chunk((1 << 20).to_bytes(4, "big"))
        while not self.server_state.closing:
            time.sleep(0.01)
            if fault.silent == "trickle":
                self._chunk(b"\0")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _document(self, path: str, body: Json | None) -> None:
        """Handle JSON objects: access reviews, and all that are created, read and replaced by path."""
        state = self.server_state
        if path.endswith("/selfsubjectaccessreviews") and body is not None:
            attributes = body["spec"]["resourceAttributes"]
            allowed = (attributes["resource"], attributes["verb"]) not in state.forbidden
            self._json(201, body | {"status": {"allowed": allowed}})
            return
        with state.changed:
            if self.command == "POST" and body is not None:
                path = f"{path}/{body['metadata'].get('name') or body['metadata']['generateName'] + str(state.version)}"
                if path in state.documents:
                    self._status(Fault(409, "AlreadyExists"))
                    return
            elif path not in state.documents:
                self._json(*absent(path))
                return
            if body is None:
                self._json(200, state.documents[path])
                return
            wanted = body["metadata"].get("resourceVersion")
            if self.command == "PUT" and wanted and wanted != state.documents[path]["metadata"]["resourceVersion"]:
                self._status(Fault(409, "Conflict"))
                return
            if self.command == "PATCH":
                body = _merged(state.documents[path], body)
            state.version += 1
            body["metadata"]["resourceVersion"] = str(state.version)
            state.documents[path] = body
            self._json(201 if self.command == "POST" else 200, body)
            return

    def _json(self, status: int, body: Json) -> None:
        self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _merged(old: Json, patch: Json) -> Json:
    merged = dict(old)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merged(merged[key], value)
        else:
            merged[key] = value
    return merged
