"""The signatures of all commands, and nothing else: each makes one call from its options.

A command has a parameter for each option, so the limit on parameters does not apply to this module.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from trimtab.clients.advice.levers.requests import DEFAULT_MARGIN
from trimtab.clients.advice.result import MOST_PLANS
from trimtab.clients.cli.decisions import read_decisions
from trimtab.clients.cli.live.commands import app as live_commands
from trimtab.clients.cli.options import (
    ArchOption,
    CapacityTypeOption,
    ClusterOption,
    ClustersOption,
    ContextsOption,
    FilesArgument,
    GroupByOption,
    HeadroomOption,
    LimitOption,
    LiveKubeconfigOption,
    MaxInputOption,
    NowOption,
    OffersOption,
    OutputOption,
    PlannerOption,
    PolicyOption,
    PricesOption,
    RatesOption,
    SettingsOption,
    StateOption,
    TraceOption,
    UsageMarginOption,
    UsageOption,
    VerboseOption,
)
from trimtab.clients.cli.output import Format
from trimtab.clients.cli.plan_formats import PlanFormat
from trimtab.clients.cli.price_lists.clouds import PricedCloud
from trimtab.clients.cli.rightsize.formats import Level, RightsizeFormat
from trimtab.clients.decisions import NAMES
from trimtab.common.documents.bounded_input import MAX_INPUT_BYTES
from trimtab.common.rpc.entry import end_without_reader
from trimtab.common.rpc.extras import require_extra
from trimtab.common.rpc.options import VersionOption


class _Commands(TyperGroup):
    """The commands. One whose output nobody reads any more ends by SIGPIPE; typer would end it with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the requested command, and write what is left of its output."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            end_without_reader()
        return result


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


@app.command()
def demo(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="your own cluster, instead of the built-in ones"),
    ] = None,
    prices: PricesOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run planner, actuator and a simulated cluster on this machine, and show how they work on real data."""
    require_extra("planner", "trimtab demo")
    require_extra("actuator", "trimtab demo")
    from trimtab.clients.cli.demo.command import demo as run

    run(files or [], prices, verbose=verbose)


@app.command()
def plan(
    files: FilesArgument = None,
    planner: PlannerOption = None,
    decision: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(NAMES)}; may be repeated; default scale-up and scale-down, and the others where input or "
            "settings ask for them",
        ),
    ] = None,
    settings: SettingsOption = None,
    state: StateOption = None,
    now: NowOption = None,
    group_by: GroupByOption = None,
    prices: PricesOption = None,
    rates: RatesOption = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    cluster: ClustersOption = None,
    usage: UsageOption = None,
    offers: OffersOption = None,
    usage_margin: UsageMarginOption = 100 * DEFAULT_MARGIN,
    verbose: VerboseOption = False,
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
    output: Annotated[
        PlanFormat,
        typer.Option("-o", "--output", help="output format; the last two print objects that hold the plan's slack"),
    ] = PlanFormat.TABLE,
    advice: Annotated[
        bool | None,
        typer.Option(
            "--advice/--no-advice", help="also say what to change so that more nodes could go; default: in tables only"
        ),
    ] = None,
) -> None:
    """Make a plan of each cluster: which node groups grow for which pods, which nodes go, and why the others stay."""
    from trimtab.clients.cli.plan import CommandOptions
    from trimtab.clients.cli.plan import plan as run

    asked = (planner, settings, state, now, output.form, group_by, verbose, max_input_bytes, prices, rates)
    clusters = (tuple(context or ()), kubeconfig, tuple(cluster or ()))
    options = CommandOptions(tuple(files or ()), *asked, *clusters, "", usage, usage_margin / 100, offers)
    if len(options.clusters) > 1 and output.export is None:
        from trimtab.clients.cli.several_clusters import plan_several

        plan_several(options, read_decisions(decision or []))
        return
    advice = output is PlanFormat.TABLE if advice is None else advice
    run(options, read_decisions(decision or []), output.export, with_advice=advice)


@app.command()
def advise(
    files: FilesArgument = None,
    planner: PlannerOption = None,
    settings: SettingsOption = None,
    state: StateOption = None,
    now: NowOption = None,
    group_by: GroupByOption = None,
    prices: PricesOption = None,
    rates: RatesOption = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    offers: OffersOption = None,
    cluster: ClustersOption = None,
    usage: UsageOption = None,
    usage_margin: UsageMarginOption = 100 * DEFAULT_MARGIN,
    most_plans: Annotated[int, typer.Option(min=2, help="most plans to make: more try more changes")] = MOST_PLANS,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="show all advice, and every line to change")] = False,
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
    output: OutputOption = Format.TABLE,
) -> None:
    """Say what to change in settings and objects so that more nodes could go, and what each change would free; of
    several clusters in one table.
    """
    from trimtab.clients.cli.advise import advise as run
    from trimtab.clients.cli.plan import CommandOptions

    asked = (planner, settings, state, now, output, group_by, verbose, max_input_bytes, prices, rates)
    clusters = (tuple(context or ()), kubeconfig, tuple(cluster or ()))
    options = CommandOptions(tuple(files or ()), *asked, *clusters, "", usage, usage_margin / 100, offers)
    if len(options.clusters) > 1:
        from trimtab.clients.cli.advise_several import advise_several

        advise_several(options, most_plans)
        return
    run(options, most_plans)


@app.command()
def rightsize(
    files: FilesArgument = None,
    offers: OffersOption = None,
    level: Annotated[Level, typer.Option(help="instance types that new nodes may have")] = Level.ANY,
    headroom: HeadroomOption = None,
    max_pools: Annotated[int, typer.Option(min=0, help="most pools; 0 = any number")] = 0,
    min_nodes: Annotated[int, typer.Option(min=0, help="least nodes of a pool")] = 0,
    max_nodes: Annotated[int, typer.Option(min=0, help="most nodes of a pool; 0 = any number")] = 0,
    capacity_type: CapacityTypeOption = "on-demand",
    arch: ArchOption = None,
    planner: PlannerOption = None,
    now: NowOption = None,
    prices: PricesOption = None,
    rates: RatesOption = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
    output: Annotated[
        RightsizeFormat,
        typer.Option("-o", "--output", help="output format; the last three print objects of the chosen pools"),
    ] = RightsizeFormat.TABLE,
) -> None:
    """Say which pools of machines would hold a cluster's pods for the least money, and what that saves."""
    from trimtab.clients.cli.plan import CommandOptions
    from trimtab.clients.cli.rightsize.command import RightsizeOptions
    from trimtab.clients.cli.rightsize.command import rightsize as run

    options = CommandOptions(
        tuple(files or ()), planner, now=now, prices=prices, rates=rates, max_input_bytes=max_input_bytes,
        contexts=tuple(context or ()), kubeconfig=kubeconfig, offers=offers,
    )  # fmt: skip
    run(options, RightsizeOptions(level, headroom, max_pools, min_nodes, max_nodes, capacity_type, arch, output))


