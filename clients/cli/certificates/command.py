"""`trimtab admin certificates DIR`: write a CA, certificates for all components, and Kubernetes Secrets with them.
Decides which files are written: `ca.crt`, `ca.key`, `PART.crt`, `PART.key`, and `secrets.yaml` with a Secret
`trimtab-PART-tls` (tls.crt, tls.key, ca.crt) for each part; the CA's key is in none. Only their owner can read keys.
Never overwrites a CA: with `renew`, the existing CA issues new certificates.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from trimtab.clients.cli.certificates.authority import PARTS, Authority, Component, Issued
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.output import note
from trimtab.common.documents.output import write_whole
from trimtab.common.kubernetes.names import RULE, is_label, is_subdomain

_PRIVATE, _PUBLIC = 0o600, 0o644


def certificates(directory: Path, namespace: str, days: int, names: Sequence[str], *, renew: bool) -> None:
    """Write everything. Errors: UsageError, FailedError."""
    if not is_label(namespace):
        raise UsageError(f"--namespace {namespace}: a namespace is {RULE}")
    further = _further(names)
    now = datetime.now(UTC)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority, ca = _authority(directory, now, renew=renew)
        issued = {
            part: authority.issue(f"trimtab-{part.name}", part.identity, hosts, now, days)
            for part in PARTS
            for hosts in [(*part.hosts(namespace), *further.get(part.name, ()))]
        }
        for part, one in issued.items():
            write_whole(directory / f"{part.name}.key", one.key, _PRIVATE)
            write_whole(directory / f"{part.name}.crt", one.cert, _PUBLIC)
        secrets = [_secret(part, one, ca, namespace) for part, one in issued.items()]
        write_whole(directory / "secrets.yaml", yaml.safe_dump_all(secrets, sort_keys=False).encode(), _PRIVATE)
    except OSError as error:
        raise FailedError(f"{directory}: the certificates cannot be written: {error.strerror}") from error
    note(
        f"{directory} has a CA and {len(PARTS)} certificates valid for {days} days; keep ca.key away from the services"
    )
    for part in PARTS:
        note(f"  {part.name}: {part.identity}, for {part.text}")


def _authority(directory: Path, now: datetime, *, renew: bool) -> tuple[Authority, bytes]:
    """Return the CA and its certificate: the existing one, or a new one."""
    cert, key = directory / "ca.crt", directory / "ca.key"
    if renew:
        try:
            files = Issued(cert.read_bytes(), key.read_bytes())
            return Authority.read(files), files.cert
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{directory}: there is no CA to issue certificates from: {error}") from error
    if cert.exists() or key.exists():
        raise UsageError(f"{directory} already has a CA; give --renew for new certificates from it, or another DIR")
    authority, files = Authority.make(f"trimtab CA {now:%Y-%m-%d}", now)
    write_whole(key, files.key, _PRIVATE)
    write_whole(cert, files.cert, _PUBLIC)
    return authority, files.cert


def _further(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the additional hosts of each component, given as PART=HOST."""
    found: dict[str, tuple[str, ...]] = {}
    known = [part.name for part in PARTS]
    for text in names:
        part, _, host = text.partition("=")
        if part not in known:
            raise UsageError(f"--name {text}: write PART=HOST, with one of these parts: {', '.join(known)}")
        if not is_subdomain(host) and ":" not in host:
            raise UsageError(f"--name {text}: {host!r} is neither a DNS name nor an IP address")
        found[part] = (*found.get(part, ()), host)
    return found


def _secret(part: Component, issued: Issued, ca: bytes, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"trimtab-{part.name}-tls", "namespace": namespace},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": issued.cert.decode(), "tls.key": issued.key.decode(), "ca.crt": ca.decode()},
    }
