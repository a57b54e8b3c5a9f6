"""The options of each command: sections that commands share, and its own. Reads no file."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trimtab.clients.advice.result import MOST_PLANS
from trimtab.clients.cli.options import (
    TABLE,
    ActuatorOption,
    ClustersSection,
    CompletedSection,
    ConnectionSection,
    DecisionOption,
    GroupByOption,
    IntervalOption,
    Level,
    LiveSection,
    LogSection,
    MoneySection,
    OffersOption,
    OutputOption,
    PageOption,
    PageSection,
    PlannerOption,
    PoolOutputOption,
    PortSection,
    PricesOption,
    RoundsOption,
    SlackOutputOption,
    StateSection,
    UsageSection,
    VerboseOption,
    acts,
    live,
    reports,
)
from trimtab.clients.load.bursts import LoadSettings
from trimtab.common.rpc.options import PlaintextOption


class PricedCloud(StrEnum):
    """Whose price list it is."""

    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"


LOAD = LoadSettings()


class Acts(StrEnum):
    """What a loop does with its plans."""

    ALL = "all"
    STEER = "steer"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class RunOptions(LogSection, MoneySection, LiveSection):
    """The options of `trimtab run`. An option that is None depends on `act`."""

    planner: PlannerOption = None
    actuator: ActuatorOption = None
    decision: DecisionOption = None
    group_by: GroupByOption = None
    act: Annotated[
        Acts,
        acts(
            help="all: the actuator carries plans out; steer: annotations keep another autoscaler from nodes that "
            "should stay; none: change nothing, and count what it would have cost and saved"
        ),
    ] = Acts.ALL
    replace: Annotated[
        bool, acts(help="ask for replacements too, and have the actuator carry them out wave by wave")
    ] = False
    apply_pod_costs: Annotated[
        bool, acts(help="have the actuator write pod deletion costs; otherwise they are only recommended")
    ] = False
    interval_s: IntervalOption = 10.0
    rounds: RoundsOption = 0
    autoscaler: Annotated[
        str | None,
        acts(
            metavar="NAME",
            help="the autoscaler that is steered: cluster-autoscaler (the default) or karpenter; with --act none its "
            "annotations are only counted",
        ),
    ] = None
    writes_per_second: Annotated[float, acts(min=0.1, max=1000, help="largest number of annotations per second")] = 10.0
    clean: Annotated[bool, acts(help="remove all of Trimtab's annotations and exit")] = False
    leave: Annotated[bool, acts(help="leave the annotations in place on exit")] = False
    namespace: Annotated[str, live(help="namespace of the Lease and the ConfigMaps")] = "kube-system"
    leader_elect: Annotated[bool, live(help="act and write only while holding the Lease")] = True
    lease_name: Annotated[
        str | None, live(metavar="NAME", help="name of the Lease; default: trimtab-loop, or trimtab-steer")
    ] = None
    state_config_map: Annotated[
        str | None,
        live(
            metavar="NAME",
            help="ConfigMap that keeps node timers across restarts and leader changes; default: trimtab-state, or "
            'trimtab-steer-state; "" = none',
        ),
    ] = None
    state_file: Annotated[
        Path | None, live(metavar="FILE", help="keep node timers in this file instead of the ConfigMap")
    ] = None
    state_max_age: Annotated[float, live(min=0, help="seconds without a round after which all timers restart")] = 300.0
    status_config_map: Annotated[
        str | None,
        reports(
            metavar="NAME",
            help='ConfigMap of the loop\'s status; default: trimtab-status where --act is all; "" = none',
        ),
    ] = None
    events: Annotated[bool, reports(help="write Events on nodes and pods")] = True
    health_address: Annotated[str, reports(help='host:port of /healthz and /readyz; "" = none')] = "127.0.0.1:0"
    metrics_address: Annotated[
        str, reports(metavar="HOST:PORT", help='address of the metrics of gangs and of --act none; "" = none')
    ] = ""
    record: Annotated[Path | None, reports(metavar="FILE", help="record every round")] = None
    allow_plaintext_on_network: PlaintextOption = False

    @property
    def acts_on_nothing(self) -> bool:
        """Whether plans are made and not carried out."""
        return self.act is Acts.NONE


@dataclass(frozen=True, kw_only=True)
class RecordOptions(LiveSection):
    """The options of `trimtab record`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="the recording to write, such as cluster.trimtab")]
    redact: Annotated[bool, typer.Option(help="replace names, labels and uids without changing any decision")] = False
    rounds: Annotated[int, typer.Option(min=1, help="rounds to record")] = 1
    interval_s: IntervalOption = 10.0
    planner: PlannerOption = None
    actuator: ActuatorOption = None
    decision: DecisionOption = None
    offers: OffersOption = None


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(PageSection):
    """The options of `trimtab replay`."""

    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="a recording with rounds; with -o html=FILE also several")
    ]
    planner: PlannerOption = None
    output: PageOption = TABLE


