"""Certificates for tests: a separate CA, and files with the certificates that it issues."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.clients.cli.certificates.authority import Authority, Issued
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.port_security import PortSecurity

HOSTS = ("localhost", "127.0.0.1")


def _authority() -> tuple[Authority, Issued]:
    return Authority.make("test CA", datetime.now(UTC))


@dataclass
class OwnCa:
    """A CA and the directory of its files; each name has `NAME.crt` and `NAME.key`."""

    directory: Path
    made: tuple[Authority, Issued] = field(default_factory=_authority)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.ca.write_bytes(self.made[1].cert)

    @property
    def ca(self) -> Path:
        return self.directory / "ca.crt"

    def issue(
        self, name: str, identity: str = "", hosts: tuple[str, ...] = HOSTS, age: timedelta = timedelta()
    ) -> None:
        """Write a certificate that is valid for one day, starting `age` ago."""
        issued = self.made[0].issue(
            name, identity or f"spiffe://trimtab/{name}", hosts, datetime.now(UTC) - age, days=1
        )
        (self.directory / f"{name}.key").write_bytes(issued.key)
        (self.directory / f"{name}.crt").write_bytes(issued.cert)

    def port(self, name: str = "server", *, client_ca: bool = True, **more: bool) -> PortSecurity:
        """Return the port protection of a service with the certificate of this name."""
        cert, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        return PortSecurity(cert, key, self.ca if client_ca else None, **more)

    def channel(self, name: str = "", ca: Path | None = None, **more: object) -> ChannelSecurity:
        """Return the channel security of a client with the certificate of this name ("" = none)."""
        cert, key = (self.directory / f"{name}.crt", self.directory / f"{name}.key") if name else (None, None)
        return ChannelSecurity(ca or self.ca, cert, key, **more)  # type: ignore[arg-type]


def make_ca(directory: Path) -> OwnCa:
    """Return a CA with certificates "server" and "client"."""
    ca = OwnCa(directory)
    ca.issue("server")
    ca.issue("client", hosts=())
    return ca
