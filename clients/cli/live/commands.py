"""The signatures of the commands on live clusters, and nothing else: each makes one call from its options."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.clients.cli.decisions import read_decisions
from trimtab.clients.cli.options import (
    AdviseOnlyOption,
    ApplyPodCostsOption,
    ClusterOption,
    ContextOption,
    DecisionOption,
    DryRunOption,
    GroupByOption,
    GroupsOption,
    IntervalOption,
    KubeconfigOption,
    LeaderElectOption,
    LeaseNameOption,
    LoopActuatorOption,
    LoopMetricsOption,
    OffersOption,
    OutputOption,
    PlannerOption,
    PricesOption,
    ReplaceOption,
    RoundsOption,
    SettingsOption,
    StateAgeOption,
    StateFileOption,
    StateMapOption,
    WebOption,
)
from trimtab.clients.cli.output import Format
from trimtab.clients.load.bursts import LoadSettings
from trimtab.common.rpc.options import AnonymousOption, LogFormatOption, LogLevelOption, PlaintextOption, PolicyOption

app = typer.Typer()
LOAD = LoadSettings()


@app.command()
def run(
    planner: Annotated[str, typer.Option(metavar="HOST:PORT", help="the planner")],
    actuator: LoopActuatorOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    node_groups: GroupsOption = None,
    settings: SettingsOption = None,
    decision: DecisionOption = None,
    interval: IntervalOption = 10.0,
    dry_run: DryRunOption = False,
    rounds: RoundsOption = 0,
    cluster_name: ClusterOption = "",
    namespace: Annotated[str, typer.Option(help="namespace of the Lease and the status ConfigMap")] = "kube-system",
    leader_elect: LeaderElectOption = True,
    lease_name: LeaseNameOption = "trimtab-loop",
    status_config_map: Annotated[str, typer.Option(help='name of the status ConfigMap; "" = none')] = "trimtab-status",
    events: Annotated[bool, typer.Option(help="write Events on nodes and pods")] = True,
    health_address: Annotated[str, typer.Option(help='host:port of /healthz and /readyz; "" = none')] = "127.0.0.1:0",
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="record every round")] = None,
    log_level: LogLevelOption = "info",
    state_config_map: StateMapOption = "trimtab-state",
    state_file: StateFileOption = None,
    state_max_age: StateAgeOption = 300.0,
    apply_pod_costs: ApplyPodCostsOption = False,
    allow_plaintext_on_network: PlaintextOption = False,
    prices: PricesOption = None,
    offers: OffersOption = None,
    log_format: LogFormatOption = None,
    group_by: GroupByOption = None,
    replace: ReplaceOption = False,
    advise_only: AdviseOnlyOption = False,
    metrics_address: LoopMetricsOption = "",
    web: WebOption = "",
    policy: PolicyOption = None,
    allow_anonymous_on_network: AnonymousOption = False,
) -> None:
    """Autoscale a live cluster: snapshot, plan, act, repeat. Logs go to stderr: text has a line for each round in which
    something has changed, JSON an object for each round. A dry run ends with the table of the last plan."""
    from trimtab.clients.cli.live.run import RunOptions
    from trimtab.clients.cli.live.run import run as go
    from trimtab.clients.cli.live.sources import ClusterSource

    source = ClusterSource(kubeconfig, context, tuple(node_groups or ()), settings, cluster_name)
    go(RunOptions(
        source, planner, actuator, tuple(read_decisions(decision or [])), interval, dry_run, rounds, namespace,
        leader_elect, lease_name, status_config_map, events, health_address, record, log_level, state_config_map,
        state_file, state_max_age, apply_pod_costs, allow_plaintext_on_network, prices, log_format, group_by, replace,
        advise_only, metrics_address, web, policy, allow_anonymous_on_network, offers,
    ))  # fmt: skip


@app.command()
def steer(
    planner: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="the planner")] = None,
    actuator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="the actuator that writes pod deletion costs, and nothing else"),
    ] = None,
    autoscaler: Annotated[
        str,
        typer.Option(metavar="NAME", help="autoscaler whose annotation is written: cluster-autoscaler or karpenter"),
    ] = "cluster-autoscaler",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    node_groups: GroupsOption = None,
    settings: SettingsOption = None,
    offers: OffersOption = None,
    interval: IntervalOption = 10.0,
    writes_per_second: Annotated[
        float, typer.Option(min=0.1, max=1000, help="largest number of writes per second")
    ] = 10.0,
    dry_run: DryRunOption = False,
    clean: Annotated[bool, typer.Option("--clean", help="remove all of Trimtab's annotations and exit")] = False,
    leave: Annotated[bool, typer.Option("--leave", help="leave the annotations in place on exit")] = False,
    rounds: RoundsOption = 0,
    cluster_name: ClusterOption = "",
    namespace: Annotated[str, typer.Option(help="namespace of the Lease and the ConfigMap")] = "kube-system",
    leader_elect: LeaderElectOption = True,
    lease_name: LeaseNameOption = "trimtab-steer",
    state_config_map: StateMapOption = "trimtab-steer-state",
    state_file: StateFileOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = None,
) -> None:
    """Restrict an existing autoscaler to the nodes of Trimtab's plan, by annotations on the nodes that should stay."""
    from trimtab.clients.cli.live.sources import ClusterSource
    from trimtab.clients.cli.live.steer import SteerOptions
    from trimtab.clients.cli.live.steer import steer as go

    source = ClusterSource(kubeconfig, context, tuple(node_groups or ()), settings, cluster_name)
    go(
        SteerOptions(
            source, planner, actuator, autoscaler, interval, writes_per_second, dry_run, clean, leave, rounds,
            namespace, leader_elect, lease_name, state_config_map, state_file, log_level, log_format, offers,
        )
    )  # fmt: skip