@dataclass(frozen=True, kw_only=True)
class LoadOptions(ConnectionSection):
    """The options of `trimtab admin load`."""

    namespace: Annotated[str, typer.Option(help="namespace of the Deployments; created if missing")] = LOAD.namespace
    bursts: Annotated[int, typer.Option(min=1, help="number of bursts, one after the other")] = LOAD.burst_count
    deployments: Annotated[int, typer.Option(min=1, help="Deployments per burst")] = LOAD.deployment_count
    replicas: Annotated[int, typer.Option(min=1, help="pods per Deployment")] = LOAD.replicas
    cpu: Annotated[str, typer.Option(metavar="QUANTITY", help="cpu request of a pod")] = LOAD.cpu
    memory: Annotated[str, typer.Option(metavar="QUANTITY", help="memory request of a pod")] = LOAD.memory
    length: Annotated[str, typer.Option(metavar="DURATION", help="duration of a burst")] = "5m"
    quiet: Annotated[str, typer.Option(metavar="DURATION", help="pause after each burst")] = "15m"
    node_selector: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="label of the nodes to run on; may be repeated")
    ] = None
    image: Annotated[str, typer.Option(help="image of the pods, which only wait")] = LOAD.image
    output: OutputOption = TABLE


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of `trimtab demo`."""

    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="your own cluster, instead of the built-in ones")
    ] = None
    prices: PricesOption = None
    verbose: VerboseOption = False


@dataclass(frozen=True, kw_only=True)
class PlanOptions(PageSection, UsageSection, CompletedSection, ClustersSection, StateSection):
    """The options of `trimtab plan`."""

    output: SlackOutputOption = TABLE
    verbose: VerboseOption = False
    decision: DecisionOption = None
    advice: Annotated[
        bool | None,
        typer.Option(
            "--advice/--no-advice", help="also say what to change so that more nodes could go", show_default=False
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(UsageSection, CompletedSection, ClustersSection, StateSection):
    """The options of `trimtab advise`."""

    output: OutputOption = TABLE
    verbose: VerboseOption = False
    most_plans: Annotated[int, typer.Option(min=2, help="most plans to make: more try more changes")] = MOST_PLANS


@dataclass(frozen=True, kw_only=True)
class RightsizeOptions(CompletedSection):
    """The options of `trimtab rightsize`."""

    level: Annotated[Level, typer.Option(help="instance types that new nodes may have")] = Level.ANY
    headroom: Annotated[
        str | None, typer.Option(metavar="SHARE", help="room to keep free on each node: 10%, or cpu=10%,memory=2Gi")
    ] = None
    max_pools: Annotated[int, typer.Option(min=0, help="most pools; 0 = any number")] = 0
    min_nodes: Annotated[int, typer.Option(min=0, help="least nodes of a pool")] = 0
    max_nodes: Annotated[int, typer.Option(min=0, help="most nodes of a pool; 0 = any number")] = 0
    capacity_type: Annotated[
        str, typer.Option(metavar="TYPE,…", help="on-demand, spot and reserved: those that are allowed")
    ] = "on-demand"
    arch: Annotated[
        str | None, typer.Option(metavar="ARCH,…", help="architectures, or any; default: those that nodes have")
    ] = None
    output: PoolOutputOption = TABLE


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(CompletedSection, StateSection):
    """The options of `trimtab explain`."""

    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE... pod/NAMESPACE/NAME|node/NAME|deploy/NAMESPACE/NAME|placeholder/NAME|slack|fit",
            help="the cluster, then the subject; fit, or several fit/NAMESPACE/NAME: on which nodes pods fit",
            show_default=False,
        ),
    ] = None
    output: OutputOption = TABLE


@dataclass(frozen=True, kw_only=True)
class TopOptions(PortSection, CompletedSection):
    """The options of `trimtab top`."""

    once: Annotated[bool, typer.Option(help="print the screen once as text; so without a terminal")] = False
    web: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="serve the screen as a page, read-only, instead of showing it")
    ] = ""
    status: Annotated[
        bool, typer.Option(help="show only what the loop and the actuator say of themselves; plan nothing")
    ] = False
    demo: Annotated[bool, typer.Option(help="a simulated cluster that shrinks, grows and shrinks")] = False
    output: OutputOption = TABLE
    interval_s: Annotated[
        float, typer.Option("--interval", min=0.1, help="seconds between two plans, or two looks, of a live cluster")
    ] = 5.0
    rounds: Annotated[int, typer.Option(min=0, help="end --status after so many looks; 0 = never")] = 0
    actuator: ActuatorOption = None
    cluster_name: Annotated[str, live(metavar="NAME", help="name of the cluster in requests")] = ""
    state_map: Annotated[
        str,
        live(
            "--state-config-map",
            metavar="NAMESPACE/NAME",
            help="begin with the timers that a loop keeps in this ConfigMap",
        ),
    ] = ""
    status_map: Annotated[
        str,
        live(
            "--status-config-map",
            metavar="NAMESPACE/NAME",
            help='the loop\'s status, for --status; "" = do not read one',
        ),
    ] = "kube-system/trimtab-status"


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(PageSection):
    """The options of `trimtab simulate`."""

    scenario: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SCENARIO|RECORDING|RESULT...]",
            help="what to simulate: YAML, see --schema; kubectl's objects; or recorded rounds, *.trimtab. With "
            "-o html=FILE also saved results",
            show_default=False,
        ),
    ] = None
    settings: Annotated[
        list[Path] | None,
        acts(metavar="FILE|upstream", help="settings, or the built-in policy; repeat to compare several"),
    ] = None
    axes: Annotated[
        list[str] | None,
        acts("--sweep", metavar="KEY=VALUE,…", help="simulate each value of a setting; may be repeated"),
    ] = None
    program: Annotated[
        list[str] | None,
        acts(
            metavar="COMMAND", help="simulate also with a program that decides instead of the planner; may be repeated"
        ),
    ] = None
    recommend: Annotated[bool, acts(help="name the cheapest settings within all limits; exit code 1 if none")] = False
    limits: Annotated[
        list[str] | None,
        acts("--limit", metavar="FIGURE<=VALUE", help="limit such as time_to_schedule_p99<=60s; may be repeated"),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="load, instead of the scenario's: CSV, JSON Lines, or a trace of SimKube"),
    ] = None
    seed: Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="seed, instead of the scenario's")] = None
    schema: Annotated[bool, typer.Option(help="print the JSON schema of scenarios")] = False
    output: PageOption = TABLE
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="write the result, for later pages")] = None
    processes: Annotated[int, reports(min=0, help="simulations at the same time; 0 = one per core")] = 0
    dask: Annotated[
        str, reports(metavar="ADDRESS", help="simulate on the Dask cluster of this scheduler, such as tcp://HOST:8786")
    ] = ""
    keep: Annotated[
        Path | None, reports(metavar="DIRECTORY", help="keep finished simulations here and do not repeat them")
    ] = None
    prices: PricesOption = None
    offers: OffersOption = None


@dataclass(frozen=True, kw_only=True)
class CertificateOptions:
    """The options of `trimtab admin certificates`."""

    directory: Annotated[Path, typer.Argument(metavar="DIR", help="directory to write to; created if missing")]
    namespace: Annotated[str, typer.Option(help="Kubernetes namespace of the services and of the Secrets")] = "trimtab"
    days: Annotated[int, typer.Option(min=1, max=3650, help="validity of the certificates; the CA's is ten years")] = (
        365
    )
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="SERVICE=HOST", help="additional DNS name or IP address of a service; may be repeated"),
    ] = None
    renew: Annotated[bool, typer.Option(help="issue new certificates from the existing CA")] = False


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The options of `trimtab admin import-prices`."""

    cloud: Annotated[PricedCloud, typer.Argument(help="whose price list it is")]
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="what the cloud's own command line or price API wrote, as JSON"),
    ]
    region: Annotated[
        str, typer.Option(metavar="NAME", help="the region whose prices are wanted, if the lists have several")
    ] = ""
