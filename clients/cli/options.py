"""Options and arguments that several commands share: each has one name, type and help text."""

from pathlib import Path
from typing import Annotated

import typer

from trimtab.clients.cli.output import Format

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE...]",
        help="Kubernetes objects (kubectl get -o json|yaml, .gz too) or a recording; beside --context: NodeGroups",
        show_default=False,
    ),
]
ContextsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context", metavar="NAME", help="read this context's live cluster once; may be repeated for several clusters"
    ),
]
ClustersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="NAME=FILE",
        help="a cluster with its name; repeat a name for more files, other names for more clusters",
    ),
]
LiveKubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", metavar="FILE", help="read a live cluster; without --context, the file's current context"
    ),
]
RatesOption = Annotated[
    str | None,
    typer.Option(
        metavar="RESOURCE=PRICE,…",
        help="an hour's price of a core and of a GiB, for nodes without another price: cpu=0.03,memory=0.004",
    ),
]
PlannerOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="address of a running planner; default: decide in process")
]
SettingsOption = Annotated[Path | None, typer.Option(metavar="FILE", help="settings, YAML or JSON")]
StateOption = Annotated[Path | None, typer.Option(metavar="FILE", help="the last plan or its `state`, as JSON")]
NowOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="time to decide for, RFC 3339 or Unix seconds")
]  # fmt: skip
GroupByOption = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL,…",
        help="labels that define node groups; default: node pool, instance type and zone; none: no groups",
    ),
]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FIGURE<=VALUE", help="limit such as time_to_schedule_p99<=60s; may be repeated"),
]
TraceOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="load, instead of the scenario's: CSV, JSON Lines, or a trace of SimKube"),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="external:COMMAND",
        help="simulate also with a program that decides instead of the planner; may be repeated",
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="prices of instance types, node groups and labels, CSV or YAML"),
]
OffersOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="machines that pools may have, with prices: CSV, JSON or YAML"),
]
HeadroomOption = Annotated[
    str | None, typer.Option(metavar="SHARE", help="room to keep free on each node: 10%, or cpu=10%,memory=2Gi")
]
CapacityTypeOption = Annotated[
    str, typer.Option(metavar="TYPE,…", help="on-demand, spot and reserved: those that are allowed")
]
ArchOption = Annotated[
    str | None, typer.Option(metavar="ARCH,…", help="architectures, or any; default: those that nodes have")
]
UsageOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|URL",
        help="what pods use, for advice and to show: a PodMetricsList, answers of Prometheus, or its address",
    ),
]
UsageMarginOption = Annotated[
    float,
    typer.Option(
        metavar="PERCENT",
        min=0,
        help="how far above their use --usage advice would leave requests, in per cent of the use",
    ),
]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="show every node and the reason codes")]
MaxInputOption = Annotated[
    int, typer.Option(metavar="BYTES", min=1, help="largest accepted FILE in bytes, uncompressed")
]
OutputOption = Annotated[Format, typer.Option("-o", "--output", help="output format")]
KubeconfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="default: $KUBECONFIG, ~/.kube/config or the pod's service account")
]
ContextOption = Annotated[str, typer.Option(metavar="NAME", help="context of the kubeconfig; default: the current one")]
GroupsOption = Annotated[
    list[Path] | None, typer.Option("--node-groups", metavar="FILE", help="NodeGroup objects; may be repeated")
]
DecisionOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="scale-down, …; may be repeated; default: all that the planner offers"),
]
IntervalOption = Annotated[
    float, typer.Option(min=0.1, help="seconds from the start of a round to the start of the next")
]
ClusterOption = Annotated[str, typer.Option("--cluster-name", metavar="NAME", help="name of the cluster in logs")]
StateMapOption = Annotated[
    str, typer.Option(help='ConfigMap that keeps node timers across restarts and leader changes; "" = none')
]
StateFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="keep node timers in this file instead of the ConfigMap")
]
StateAgeOption = Annotated[float, typer.Option(min=0, help="seconds without a round after which all timers restart")]
ApplyPodCostsOption = Annotated[
    bool,
    typer.Option(
        "--apply-pod-costs", help="have the actuator write pod deletion costs; otherwise they are only recommended"
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="decide and log, but change and write nothing")]
ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="ask for replacements too, and have the actuator carry them out wave by wave"),
]
AdviseOnlyOption = Annotated[
    bool,
    typer.Option(
        "--advise-only",
        help="take all decisions, replacements too, carry nothing out, and count what it would have cost and saved",
    ),
]
LoopMetricsOption = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", help='address of the metrics of gangs and of --advise-only; "" = none'),
]
RoundsOption = Annotated[int, typer.Option(min=0, help="exit after this many rounds; 0 = never")]
LeaderElectOption = Annotated[bool, typer.Option(help="act and write only while holding the Lease")]
LeaseNameOption = Annotated[str, typer.Option(help="name of the Lease")]
LoopActuatorOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="the actuator; without it, only decide")
]  # fmt: skip
WebOption = Annotated[
    str, typer.Option(metavar="HOST:PORT", help='serve a page with the last round, read-only; "" = none')
]
