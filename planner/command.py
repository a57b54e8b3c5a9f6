"""The command `trimtab-planner` and its options."""

import typer

from trimtab.common.rpc.options import add_command
from trimtab.common.rpc.server_options import ServerOptions
from trimtab.planner.process import run
from trimtab.planner.service.settings import ExpanderOptions, PlannerOptions, StartOptions

app = typer.Typer(
    add_completion=False, context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}, pretty_exceptions_enable=False
)
add_command(app, run, ServerOptions, PlannerOptions, ExpanderOptions, StartOptions)
