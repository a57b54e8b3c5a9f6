"""The options of a service's server, which the planner and the actuator share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from trimtab.common.rpc.access import OpenReview, open_access
from trimtab.common.rpc.options import AnonymousOption, LogLevelOption, PlaintextOption, PolicyOption
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.server import ServerSettings

AddressOption = Annotated[str, typer.Option("--address", help="host:port to listen on; port 0 = any free port")]
AddressFileOption = Annotated[
    Path | None, typer.Option("--address-file", help="file to which the address is written once it is bound")
]
MetricsAddressOption = Annotated[
    str, typer.Option("--metrics-address", help="host:port of the Prometheus endpoint; empty = none")
]
GraceOption = Annotated[float, typer.Option("--grace", min=0, help="seconds for calls in flight to finish at shutdown")]
MaxWorkersOption = Annotated[int, typer.Option("--max-workers", min=8, help="threads for calls, one per open call")]
MaxCallsPerCallerOption = Annotated[
    int, typer.Option("--max-calls-per-caller", min=0, help="most open calls of one caller; 0 = half of all")
]
IdleTimeoutOption = Annotated[
    float, typer.Option("--idle-timeout", min=0.1, help="longest pause within a request, seconds")
]
ReceiveTimeoutOption = Annotated[
    float, typer.Option("--receive-timeout", min=0.1, help="longest time until a request is complete, seconds")
]
SendTimeoutOption = Annotated[
    float, typer.Option("--send-timeout", min=0.1, help="longest time until a caller reads a message, seconds")
]

TlsCertOption = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="FILE", help="server certificate, PEM, for all ports; reloaded on change"),
]
TlsKeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="key of the server certificate, PEM, without password")
]
TlsClientCaOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-client-ca", metavar="FILE", help="CA certificates, PEM; callers need a certificate from one of them"
    ),
]
TokenAudienceOption = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="accept bearer tokens of Kubernetes ServiceAccounts for this audience; empty = none"
    ),
]
TokenKubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="kubeconfig of the cluster that issues the tokens; none = the pod's service account"
    ),
]

DEFAULTS = ServerSettings()


@dataclass(frozen=True)
class ServerOptions:
    """The options of `ServerSettings`, and the log level."""

    address: AddressOption = DEFAULTS.address
    address_file: AddressFileOption = DEFAULTS.address_file
    metrics_address: MetricsAddressOption = DEFAULTS.metrics_address
    grace: GraceOption = DEFAULTS.grace_s
    max_workers: MaxWorkersOption = DEFAULTS.max_workers
    max_calls_per_caller: MaxCallsPerCallerOption = DEFAULTS.max_calls_per_caller
    idle_timeout: IdleTimeoutOption = DEFAULTS.idle_timeout_s
    receive_timeout: ReceiveTimeoutOption = DEFAULTS.receive_timeout_s
    send_timeout: SendTimeoutOption = DEFAULTS.send_timeout_s
    log_level: LogLevelOption = "info"
    tls_cert: TlsCertOption = None
    tls_key: TlsKeyOption = None
    tls_client_ca: TlsClientCaOption = None
    allow_plaintext_on_network: PlaintextOption = False
    allow_anonymous_on_network: AnonymousOption = False
    policy: PolicyOption = None
    token_audience: TokenAudienceOption = ""
    token_kubeconfig: TokenKubeconfigOption = None

    def security(self) -> PortSecurity:
        """Return the protection of the ports. Raises `ValueError` if the files do not belong together."""
        security = PortSecurity(
            cert=self.tls_cert,
            key=self.tls_key,
            client_ca=self.tls_client_ca,
            allow_plaintext=self.allow_plaintext_on_network,
            allow_anonymous=self.allow_anonymous_on_network,
        )
        security.check()
        return security

    def settings(self, open_review: OpenReview) -> ServerSettings:
        """Return the settings of the server. `open_review` connects to the cluster that reviews bearer tokens.

        Raises ValueError, OSError for files that cannot be used; MissingExtraError.
        """
        return ServerSettings(
            address=self.address,
            address_file=self.address_file,
            metrics_address=self.metrics_address,
            grace_s=self.grace,
            max_workers=self.max_workers,
            max_calls_per_caller=self.max_calls_per_caller,
            idle_timeout_s=self.idle_timeout,
            receive_timeout_s=self.receive_timeout,
            send_timeout_s=self.send_timeout,
            security=self.security(),
            access=open_access(self.policy, self.token_audience, self.token_kubeconfig, open_review),
        )