@app.command()
def load(
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    namespace: Annotated[str, typer.Option(help="namespace of the Deployments; created if missing")] = LOAD.namespace,
    bursts: Annotated[int, typer.Option(min=1, help="number of bursts, one after the other")] = LOAD.burst_count,
    deployments: Annotated[int, typer.Option(min=1, help="Deployments per burst")] = LOAD.deployment_count,
    replicas: Annotated[int, typer.Option(min=1, help="pods per Deployment")] = LOAD.replicas,
    cpu: Annotated[str, typer.Option(metavar="QUANTITY", help="cpu request of a pod")] = LOAD.cpu,
    memory: Annotated[str, typer.Option(metavar="QUANTITY", help="memory request of a pod")] = LOAD.memory,
    length: Annotated[str, typer.Option(metavar="DURATION", help="duration of a burst")] = "5m",
    quiet: Annotated[str, typer.Option(metavar="DURATION", help="pause after each burst")] = "15m",
    node_selector: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="label of the nodes to run on; may be repeated")
    ] = None,
    image: Annotated[str, typer.Option(help="image of the pods, which only wait")] = LOAD.image,
    output: OutputOption = Format.TABLE,
) -> None:
    """Create bursts of Deployments in a live cluster, with pauses between them, and remove everything at the end."""
    from trimtab.clients.cli.live.load import LoadOptions
    from trimtab.clients.cli.live.load import load as go

    go(
        LoadOptions(
            kubeconfig, context, namespace, bursts, deployments, replicas, cpu, memory, length, quiet,
            tuple(node_selector or ()), image, output,
        )
    )  # fmt: skip


@app.command()
def record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the recording to write, such as cluster.trimtab")],
    planner: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="record the answers of this planner; default: one in process"),
    ] = None,
    actuator: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="actuator whose status goes into the snapshots; it gets no orders"),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    node_groups: GroupsOption = None,
    settings: SettingsOption = None,
    decision: DecisionOption = None,
    interval: IntervalOption = 10.0,
    rounds: Annotated[int, typer.Option(min=1, help="rounds to record")] = 1,
    cluster_name: ClusterOption = "",
    offers: OffersOption = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="replace names, labels and uids without changing any decision"),
    ] = False,
) -> None:
    """Record a live cluster, round by round: the planner's input and its answers."""
    from trimtab.clients.cli.live.record import RecordOptions
    from trimtab.clients.cli.live.record import record as go
    from trimtab.clients.cli.live.sources import ClusterSource

    source = ClusterSource(kubeconfig, context, tuple(node_groups or ()), settings, cluster_name)
    chosen = tuple(read_decisions(decision)) if decision else ()
    go(RecordOptions(file, source, planner, actuator, chosen, interval, rounds, redact, offers))


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="a recording with rounds")],
    planner: PlannerOption = None,
    output: OutputOption = Format.TABLE,
) -> None:
    """Run a recording through a planner and show every difference from the recorded answers; exit code 1 if any."""
    from trimtab.clients.cli.live.replay import replay as go

    go(file, planner, output)


@app.command()
def status(
    actuator: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="the actuator")] = None,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="refresh until Ctrl-C")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="seconds between refreshes with --watch")] = 2.0,
    rounds: Annotated[int, typer.Option(min=0, help="stop --watch after this many refreshes; 0 = never")] = 0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    namespace: Annotated[str, typer.Option(help="namespace of the loop's status ConfigMap")] = "kube-system",
    status_config_map: Annotated[
        str, typer.Option(help='name of the loop\'s status ConfigMap; "" = do not read one')
    ] = "trimtab-status",
    output: OutputOption = Format.TABLE,
) -> None:
    """Show the loop's last decisions and costs, deletions in progress, evictions and back-offs."""
    from trimtab.clients.cli.live.sources import ClusterSource
    from trimtab.clients.cli.live.status import StatusOptions
    from trimtab.clients.cli.live.status import status as go

    source = ClusterSource(kubeconfig, context)
    go(StatusOptions(source, actuator, namespace, status_config_map, watch, interval, rounds, output))
