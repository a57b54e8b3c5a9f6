"""The command `trimtab-planner` and its options. Decides nothing: see `planner.service.process`."""

import typer

from clients.transport.options import ServerOptions, add_command
from planner.service.process import run
from planner.service.settings import ExpanderOptions, PlannerOptions, StartOptions

app = typer.Typer(
    add_completion=False, context_settings={"auto_envvar_prefix": "TRIMTAB_PLANNER"}, pretty_exceptions_enable=False
)
add_command(app, run, ServerOptions, PlannerOptions, ExpanderOptions, StartOptions)
