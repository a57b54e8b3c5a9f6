"""Who calls: identities from the client certificate and the bearer token of a call.

Decides names: a URI of the certificate as it is (`spiffe://trimtab/loop`; only one that begins with a scheme and "://",
so that none looks like a name of another kind), a DNS name as `dns:NAME`, the common name as `cn:NAME`, a token's user
as Kubernetes names it (`system:serviceaccount:NAMESPACE:NAME`). Never decides what a caller may do. Source: gRPC,
`grpc_security_constants.h`; RFC 3986, 3.1 (schemes).
"""

import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

import grpc

SESSION_KEY: Final = "trimtab-session"
"""Metadata that identifies all calls of one client, through any proxy: a secret of the client."""
CLUSTER_KEY: Final = "trimtab-cluster"
"""Metadata for load balancers, to send all calls about one cluster to the same planner; no service reads it."""
_MAX_SESSION: Final = 128
_BEARER: Final = "bearer "
_URI: Final = re.compile(r"(?!(?:dns|cn|system):)[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""The beginning of a URI that is an identity: its scheme is not the prefix of another kind of name."""


class CallerIdentity(NamedTuple):
    """A caller. `identities` : () = not known; `connection` : peer and, if the client sent one, session."""

    identities: tuple[str, ...] = ()
    connection: str = ""

    @property
    def name(self) -> str:
        """Return the identity for logs, "" = not known: the token's, if there is one."""
        return self.identities[0] if self.identities else ""

    @property
    def share(self) -> str:
        """Return the key by which limits per caller count: its identities, or the client if it is unknown."""
        return "\n".join(self.identities) or self.connection


_current: ContextVar[CallerIdentity] = ContextVar("caller", default=CallerIdentity())  # noqa: B039


def current_caller() -> CallerIdentity:
    """Return the caller of the call that this thread is handling."""
    return _current.get()


def set_caller(caller: CallerIdentity) -> None:
    """Set it; the next call of the thread sets its own."""
    _current.set(caller)


def certificate_identities(context: grpc.ServicerContext) -> tuple[str, ...]:
    """Return the identities in the caller's certificate, which TLS has checked; () without one."""
    properties: Mapping[str, Iterable[bytes]] = context.auth_context()  # type: ignore[assignment]

    def values(key: str) -> list[str]:
        return [value.decode(errors="replace") for value in properties.get(key, ())]

    return _named(values("peer_uri"), values("peer_dns"), values("x509_common_name"))


def peer_identities(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the same for a connection of Python's `ssl`. certificate : as `getpeercert` returns it, {} = none."""
    others = certificate.get("subjectAltName", ())
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    uris, hosts = ([value for kind, value in others if kind == wanted] for wanted in ("URI", "DNS"))
    return _named(uris, hosts, common)


def _named(uris: Iterable[str], hosts: Iterable[str], common: Iterable[str]) -> tuple[str, ...]:
    """Return the names in a certificate as identities."""
    found = [uri for uri in uris if _URI.match(uri)]
    return (*found, *(f"dns:{name}" for name in hosts), *(f"cn:{name}" for name in common if name))


def bearer_token(context: grpc.ServicerContext) -> str:
    """Return the token of a call, "" = none."""
    value = _metadata(context, "authorization")
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else ""


def connection_of(context: grpc.ServicerContext, is_known: bool) -> str:
    """Return a key that distinguishes callers with the same identity, or with none: the client's session or, for
    unknown callers without session, the connection.
    """
    session = _metadata(context, SESSION_KEY)[:_MAX_SESSION]
    if session:
        return f"session {session}"
    return "" if is_known else str(context.peer())


def _metadata(context: grpc.ServicerContext, key: str) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == key:
            return value if isinstance(value, str) else value.decode(errors="replace")
    return ""
