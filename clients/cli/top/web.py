"""The page of `trimtab top --web`: the last picture as HTML, which loads the next one by itself, and as JSON. Reads
only; gives no order and has no form.

Decides who may look: where callers need certificates, those who present one; under an access policy, those with the
right `read`. On loopback in plain text, requests for another host are refused, since a page elsewhere could make a
browser send them. What a picture shows is computed when somebody looks, once for all who do.
"""

import gzip
import hashlib
import json
import re
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

import structlog

from trimtab.clients.cli.blocks import AnswerPage, page_document
from trimtab.clients.cli.report.page import rendered
from trimtab.clients.cli.top.feed import Picture
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.documents.output import visible, visible_texts
from trimtab.common.rpc.access import Access
from trimtab.common.rpc.addresses import split_address
from trimtab.common.rpc.http_port import HttpAnswer, HttpRequest, plain, serve_http
from trimtab.common.rpc.port_security import PortSecurity, is_loopback
from trimtab.common.rpc.rights import Right

audit = structlog.get_logger("audit")
_SECURITY: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
_NOT_FOUND: Final = plain("404 Not Found", "there is /, /page.json, /version and /node?name=NODE")


class LastPicture:
    """A sink that keeps the last picture for those who look, and prints it when they do. Thread-safe."""

    def __init__(self) -> None:
        self._lock, self._printing = threading.Lock(), threading.Lock()
        self.picture: Picture | None = None
        self._changes, self._trouble = 0, ""
        self._printed: tuple[str, bytes] = "", b""

    def show(self, picture: Picture) -> None:
        """Take over a picture."""
        with self._lock:
            self.picture, self._trouble = picture, ""
            self._changes += 1

    def say(self, text: str) -> None:
        """Say why there is no newer picture; the last one stays."""
        with self._lock:
            self._trouble = text

    @property
    def version(self) -> str:
        """Changes with the picture."""
        return f"{self._changes}"

    @property
    def trouble(self) -> str:
        """Why there is no newer picture, "" = there is."""
        return self._trouble or ("" if self.picture is not None else "no round has succeeded yet")

    def html(self) -> bytes:
        """Return the page of the last picture, printed once for all who look. The feed waits for nobody who looks."""
        with self._printing:
            version, picture = self.version, self.picture
            if picture is None:
                return rendered(AnswerPage("trimtab top", ()), version).encode()
            if self._printed[0] != version:
                self._printed = version, rendered(picture.screen.page(picture.position), version).encode()
            return self._printed[1]

    def explain(self, node: str) -> bytes:
        """Return the page of a node, b"" = there is no such node."""
        picture = self.picture
        sentences = picture.explain(_named(picture.answer.view, node)) if picture is not None else []
        return rendered(AnswerPage(f"Why {node} goes or stays", tuple(sentences))).encode() if sentences else b""


def _named(view: ClusterView, shown: str) -> str:
    """Return the name of the node that the page shows so."""
    return shown if shown in view.nodes else next((node for node in view.nodes if visible(node) == shown), "")


class WebPort:
    """The page's port. Use as a context manager."""

    def __init__(self, address: str, last: LastPicture, security: PortSecurity, access: Access | None = None) -> None:
        """Listen on "host:port", port 0 = any. Errors: OSError, ValueError as of `PortSecurity`."""
        self._last, self._security, self._access = last, security, access or Access()
        host, port = split_address(address)
        security.check_exposure("--web", host)
        security.check_callers("--web", host, self._access.knows_callers)
        self._is_local = is_loopback(host) and not security.has_tls
        self._http = serve_http(host, port, security.http_context(), self._answer)
        self.address = f"{host}:{self._http.server_port}"

    def __enter__(self) -> "WebPort":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _answer(self, request: HttpRequest) -> HttpAnswer | Callable[[], HttpAnswer]:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        found = {"/": self._page, "/page.json": self._document, "/version": self._version, "/node": self._node}
        answer = found.get(request.path)
        return _NOT_FOUND if answer is None else lambda: answer(request)

    def _refusal(self, request: HttpRequest) -> HttpAnswer | None:
        """Return the answer to a caller who may not look; None = it may."""
        if self._is_local and not _is_local_host(request.headers.get("host", "")):
            return plain("421 Misdirected Request", "this port is for this machine; ask for 127.0.0.1 or localhost")
        if self._security.client_ca is not None and not request.showed_certificate:
            return plain("403 Forbidden", "this page is for callers with a client certificate")
        policy = self._access.policy
        if policy is None or Right.READ in policy().rights(request.identities):
            return None
        who = ", ".join(request.identities) or "a caller without certificate"
        audit.warning("refused", identities=list(request.identities), method=f"GET {request.path}", right="read")
        return plain("403 Forbidden", f"the access policy does not grant read to {who}")

    def _page(self, request: HttpRequest) -> HttpAnswer:
        return _html(request, self._last.html())

    def _version(self, _: HttpRequest) -> HttpAnswer:
        document = visible_texts({"version": self._last.version, "trouble": self._last.trouble})
        return HttpAnswer("200 OK", json.dumps(document).encode(), (("Content-Type", "application/json"), *_SECURITY))

    def _document(self, request: HttpRequest) -> HttpAnswer:
        picture = self._last.picture
        if picture is None:
            return _with_headers(plain("503 Service Unavailable", self._last.trouble))
        text = json.dumps(visible_texts(page_document(picture.screen.page())), ensure_ascii=False)
        return _packed(request, text.encode(), (("Content-Type", "application/json"), *_SECURITY))

    def _node(self, request: HttpRequest) -> HttpAnswer:
        name = parse_qs(request.query).get("name", [""])[0]
        page = self._last.explain(name)
        return _html(request, page) if page else _with_headers(plain("404 Not Found", f"there is no node {name}"))


def _with_headers(answer: HttpAnswer) -> HttpAnswer:
    return answer._replace(headers=(*answer.headers, *_SECURITY))


def _html(request: HttpRequest, page: bytes) -> HttpAnswer:
    """Return a page with its policy: nothing is loaded from anywhere but this port, no other script runs."""
    hashes = {kind: _hashes(kind, page) for kind in ("style", "script")}
    policy = (
        f"default-src 'none'; style-src {hashes['style']}; script-src {hashes['script']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = (("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", policy), *_SECURITY)
    return _packed(request, page, headers)


def _hashes(kind: str, page: bytes) -> str:
    """Return the digests of the elements of a kind; texts of the input are escaped, so that none of them is one."""
    parts = re.findall(rf"<{kind}>(.*?)</{kind}>".encode(), page, re.DOTALL)
    return " ".join(f"'sha256-{b64encode(hashlib.sha256(part).digest()).decode()}'" for part in parts)


def _packed(request: HttpRequest, body: bytes, headers: tuple[tuple[str, str], ...]) -> HttpAnswer:
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return HttpAnswer("200 OK", body, headers)
    return HttpAnswer("200 OK", gzip.compress(body, 1), (*headers, ("Content-Encoding", "gzip")))


def _is_local_host(header: str) -> bool:
    """Return whether the header `Host` names this machine."""
    host = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return host.lower().strip("[]") in ("localhost", "127.0.0.1", "::1")
