"""A certificate authority in two files, and the certificates that it issues.

Decides form: ECDSA P-256 with SHA-256, keys in PKCS 8 without password, certificates with one URI as identity. They are
client certificates, and also server certificates if hosts are given. Times are UTC.
Source: RFC 5280; https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md (the URI as identity).

An access policy names a caller with a certificate of a component `spiffe://trimtab/PART`.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS: Final = 3650
_BEFORE: Final = timedelta(minutes=5)
"""Certificates are valid from a little earlier on, as clocks differ."""


class Issued(NamedTuple):
    """A certificate and its key, PEM. `cert` : the certificate."""

    cert: bytes
    key: bytes


class Authority:
    """A CA that issues certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @staticmethod
    def make(name: str, now: datetime, days: int = CA_DAYS) -> tuple["Authority", Issued]:
        """Create a new CA; return it with its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key.public_key(), now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        return Authority(certificate, key), Issued(_pem(certificate), _key_pem(key))

    @staticmethod
    def read(files: Issued) -> "Authority":
        """Return the CA in the files. Raises ValueError if they contain none."""
        key = serialization.load_pem_private_key(files.key, None)
        certificate = x509.load_pem_x509_certificate(files.cert)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ValueError("the CA's key is not an ECDSA key or does not belong to its certificate")
        return Authority(certificate, key)

    def issue(self, name: str, identity: str, hosts: Sequence[str], now: datetime, days: int) -> Issued:
        """Issue a certificate: common name, URI, DNS names and IP addresses, days of validity from `now` on."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity)]
        names += [_general_name(host) for host in hosts]
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = _builder(subject, self._certificate.subject, key.public_key(), now, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        public = self._certificate.public_key()
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(public)  # type: ignore[arg-type]
        builder = builder.add_extension(authority_key, critical=False)
        return Issued(_pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _BEFORE).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


TRUST_DOMAIN: Final = "trimtab"
LOCAL: Final = ("localhost", "127.0.0.1", "::1")
"""Names of this machine, to try the services on it."""


class Component(NamedTuple):
    """One component. `service` : name of its Kubernetes Service, "" = it takes no calls from us. `name` : of its files;
    `text` : what it is, for people.
    """

    name: str
    service: str
    text: str

    @property
    def identity(self) -> str:
        """Return the URI in the certificate."""
        return f"spiffe://{TRUST_DOMAIN}/{self.name}"

    def hosts(self, namespace: str) -> tuple[str, ...]:
        """Return DNS names and IP addresses of the certificate."""
        if not self.service:
            return ()
        inside = (f"{self.service}.{namespace}", f"{self.service}.{namespace}.svc")
        return (self.service, *inside, f"{inside[-1]}.cluster.local", *LOCAL)


PARTS: Final = (
    Component("planner", "trimtab-planner", "the planner, also as gRPC expander of the Cluster Autoscaler"),
    Component("actuator", "trimtab-actuator", "the actuator, also as externalgrpc provider of the Cluster Autoscaler"),
    # Its health port has the same certificate.
    Component("loop", "trimtab-loop", "`trimtab run`"),
    Component("balancer", "trimtab-balancer", "a load balancer in front of several planners"),
    Component("cluster-autoscaler", "", "the Cluster Autoscaler as a client of both"),
    Component("operator", "", "a user of the command line"),
    Component("metrics", "", "a Prometheus server that scrapes metrics"),
)
