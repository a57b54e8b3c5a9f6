"""The commands: their options, and one call each. Modules that do the work are loaded when a command runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from trimtab.clients.cli.command_options import (
    AdviseOptions,
    CertificateOptions,
    DemoOptions,
    ExplainOptions,
    ImportOptions,
    LoadOptions,
    PlanOptions,
    RecordOptions,
    ReplayOptions,
    RightsizeOptions,
    RunOptions,
    SimulateOptions,
    TopOptions,
)
from trimtab.clients.cli.options import EXPORTS, TABLE, PageSection, selected
from trimtab.common.rpc.entry import end_without_reader
from trimtab.common.rpc.extras import require_extra
from trimtab.common.rpc.options import VersionOption, add_command

if TYPE_CHECKING:
    from trimtab.clients.cli.plan import CommandOptions


class _Commands(TyperGroup):
    """The commands. One whose output nobody reads any more ends by SIGPIPE; typer would end it with exit code 1. An
    option that is another program's is answered with what it is here.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command, and write what is left of its output."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            end_without_reader()
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":
                _explain_option(error)
            raise
        return result

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the commands in the order in which they are made."""
        return list(self.commands)


def _explain_option(error: Any) -> None:
    """Raise a better error than one about an unknown option, if it is a flag of the Cluster Autoscaler, a field of
    Karpenter, or a setting, all of which the contract names. Errors: UsageError.
    """
    from trimtab.clients.cli.failures import UsageError
    from trimtab.setting_options import plain_name, settings_by_name

    name = str(error.option_name).partition("=")[0]
    path = settings_by_name().get(plain_name(name))
    if path is None:
        return
    takes = error.ctx is not None and any("--set" in param.opts for param in error.ctx.command.params)
    how = f"give --set {path}=VALUE, or a file of --settings" if takes else "it belongs in settings (--settings, --set)"
    raise UsageError(f"{name} is the setting {path} here: {how}") from None


_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)
admin = typer.Typer(cls=_Commands, no_args_is_help=True, help="Certificates, price lists, load for tests.")


@app.callback()
def options(
    show_version: VersionOption = False,
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="TRIMTAB_TLS_CA", help="CA certificates of planner and actuator; none = plain text"
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="TRIMTAB_TLS_CERT", help="client certificate, if the services require one"),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="TRIMTAB_TLS_KEY", help="key of the client certificate")
    ] = None,
    tls_server_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            envvar="TRIMTAB_TLS_SERVER_NAME",
            help="host name in the services' certificates, if it is not the address's",
        ),
    ] = "",
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="TRIMTAB_TOKEN_FILE", help="bearer token, such as a ServiceAccount's"),
    ] = None,
) -> None:
    """Decide which nodes a Kubernetes cluster needs and which it can do without, explain why, and carry it out."""
    del show_version
    from trimtab.clients.cli.connection_options import use

    use(tls_ca, tls_cert, tls_key, tls_server_name, token_file)


def demo(options: DemoOptions) -> None:
    """Show how it works: planner, actuator and a simulated cluster on this machine."""
    require_extra("planner", "trimtab demo")
    require_extra("actuator", "trimtab demo")
    from trimtab.clients.cli.demo.command import demo as run
    from trimtab.clients.cli.price_files import given_prices

    run(options.files or (), given_prices(options.prices), verbose=options.verbose)


def plan(options: PlanOptions) -> None:
    """Plan a cluster, or several: which nodes go, why the others stay, which node groups grow for which pods."""
    from trimtab.clients.cli.decisions import read_decisions
    from trimtab.clients.cli.plan import plan as run

    given, decisions = _command_options(options), read_decisions(options.decision or ())
    export = options.output.form if options.output.form in EXPORTS else None
    if _wrote_page(given, options):
        return
    if len(given.clusters) > 1 and export is None:
        from trimtab.clients.cli.several_clusters import plan_several

        plan_several(given, decisions)
        return
    advice = options.output == TABLE if options.advice is None else options.advice
    run(given, decisions, export, with_advice=advice)


def _wrote_page(options: "CommandOptions", asked: Any) -> bool:
    """Write the page that `-o html=FILE` asks for; return whether it does."""
    if asked.output.page is None:
        _refuse_page_options(asked)
        return False
    from trimtab.clients.cli.report.command import report

    report(options, asked.output.page, from_start=asked.from_start)
    return True


def _refuse_page_options(page_section: PageSection) -> None:
    if page_section.title or page_section.from_start:
        raise typer.BadParameter("--title and --from-start are for pages: give -o html=FILE")


def _command_options(asked: Any, **others: Any) -> "CommandOptions":
    from trimtab.clients.cli.plan import CommandOptions

    return selected(CommandOptions, asked, output=asked.output.format, **others)


def advise(options: AdviseOptions) -> None:
    """Say what to change so that more nodes could go, and what each change would free.

    Changes are of settings and objects; those of several clusters are in one table.
    """
    from trimtab.clients.cli.advise import advise as run

    run(_command_options(options), options.most_plans)


def rightsize(options: RightsizeOptions) -> None:
    """Say which pools of machines would hold a cluster's pods for the least money."""
    from trimtab.clients.cli.rightsize.command import rightsize as run

    run(_command_options(options), options)


