"""`trimtab-actuator`, also `python -m actuator`. Decides nothing: see `actuator.service.process`."""

import typer

from actuator.service.options import KubeOptions, KwokOptions, MemoryOptions, StateOptions, WorkOptions
from actuator.service.process import run
from clients.transport.options import ServerOptions, add_command

app = typer.Typer(
    add_completion=False,
    context_settings={"auto_envvar_prefix": "TRIMTAB_ACTUATOR"},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
add_command(app, run, ServerOptions, StateOptions, WorkOptions, MemoryOptions, KubeOptions, KwokOptions)


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
