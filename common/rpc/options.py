"""Command-line options that every service has.

Each can also be set by environment: a typer app made with
`context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}` reads
`TRIMTAB_PLANNER_ADDRESS` for `--address`, and so on. Durations are in seconds.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from trimtab.common.rpc.access import OpenReview, open_access
from trimtab.common.rpc.port_security import ANONYMOUS_OPTION, PLAINTEXT_OPTION, PortSecurity
from trimtab.common.rpc.server import ServerSettings
from trimtab.common.rpc.telemetry import LogFormat

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
PlaintextOption = Annotated[
    bool, typer.Option(PLAINTEXT_OPTION, help="allow plain text on addresses other than loopback")
]
AnonymousOption = Annotated[
    bool, typer.Option(ANONYMOUS_OPTION, help="with TLS, accept orders from unauthenticated callers on the network")
]

PolicyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="access policy, YAML: who may do what; reloaded on change")
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


def print_version(context: typer.Context, parameter: typer.CallbackParam, wanted: bool) -> None:
    """Print the version and exit, if requested on the command line (not by an environment variable)."""
    source = context.get_parameter_source(parameter.name or "")
    if wanted and source is not None and source.name == "COMMANDLINE":
        typer.echo(version("trimtab"))
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, show_default=False, help="print the version")
]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error")]
LogFormatOption = Annotated[
    LogFormat | None, typer.Option("--log-format", help="form of log lines; default: text on a terminal, else JSON")
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


def _show_all(ctx: typer.Context, is_asked: bool) -> None:
    """Show the help with the options that it hides otherwise, and exit."""
    if is_asked:
        for one in ctx.command.params:
            one.hidden = False  # type: ignore[attr-defined]
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAllOption = Annotated[
    bool,
    typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show all options and exit."),
]


def _extras(annotated: Any) -> tuple[Any, ...]:
    return getattr(annotated, "__metadata__", ())


def add_command(
    app: typer.Typer, run: Callable[..., None], *sections: type, name: str | None = None, **settings: Any
) -> None:
    """Make `run` a command of an app, its options the fields of frozen dataclasses; without `name` it is the program
    itself, which has --version.

    Each field is `Annotated[type, typer.Option(…)]`, with or without default; `run` receives one instance of each
    section. settings : of `typer.Typer.command`.
    """
    hints = {section: get_type_hints(section, include_extras=True) for section in sections}
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[section][field.name],
        )
        for section in sections
        for field in fields(section)
    ]
    if any(getattr(one, "hidden", False) for hint in hints.values() for of in hint.values() for one in _extras(of)):
        parameters.append(
            inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAllOption)
        )
    if name is None:
        version_parameter = inspect.Parameter(
            "show_version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=VersionOption
        )
        parameters.append(version_parameter)

    def command(**values: Any) -> None:
        _check_finite(values)
        run(*(section(**{field.name: values[field.name] for field in fields(section)}) for section in sections))

    command.__doc__ = run.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command(name, **settings)(command)


def _check_finite(values: dict[str, Any]) -> None:
    """Raise `typer.BadParameter` for "nan" and "inf", which are parsed as numbers but break comparisons."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise typer.BadParameter(f"--{name.replace('_', '-')}: {value} is not a finite number")


def _default(field: "Field[Any]") -> Any:
    """Return a field's default in the form of `inspect` and typer."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default
