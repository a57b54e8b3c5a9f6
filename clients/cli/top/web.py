"""The page of `trimtab top --web`: the last picture for a browser, and the same as JSON. Reads only; gives no order and
has no form.

Decides who may look: where callers need certificates, those who present one; under an access policy, those with the
right `read`. On loopback in plain text, requests for another host are refused, since a page elsewhere could make a
browser send them. What a picture shows is computed when somebody looks, once for all who do.
"""

import gzip
import hashlib
import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from importlib import resources
from typing import Final
from urllib.parse import parse_qs

import structlog

from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.screen.model import screen_document
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
_NOT_FOUND: Final = plain("404 Not Found", "there is /, /screen.json and /node?name=NODE")


class LastPicture:
    """A sink that keeps the last picture for those who look, and computes what they see when they do. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds."""
        self._clock = clock
        self._lock, self._computing = threading.Lock(), threading.Lock()
        self.picture: Picture | None = None
        self._changes, self._trouble = 0, ""
        self._shown: tuple[Picture, bytes] | None = None

    def show(self, picture: Picture) -> None:
        """Take over a picture."""
        with self._lock:
            self.picture, self._trouble = picture, ""
            self._changes += 1

    def say(self, text: str) -> None:
        """Say why there is no newer picture; the last one stays."""
        with self._lock:
            self._changes += self._trouble != text
            self._trouble = text

    @property
    def version(self) -> str:
        """Changes with what is shown."""
        return f'"{self._changes}"'

    @property
    def trouble(self) -> str:
        """Why there is no newer picture, "" = there is."""
        return self._trouble

    def document(self) -> bytes | None:
        """Return the screen as JSON; None = there was no picture."""
        found = self._latest()
        if found is None:
            return None
        picture, screen = found
        more = {"trouble": self.trouble, "age": max(0.0, self._clock() - picture.answer.now_ns / 1e9)}
        # The screen is an object that is not empty.
        return screen[:-1] + b", " + json.dumps(visible_texts(more)).encode()[1:]

    def explain(self, node: str) -> str:
        """Return why a node goes or stays, "" = there is no such node."""
        found = self._latest()
        lines = found[0].explain(_named(found[0].answer.view, node)) if found is not None else []
        return "\n".join(visible(plain_text(line)) for line in lines)

    def _latest(self) -> tuple[Picture, bytes] | None:
        """Return the last picture and its screen, computed once. The feed waits for nobody who looks."""
        with self._computing:
            picture = self.picture
            if picture is None:
                return None
            if self._shown is None or self._shown[0] is not picture:
                screen = visible_texts(screen_document(picture.screen))
                self._shown = picture, json.dumps(screen, ensure_ascii=False).encode()
            return self._shown


def _named(view: ClusterView, shown: str) -> str:
    """Return the name of the node that the page shows so."""
    return shown if shown in view.nodes else next((one for one in view.nodes if visible(one) == shown), "")


class WebPort:
    """The page's port. Use as a context manager."""

    def __init__(self, address: str, last: LastPicture, security: PortSecurity, access: Access | None = None) -> None:
        """Listen on "host:port", port 0 = any. Errors: OSError, ValueError as of `PortSecurity`."""
        self._last, self._security, self._access = last, security, access or Access()
        host, port = split_address(address)
        security.check_exposure("--web", host)
        security.check_callers("--web", host, self._access.knows_callers)
        self._is_local = is_loopback(host) and not security.has_tls
        self._html, self._policy = _page()
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
        if request.path == "/":
            return _html(self._html, self._policy)
        if request.path in ("/screen.json", "/node"):
            return lambda: self._data(request)
        return _NOT_FOUND

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

    def _data(self, request: HttpRequest) -> HttpAnswer:
        """Return what takes long to compute."""
        if request.path == "/node":
            name = parse_qs(request.query).get("name", [""])[0]
            told = self._last.explain(name)
            return _with_headers(plain("200 OK", told) if told else plain("404 Not Found", f"there is no node {name}"))
        version = self._last.version
        if request.headers.get("if-none-match") == version:
            return HttpAnswer("304 Not Modified", b"", (("ETag", version), *_SECURITY))
        body = self._last.document()
        if body is None:
            why = self._last.trouble or "no round has succeeded yet"
            return _with_headers(plain("503 Service Unavailable", why))
        headers = [("Content-Type", "application/json"), ("ETag", version), *_SECURITY]
        if "gzip" in request.headers.get("accept-encoding", ""):
            body = gzip.compress(body, 1)
            headers.append(("Content-Encoding", "gzip"))
        return HttpAnswer("200 OK", body, tuple(headers))


def _with_headers(answer: HttpAnswer) -> HttpAnswer:
    return answer._replace(headers=(*answer.headers, *_SECURITY))


def _html(page: bytes, policy: str) -> HttpAnswer:
    headers = (("Content-Type", "text/html; charset=utf-8"), ("Content-Security-Policy", policy), *_SECURITY)
    return HttpAnswer("200 OK", page, headers)


def _page() -> tuple[bytes, str]:
    """Return the page, and its policy: nothing is loaded from anywhere but this port, no other script runs."""
    folder = resources.files("trimtab.clients.cli.screen")
    page, style, script = ((folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    text = page.replace("/*style*/", style).replace("/*script*/", script)
    hashes = (b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script))
    styles, scripts = (f"'sha256-{one}'" for one in hashes)
    policy = (
        f"default-src 'none'; style-src {styles}; script-src {scripts}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _is_local_host(header: str) -> bool:
    """Return whether the header `Host` names this machine."""
    host = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return host.lower().strip("[]") in ("localhost", "127.0.0.1", "::1")