@app.command()
def fit(
    files: FilesArgument = None,
    pod: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMESPACE/NAME", help="check only this pod, bound or pending; may be repeated"),
    ] = None,
    planner: PlannerOption = None,
    settings: SettingsOption = None,
    now: NowOption = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
    output: OutputOption = Format.JSON,
) -> None:
    """Show on which nodes each pending pod fits, and why not on the others; JSON is one object per line."""
    from trimtab.clients.cli.fit import fit as run
    from trimtab.clients.cli.plan import CommandOptions

    options = CommandOptions(tuple(files or ()), planner, settings, now=now, output=output)
    options = replace(options, max_input_bytes=max_input_bytes, contexts=tuple(context or ()), kubeconfig=kubeconfig)
    run(options, pod or [])


@app.command()
def explain(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE... pod/NAMESPACE/NAME|node/NAME|deploy/NAMESPACE/NAME|placeholder/NAME|slack",
            help="the cluster, then the subject",
        ),
    ],
    planner: PlannerOption = None,
    settings: SettingsOption = None,
    state: StateOption = None,
    now: NowOption = None,
    group_by: GroupByOption = None,
    prices: PricesOption = None,
    rates: RatesOption = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    offers: OffersOption = None,
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
    output: OutputOption = Format.TABLE,
) -> None:
    """Explain why a pod is not scheduled, why a node is not removed, or what room slack holds, where and why."""
    from trimtab.clients.cli.explain.command import explain as run
    from trimtab.clients.cli.plan import CommandOptions

    asked = (planner, settings, state, now, output, group_by)
    options = CommandOptions(tuple(files), *asked, max_input_bytes=max_input_bytes, prices=prices, rates=rates)
    run(replace(options, contexts=tuple(context or ()), kubeconfig=kubeconfig, offers=offers))


@app.command()
def certificates(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="directory to write to; created if missing")],
    namespace: Annotated[str, typer.Option(help="Kubernetes namespace of the services and of the Secrets")] = "trimtab",
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="validity of the certificates; the CA's is ten years")
    ] = 365,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="SERVICE=HOST", help="additional DNS name or IP address of a service; may be repeated"),
    ] = None,
    renew: Annotated[bool, typer.Option("--renew", help="issue new certificates from the existing CA")] = False,
) -> None:
    """Create a CA and certificates for planner, actuator, loop and the Cluster Autoscaler, with their Secrets."""
    from trimtab.clients.cli.certificates.command import certificates as run

    run(directory, namespace, days, tuple(name or ()), renew=renew)


