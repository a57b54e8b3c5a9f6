"""The command `trimtab-actuator` and its options."""

import typer

from trimtab.actuator.cloud.table import option_classes
from trimtab.actuator.service.options import StateOptions, WorkOptions
from trimtab.actuator.service.process import run
from trimtab.common.rpc.options import ServerOptions, add_command

app = typer.Typer(
    add_completion=False,
    context_settings={"auto_envvar_prefix": "TRIMTAB_ACTUATOR"},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
add_command(app, run, ServerOptions, StateOptions, WorkOptions, *option_classes())
