"""The signatures of all commands, and nothing else: each turns its options into one call.

A command has as many parameters as it has options; the limit on parameters does not hold for this module.
"""

from pathlib import Path
from typing import Annotated

import typer

from clients.cli.decisions import read_decisions
from clients.cli.live.commands import app as live_commands
from clients.cli.output import Format

app = typer.Typer(
    help="Decide which nodes a Kubernetes cluster can do without, explain why, and carry it out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FilesArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", help="Kubernetes objects (kubectl get -o json|yaml, .gz too) or a recording"),
]
PlannerOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="ask this running planner; without it, decide in process")
]
SettingsOption = Annotated[Path | None, typer.Option(metavar="FILE", help="settings, YAML or JSON")]
StateOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="`state` of the last plan, or that whole plan, as JSON")
]
NowOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="the moment to decide for, RFC 3339 or Unix seconds")
]  # fmt: skip
OutputOption = Annotated[Format, typer.Option("-o", "--output", help="how to print the answer")]


@app.command()
def demo(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="a cluster of your own in place of the built-in ones"),
    ] = None,
) -> None:
    """Show the whole thing at work: planner, actuator and an in-memory cloud on this machine, on real data."""
    from clients.cli.demo.command import demo as run

    run(files or [])


@app.command()
def plan(
    files: FilesArgument,
    planner: PlannerOption = None,
    decision: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="scale-down, …; may be repeated; default scale-down")
    ] = None,
    settings: SettingsOption = None,
    state: StateOption = None,
    now: NowOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Decide once over files: which nodes can go, where their pods would go, and why the others stay."""
    from clients.cli.plan import Asked
    from clients.cli.plan import plan as run

    run(Asked(tuple(files), planner, settings, state, now, output), read_decisions(decision or []))


@app.command()
def fit(
    files: FilesArgument,
    pod: Annotated[
        list[str] | None, typer.Option(metavar="NAMESPACE/NAME", help="only this pod, bound or not; may be repeated")
    ] = None,
    planner: PlannerOption = None,
    settings: SettingsOption = None,
    now: NowOption = None,
    output: OutputOption = Format.JSON,
) -> None:
    """Say for each pod that waits and each node whether it fits; JSON is one object a line."""
    from clients.cli.fit import fit as run
    from clients.cli.plan import Asked

    run(Asked(tuple(files), planner, settings, None, now, output), pod or [])


@app.command()
def explain(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE... pod/NAMESPACE/NAME|node/NAME", help="the cluster, then the subject")
    ],
    planner: PlannerOption = None,
    settings: SettingsOption = None,
    state: StateOption = None,
    now: NowOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell why a pod is not scheduled, or why a node is not removed."""
    from clients.cli.explain.command import explain as run
    from clients.cli.plan import Asked

    run(Asked(tuple(files), planner, settings, state, now, output))


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("trimtab"))


app.add_typer(live_commands)
