"""Command-line options that every service has.

Each can also be set by environment: a typer app made with
`context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}` reads
`TRIMTAB_PLANNER_ADDRESS` for `--address`, and so on. Durations are in seconds.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from clients.transport.server import ServerSettings

AddressOption = Annotated[str, typer.Option("--address", help="host:port to listen on; port 0 takes a free one")]
AddressFileOption = Annotated[
    Path | None, typer.Option("--address-file", help="file that receives the address once it is bound")
]
MetricsAddressOption = Annotated[
    str, typer.Option("--metrics-address", help="host:port of the Prometheus endpoint; empty for none")
]
GraceOption = Annotated[
    float, typer.Option("--grace", min=0, help="seconds that calls in flight have to finish when stopping")
]
MaxWorkersOption = Annotated[int, typer.Option("--max-workers", min=2, help="calls served at the same time")]
LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error")]

DEFAULTS = ServerSettings()


@dataclass(frozen=True)
class ServerOptions:
    """The options of `ServerSettings`, and the log level."""

    address: AddressOption = DEFAULTS.address
    address_file: AddressFileOption = DEFAULTS.address_file
    metrics_address: MetricsAddressOption = DEFAULTS.metrics_address
    grace: GraceOption = DEFAULTS.grace_s
    max_workers: MaxWorkersOption = DEFAULTS.max_workers
    log_level: LogLevelOption = "info"

    def settings(self) -> ServerSettings:
        """As the server takes them."""
        return ServerSettings(
            address=self.address,
            address_file=self.address_file,
            metrics_address=self.metrics_address,
            grace_s=self.grace,
            max_workers=self.max_workers,
        )


def add_command(app: typer.Typer, run: Callable[..., None], *sections: type) -> None:
    """Make `run` the command of an app, its options the fields of frozen dataclasses.

    Each field is `Annotated[type, typer.Option(…)]`, with or without default; `run` receives one instance of each
    section.
    """
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=get_type_hints(section, include_extras=True)[field.name],
        )
        for section in sections
        for field in fields(section)
    ]

    def command(**values: Any) -> None:
        run(*(section(**{field.name: values[field.name] for field in fields(section)}) for section in sections))

    command.__doc__ = run.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.command()(command)


def _default(field: "Field[Any]") -> Any:
    """A field's default, as `inspect` and typer understand it."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default