@app.command()
def simulate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIO|RECORDING",
            help="what to simulate: YAML, see --schema; kubectl's objects; or recorded rounds, *.trimtab",
        ),
    ] = None,
    settings: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE|upstream", help="settings, or the built-in policy; repeat to compare several"),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=VALUE,…", help="simulate each value of a settings field; may be repeated"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="seed, instead of the scenario's")] = None,
    processes: Annotated[int, typer.Option(min=0, help="simulations at a time; 0 = one per core")] = 0,
    dask: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="simulate on the Dask cluster of this scheduler, such as tcp://HOST:8786"),
    ] = "",
    keep: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="keep finished simulations here and do not repeat them")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="write the result, for `trimtab report`")] = None,
    recommend: Annotated[
        bool,
        typer.Option("--recommend", help="name the cheapest settings within all limits; exit code 1 if none"),
    ] = False,
    limit: LimitOption = None,
    prices: PricesOption = None,
    offers: OffersOption = None,
    trace: TraceOption = None,
    policy: PolicyOption = None,
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of scenarios")] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Simulate a cluster on virtual time, with the real planner and actuator; compare settings on the same load."""
    require_extra("planner", "trimtab simulate")
    require_extra("actuator", "trimtab simulate")
    from trimtab.clients.cli.simulate.command import SimulateOptions, print_schema
    from trimtab.clients.cli.simulate.command import simulate as run

    if schema:
        print_schema()
        return
    asked = (tuple(settings or ()), tuple(sweep or ()), seed, processes, dask, keep, save, recommend)
    run(SimulateOptions(scenario, *asked, tuple(limit or ()), output, prices, trace, tuple(policy or ()), offers))


@app.command()
def report(
    out: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="HTML page to write")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="output of `trimtab simulate --save`, recordings, or the objects of a cluster",
            show_default=False,
        ),
    ] = None,
    planner: PlannerOption = None,
    settings: SettingsOption = None,
    now: NowOption = None,
    group_by: GroupByOption = None,
    prices: PricesOption = None,
    rates: RatesOption = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    offers: OffersOption = None,
    cluster: ClustersOption = None,
    usage: UsageOption = None,
    usage_margin: UsageMarginOption = 100 * DEFAULT_MARGIN,
    title: Annotated[str, typer.Option(metavar="TEXT", help="title of the page")] = "",
    from_start: Annotated[
        bool,
        typer.Option("--from-start", help="overlay several by the time since the start of each, not by date and time"),
    ] = False,
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
) -> None:
    """Write a self-contained page about a simulation, recorded rounds, or what a cluster could save and what prevents
    it.
    """
    from trimtab.clients.cli.plan import CommandOptions
    from trimtab.clients.cli.report.command import report as run

    asked = (planner, settings, None, now, Format.TABLE, group_by, False, max_input_bytes, prices, rates)
    clusters = (tuple(context or ()), kubeconfig, tuple(cluster or ()))
    options = CommandOptions(tuple(files or ()), *asked, *clusters, title, usage, usage_margin / 100, offers)
    run(options, out, from_start=from_start)


@app.command()
def top(
    files: FilesArgument = None,
    planner: PlannerOption = None,
    actuator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="show the deletions of this actuator; it gets no orders"),
    ] = None,
    context: ContextsOption = None,
    kubeconfig: LiveKubeconfigOption = None,
    settings: SettingsOption = None,
    now: NowOption = None,
    group_by: GroupByOption = None,
    prices: PricesOption = None,
    rates: RatesOption = None,
    offers: OffersOption = None,
    interval: Annotated[float, typer.Option(min=0.5, help="seconds between two plans of a live cluster")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="print the screen once as text; so without a terminal")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="a simulated cluster that shrinks, grows and shrinks")] = False,
    cluster_name: ClusterOption = "",
    state_config_map: Annotated[
        str,
        typer.Option(metavar="NAMESPACE/NAME", help="begin with the timers that a loop keeps in this ConfigMap"),
    ] = "",
    max_input_bytes: MaxInputOption = MAX_INPUT_BYTES,
) -> None:
    """Show nodes, packing, money, pending pods and deletions on a live screen: of the current context's cluster, of
    files, of a recording round by round.
    """
    from trimtab.clients.cli.plan import CommandOptions
    from trimtab.clients.cli.top.command import TopOptions
    from trimtab.clients.cli.top.command import top as run

    given = CommandOptions(tuple(files or ()), planner, settings, now=now, group_by=group_by, prices=prices)
    given = replace(given, max_input_bytes=max_input_bytes, rates=rates, contexts=tuple(context or ()))
    given = replace(given, kubeconfig=kubeconfig, offers=offers)
    run(TopOptions(given, actuator, interval, once, demo, cluster_name, state_config_map))


prices_commands = typer.Typer(no_args_is_help=True, help="Price files for --prices.")


@prices_commands.command("import")
def import_prices(
    cloud: Annotated[PricedCloud, typer.Argument(help="whose price list it is")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="what the cloud's own command line or price API wrote, as JSON"),
    ],
    region: Annotated[
        str, typer.Option(metavar="NAME", help="the region whose prices are wanted, if the lists have several")
    ] = "",
) -> None:
    """Print the published prices of a cloud's instance types as a price file."""
    from trimtab.clients.cli.price_lists.command import import_prices as run

    run(cloud, files, region)


@prices_commands.callback()
def prices() -> None:
    """Make price files for --prices."""


app.add_typer(prices_commands, name="prices")


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("trimtab"))


app.add_typer(live_commands)