def explain(options: ExplainOptions) -> None:
    """Explain why a pod is not scheduled, why a node is not removed, or where pods fit.

    Also what room slack holds, and what a workload, a pod group or a ProvisioningRequest lacks.
    """
    from trimtab.clients.cli.explain.command import explain as run

    run(_command_options(options))


def top(options: TopOptions) -> None:
    """Show a cluster on a live screen or a page: nodes, packing, money, pending pods, deletions.

    It is that of the current context, of files, or of a recording, round by round.
    """
    if options.status:
        from trimtab.clients.cli.live.status import status

        status(options)
        return
    from trimtab.clients.cli.top.command import top as run

    run(_command_options(options), options)


def simulate(options: SimulateOptions) -> None:
    """Simulate a cluster on virtual time, and compare settings on the same load."""
    require_extra("planner", "trimtab simulate")
    require_extra("actuator", "trimtab simulate")
    from trimtab.clients.cli.simulate.command import simulate as run

    page, files = options.output.page, options.scenario or []
    if page is None:
        _refuse_page_options(options)
        run(options)
        return
    from trimtab.clients.cli.plan import CommandOptions
    from trimtab.clients.cli.report.command import is_result, report, simulated, write_page

    if len(files) > 1 or (files and is_result(files[0])):
        report(CommandOptions(tuple(files), title=options.title), page, from_start=options.from_start)
        return
    run(options, lambda document: write_page(page, simulated(document, options.from_start), options.title))


def certificates(options: CertificateOptions) -> None:
    """Create a CA and certificates for planner, actuator, loop and the Cluster Autoscaler, with their Secrets."""
    from trimtab.clients.cli.certificates.command import certificates as run

    run(options.directory, options.namespace, options.days, options.name or (), renew=options.renew)


def import_prices(options: ImportOptions) -> None:
    """Print the published prices of a cloud's instance types as a price file, for --prices."""
    from trimtab.clients.cli.price_lists.command import import_prices as run

    run(options.cloud, options.files, options.region)


def load(options: LoadOptions) -> None:
    """Create bursts of Deployments in a live cluster, with pauses between them, and remove everything at the end."""
    from trimtab.clients.cli.live.load import load as run

    run(options)


def run(options: RunOptions) -> None:
    """Autoscale a live cluster, or steer its autoscaler, or only count what would be done.

    Logs go to stderr: text has a line for each round in which something has changed, JSON an object for each round.
    """
    from trimtab.clients.cli.live.run import run as go

    go(options)


def record(options: RecordOptions) -> None:
    """Record a live cluster, round by round: the planner's input and its answers."""
    from trimtab.clients.cli.live.record import record as go

    go(options)


def replay(options: ReplayOptions) -> None:
    """Run a recording through a planner and show every difference from the recorded answers.

    The exit code is 1 if there is any. With -o html=FILE write a page about the recorded rounds.
    """
    given = _command_options(options)
    if _wrote_page(given, options):
        return
    from trimtab.clients.cli.live.replay import replay as go

    go(options)


FIRST, LOOP, MORE = "Look at a cluster", "Autoscale it", "Try and keep"
add_command(app, demo, DemoOptions, name="demo", rich_help_panel=FIRST)
add_command(app, plan, PlanOptions, name="plan", rich_help_panel=FIRST)
add_command(app, explain, ExplainOptions, name="explain", rich_help_panel=FIRST)
add_command(app, advise, AdviseOptions, name="advise", rich_help_panel=FIRST)
add_command(app, rightsize, RightsizeOptions, name="rightsize", rich_help_panel=FIRST)
add_command(app, top, TopOptions, name="top", rich_help_panel=FIRST)
add_command(app, run, RunOptions, name="run", rich_help_panel=LOOP)
add_command(app, simulate, SimulateOptions, name="simulate", rich_help_panel=MORE)
add_command(app, record, RecordOptions, name="record", rich_help_panel=MORE)
add_command(app, replay, ReplayOptions, name="replay", rich_help_panel=MORE)
app.add_typer(admin, name="admin", rich_help_panel=MORE, context_settings=_HELP)
add_command(admin, certificates, CertificateOptions, name="certificates")
add_command(admin, import_prices, ImportOptions, name="import-prices")
add_command(admin, load, LoadOptions, name="load")
