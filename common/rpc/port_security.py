"""Protection of a port that a process listens on: TLS, and who may connect. Plain text is restricted to loopback unless
the operator explicitly allows more. TLS versions: 1.3 on HTTP ports; on gRPC ports at least 1.2, and only 1.3 if
`require_tls_1_3` was called before gRPC was loaded. Certificates are read again when their files change, and then apply
to new connections.
"""

import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from trimtab.common.rpc.addresses import ANONYMOUS_OPTION, PLAINTEXT_OPTION
from trimtab.common.rpc.certificates import CertificateFiles, Pem, Reloaded

CIPHERS_VARIABLE: Final = "GRPC_SSL_CIPHER_SUITES"
# How long a handshake may take from its question for the configuration to its reference to it: microseconds.
SETTLE_S: Final = 0.05


class ExposedPortError(ValueError):
    """A port would be open to the network without protection; the message names the remedy."""


@dataclass(frozen=True)
class PortSecurity:
    """The files of `--tls-cert`, `--tls-key`, `--tls-client-ca`, and whether ports may be exposed without them."""

    cert: Path | None = None
    key: Path | None = None
    # Callers must have a certificate of one of these CAs. None = they need none.
    client_ca: Path | None = None
    # Whether ports of all interfaces may be without TLS, and callers there without identity.
    allow_plaintext: bool = False
    allow_anonymous: bool = False

    @property
    def files(self) -> CertificateFiles:
        """Return the files."""
        return CertificateFiles(self.cert, self.key, self.client_ca)

    @property
    def has_tls(self) -> bool:
        """Return whether ports speak TLS."""
        return self.cert is not None

    def check(self) -> None:
        """Raise ValueError if the files do not belong together."""
        self.files.check(("--tls-cert", "--tls-key"))
        if self.client_ca is not None and not self.has_tls:
            raise ValueError("--tls-client-ca needs --tls-cert and --tls-key: client certificates need TLS")

    def check_exposure(self, option: str, host: str) -> None:
        """Raise ExposedPortError for a plain-text port on a host other than loopback; `option` set the address."""
        if not self.has_tls and not self.allow_plaintext and not is_loopback(host):
            raise ExposedPortError(
                f"{option} {host}: this port would be open to the network in plain text; give --tls-cert, --tls-key and"
                f" --tls-client-ca (`trimtab admin certificates` makes them), listen on 127.0.0.1, or give"
                f" {PLAINTEXT_OPTION}"
            )

    def check_callers(self, option: str, host: str, knows_callers: bool) -> None:
        """Raise ExposedPortError for a network port that identifies callers neither by certificate nor by token."""
        if not self.has_tls or knows_callers or self.client_ca or self.allow_anonymous or is_loopback(host):
            return
        raise ExposedPortError(
            f"{option} {host}: anyone who reaches this port could give orders; give --tls-client-ca, or"
            f" --token-audience with --policy, or give {ANONYMOUS_OPTION}"
        )

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow the files. Raises OSError, ValueError."""
        kept = Reloaded(self.files.paths(), lambda: _configuration(self.files.read()))
        given = [kept.get()]

        def changed() -> grpc.ServerCertificateConfiguration | None:
            """Return the current configuration if it has changed; called before each handshake."""
            latest = kept.get()
            if latest is given[0]:
                return None
            # gRPC frees the configuration that this one replaces, also if another connection, which has passed here,
            # has yet to take its reference to it: the process died. No connection passes during this call.
            time.sleep(SETTLE_S)
            given[0] = latest
            return latest

        make: Any = grpc.dynamic_ssl_server_credentials  # its stub does not know of None
        credentials: grpc.ServerCredentials = make(given[0], changed, self.client_ca is not None)
        return credentials

    def http_context(self, client_may_be_unknown: bool = True) -> Callable[[], ssl.SSLContext] | None:
        """Return a function that gives the TLS context of the next HTTP connection; None = plain text. Raises OSError,
        ValueError. client_may_be_unknown : a certificate is requested and checked, but not required.
        """
        if not self.has_tls:
            return None

        def make() -> ssl.SSLContext:
            self.files.read()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            assert self.cert is not None
            context.load_cert_chain(self.cert, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_OPTIONAL if client_may_be_unknown else ssl.CERT_REQUIRED
            return context

        return Reloaded(self.files.paths(), make).get


def is_loopback(host: str) -> bool:
    """Return whether a listening host can be reached only from this machine; all addresses of a name count."""
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        # Binding will report the problem.
        return False
    return bool(addresses) and all(
        ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in addresses
    )


def speaks_tls_1_3_alone() -> bool:
    """Return whether gRPC in this process accepts nothing older than TLS 1.3, according to the environment."""
    return "PSK" in os.environ.get(CIPHERS_VARIABLE, "")


def _configuration(pem: Pem) -> grpc.ServerCertificateConfiguration:
    assert pem.key is not None
    assert pem.cert is not None
    return grpc.ssl_server_certificate_configuration([(pem.key, pem.cert)], pem.ca)
