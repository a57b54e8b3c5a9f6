"""Certificate files, read again whenever they change.

Decides when files count as changed (a different inode, size or change time) and which content is used: that of the last
consistent set of files. An unusable new set is reported once in the log, and the previous one stays in use. Never
decides whom a certificate belongs to. Thread-safe.
"""

import os
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import structlog

T = TypeVar("T")
_ATTEMPTS: Final = 3
log = structlog.get_logger("certificates")

Signature = tuple[tuple[int, int, int], ...]


class Pem(NamedTuple):
    """The content of certificate files, PEM. cert, key : our own; ca : of the peers. None = there is no such file."""

    cert: bytes | None
    key: bytes | None
    ca: bytes | None


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate with its key, and the CAs that certificates of peers are checked against. PEM; None = none.
    `cert` : the certificate; `ca` : CAs, one or more in a file.
    """

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    def paths(self) -> tuple[Path, ...]:
        """Return the files that are set."""
        return tuple(path for path in (self.cert, self.key, self.ca) if path is not None)

    def check(self, options: tuple[str, str]) -> None:
        """Raise ValueError if only one of certificate and key is given; `options` are the names of both."""
        if (self.cert is None) != (self.key is None):
            missing = options[1] if self.key is None else options[0]
            raise ValueError(f"{options[0]} and {options[1]} belong together; give {missing} too")

    def read(self) -> Pem:
        """Read the files. Raises OSError or ValueError, which name the file, if they cannot be used together."""
        pem = Pem(*(None if path is None else path.read_bytes() for path in (self.cert, self.key, self.ca)))
        if self.cert is not None and self.key is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert, self.key, password=_no_password)
            except (ssl.SSLError, ValueError) as error:
                raise ValueError(f"{self.cert} and {self.key} are not a certificate and its key: {error}") from error
        if self.ca is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(self.ca)
            except ssl.SSLError as error:
                raise ValueError(f"{self.ca} holds no CA certificate: {error}") from error
        return pem


class Reloaded(Generic[T]):
    """A value made from files, and made again when they change."""

    def __init__(self, paths: tuple[Path, ...], make: Callable[[], T]) -> None:
        """Make it. Raises what `make` raises (OSError, ValueError)."""
        self._paths = paths
        self._make = make
        self._lock = threading.Lock()
        self._signature = self._sign()
        self._refused: Signature | None = None
        self._value = self._made()

    def get(self) -> T:
        """Return the value made from the current files, or from the last usable ones."""
        with self._lock:
            try:
                signature = self._sign()
                if signature not in (self._signature, self._refused):
                    self._renew(signature)
            except OSError as error:
                self._refuse((), error)
            return self._value

    def _renew(self, signature: Signature) -> None:
        try:
            value = self._made()
        except (OSError, ValueError) as error:
            self._refuse(signature, error)
            return
        self._value, self._signature, self._refused = value, signature, None
        log.info("files read again", files=[str(path) for path in self._paths])

    def _made(self) -> T:
        """Return a value made from files that did not change meanwhile; gives up after a few attempts. Key and
        certificate of two versions do not belong together: an error counts only if the files did not change.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            before = self._sign()
            try:
                value = self._make()
            except (OSError, ValueError):
                if attempt == _ATTEMPTS or self._sign() == before:
                    raise
                continue
            if self._sign() == before:
                break
        return value

    def _refuse(self, signature: Signature, error: Exception) -> None:
        if self._refused != signature:
            log.warning("changed files cannot be used; what was read before stays in use", detail=str(error))
        self._refused = signature

    def _sign(self) -> Signature:
        statuses = (os.stat(path) for path in self._paths)
        return tuple((status.st_ino, status.st_size, status.st_mtime_ns) for status in statuses)


def _no_password() -> str:
    """Refuse a key with a password, which OpenSSL would ask for on the terminal."""
    raise ValueError("the key has a password; give one without")
