"""Command-line options that every service has.

Each can also be set by environment: a typer app made with
`context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}` reads
`TRIMTAB_PLANNER_ADDRESS` for `--address`, and so on. Durations are in seconds.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from trimtab.common.rpc.addresses import ANONYMOUS_OPTION, PLAINTEXT_OPTION

PlaintextOption = Annotated[
    bool, typer.Option(PLAINTEXT_OPTION, help="allow plain text on addresses other than loopback")
]
AnonymousOption = Annotated[
    bool, typer.Option(ANONYMOUS_OPTION, help="with TLS, accept orders from unauthenticated callers on the network")
]

PolicyOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="access policy, YAML: who may do what; reloaded on change")
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


class LogFormat(StrEnum):
    """The form of log lines."""

    TEXT = "text"
    JSON = "json"


LogLevelOption = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error")]
LogFormatOption = Annotated[
    LogFormat | None, typer.Option("--log-format", help="form of log lines; default: text on a terminal, else JSON")
]


def _show_all(ctx: typer.Context, is_asked: bool) -> None:
    """Show the help with the options that it hides otherwise, and exit."""
    if is_asked:
        for param in ctx.command.params:
            param.hidden = False  # type: ignore[attr-defined]
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
            annotation=_with_flag(field, hints[section][field.name]),
        )
        for section in sections
        for field in fields(section)
    ]
    if any(getattr(extra, "hidden", False) for hint in hints.values() for of in hint.values() for extra in _extras(of)):
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


def _with_flag(field: "Field[Any]", hint: Any) -> Any:
    """Return the annotation of a field: one that is False by default is a flag without a flag that denies it."""
    for extra in _extras(hint):
        if field.default is False and extra.default is ...:
            extra.param_decls = (f"--{field.name.replace('_', '-')}",)
    return hint


def _default(field: "Field[Any]") -> Any:
    """Return a field's default in the form of `inspect` and typer."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default
