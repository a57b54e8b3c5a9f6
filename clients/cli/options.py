"""The options of all commands, as sections: each option has one name, type, meaning and help text. A command's options
are a dataclass of sections and of its own fields. Reads no file.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from trimtab.clients.cli.output import Format
from trimtab.common.documents.bounded_input import MAX_INPUT_BYTES
from trimtab.common.rpc.options import (
    AnonymousOption,
    LogFormatOption,
    LogLevelOption,
    PlaintextOption,
    PolicyOption,
)

Section = TypeVar("Section")
INPUT, MONEY, SERVICES, PAGE = "Input", "Money", "Planner and settings", "Page"
LIVE, ACTS, REPORTS = "Cluster", "What it does", "Reports"
"""Panels of `--help`, in the order of sections."""


@dataclass(frozen=True)
class Output:
    """`-o`. form : such as "json"; page : the file of `html=FILE`, None = another form."""

    form: str = "table"
    page: Path | None = None

    @property
    def format(self) -> Format:
        """How a document is printed; exports are YAML."""
        return Format(self.form) if self.form in {one.value for one in Format} else Format.YAML

    def __str__(self) -> str:
        return self.form if self.page is None else f"html={self.page}"


TABLE: Final = Output()
BUFFERS: Final = "capacity-buffers"
EXPORTS: Final = (BUFFERS, "pause-pods")
"""Forms of `trimtab plan` that are objects, which keep the slack of an answer."""


class Level(StrEnum):
    """Which instance types new nodes may have."""

    SAME_TYPES = "same-types"
    SAME_FAMILY = "same-family"
    ANY = "any"


class PoolExport(StrEnum):
    """Forms of `trimtab rightsize` that are objects of the chosen pools."""

    NODE_GROUPS = "nodegroups"
    KARPENTER = "karpenter"
    CLUSTER_API = "clusterapi"


class _OutputForms:
    """Reads `-o`: one of some forms, or `html=FILE` where pages are written."""

    __name__ = "output"

    def __init__(self, *forms: str, page: bool = False) -> None:
        self.forms, self.page = forms, page
        self.names = (*forms, *(["html=FILE"] if page else []))

    def __call__(self, text: str) -> Output:
        form, _, file = str(text).partition("=")
        if form == "html" and self.page:
            if not file:
                raise typer.BadParameter(f"{text}: name the page to write: html=FILE")
            return Output(form, Path(file))
        if file or form not in self.forms:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(self.names)}")
        return Output(form)


_TABLES, _PLANS = _OutputForms("table", "json", "yaml"), _OutputForms("table", "json", "yaml", page=True)
_SLACK = _OutputForms("table", "json", "yaml", *EXPORTS, page=True)
_POOLS = _OutputForms("table", "json", "yaml", *PoolExport)
_FORM = "table, json, yaml, or html=FILE, a page"

OutputOption = Annotated[
    Output, typer.Option("-o", "--output", parser=_TABLES, metavar="FORM", help="table, json or yaml")
]
PageOption = Annotated[Output, typer.Option("-o", "--output", parser=_PLANS, metavar="FORM", help=_FORM)]
SlackOutputOption = Annotated[
    Output,
    typer.Option(
        "-o", "--output", parser=_SLACK, metavar="FORM",
        help=f"{_FORM}; slack as capacity-buffers or pause-pods",
    ),
]  # fmt: skip
PoolOutputOption = Annotated[
    Output,
    typer.Option(
        "-o", "--output", parser=_POOLS, metavar="FORM",
        help="table, json, yaml; or objects of the chosen pools: nodegroups, karpenter, clusterapi",
    ),
]  # fmt: skip
OffersOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="machines that pools may have, with prices: CSV, JSON or YAML",
        rich_help_panel=MONEY,
        hidden=True,
    ),
]
PricesOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE|RATES",
        help="prices of instance types and groups, CSV or YAML; or of a core and a GiB an hour: cpu=0.03,memory=0.004",
        rich_help_panel=MONEY,
    ),
]
GroupByOption = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL,…",
        help="labels that define node groups; default: node pool, instance type and zone; none: no groups",
        rich_help_panel=INPUT,
        hidden=True,
    ),
]
FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE...]",
        help="objects as kubectl prints them, - for a pipe, or a recording",
        show_default=False,
    ),
]
PlannerOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="a running planner; default: decide in process", rich_help_panel=SERVICES),
]
DecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="scale-up, scale-down, replacement, slack, pod-costs, capacity-requests; default: what input and settings "
        "ask for",
        rich_help_panel=SERVICES,
    ),
]
ActuatorOption = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="the actuator", rich_help_panel=SERVICES)]
IntervalOption = Annotated[
    float,
    typer.Option(
        "--interval", min=0.1, help="seconds from the start of a round to the start of the next", rich_help_panel=ACTS
    ),
]
RoundsOption = Annotated[int, typer.Option(min=0, help="end after this many rounds; 0 = never", rich_help_panel=ACTS)]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="every node, all advice, and the reason codes")]
UsageOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|URL",
        help="what pods use, for advice and to show: a PodMetricsList, answers of Prometheus, or its address",
        rich_help_panel=INPUT,
        hidden=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SettingsSection:
    """Settings of plans."""

    settings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="settings, YAML or JSON", rich_help_panel=SERVICES)
    ] = None
    set_values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="one setting, such as scaleDown.utilizationThreshold=0.4",
            rich_help_panel=SERVICES,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputSection:
    """The clusters to read."""

    files: FilesArgument = None
    contexts: Annotated[
        list[str] | None,
        typer.Option(
            "--context",
            metavar="NAME",
            help="read this context's live cluster",
            rich_help_panel=INPUT,
        ),
    ] = None
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="read a live cluster; without --context, the file's current context",
            rich_help_panel=INPUT,
            hidden=True,
        ),
    ] = None
    max_input_bytes: Annotated[
        int,
        typer.Option(metavar="BYTES", min=1, help="largest FILE, uncompressed", rich_help_panel=INPUT, hidden=True),
    ] = MAX_INPUT_BYTES


@dataclass(frozen=True, kw_only=True)
class ClustersSection:
    """Several clusters from files."""

    named: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster",
            metavar="NAME=FILE",
            help="one of several clusters, with its name",
            rich_help_panel=INPUT,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlannerSection(SettingsSection):
    """Who decides, by which settings, when."""

    planner: PlannerOption = None
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="time to decide for, RFC 3339 or Unix seconds", rich_help_panel=SERVICES, hidden=True
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class MoneySection:
    """Prices."""

    prices: PricesOption = None
    offers: OffersOption = None


@dataclass(frozen=True, kw_only=True)
class CompletedSection(MoneySection, PlannerSection, InputSection):
    """A cluster to plan for, with its groups."""

    group_by: GroupByOption = None


@dataclass(frozen=True, kw_only=True)
class StateSection:
    """Where timers begin."""

    state: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the last plan or its `state`, as JSON", rich_help_panel=SERVICES),
    ] = None


@dataclass(frozen=True, kw_only=True)
class UsageSection:
    """What pods use."""

    usage: UsageOption = None
    usage_margin: Annotated[
        float,
        typer.Option(
            metavar="PERCENT",
            min=0,
            help="how far above their use --usage advice would leave requests, in per cent of the use",
            rich_help_panel=INPUT,
            hidden=True,
        ),
    ] = 15.0


@dataclass(frozen=True, kw_only=True)
class ConnectionSection:
    """One live cluster."""

    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="default: $KUBECONFIG, ~/.kube/config or the pod's service account",
            rich_help_panel=LIVE,
        ),
    ] = None
    context: Annotated[
        str,
        typer.Option(metavar="NAME", help="context of the kubeconfig; default: the current one", rich_help_panel=LIVE),
    ] = ""


@dataclass(frozen=True, kw_only=True)
class LiveSection(ConnectionSection, SettingsSection):
    """One live cluster that is followed, and its settings."""

    node_groups: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="NodeGroup objects; may be repeated", rich_help_panel=LIVE),
    ] = None
    cluster_name: Annotated[
        str, typer.Option(metavar="NAME", help="name of the cluster in requests and logs", rich_help_panel=LIVE)
    ] = ""


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """A page: its text, and how several inputs share it."""

    title: Annotated[str, typer.Option(metavar="TEXT", help="title of the page", rich_help_panel=PAGE, hidden=True)] = (
        ""
    )
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start",
            help="a page of several overlays them by the time since the start of each, not by date and time",
            rich_help_panel=PAGE,
            hidden=True,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class PortSection:
    """A port on the network."""

    policy: PolicyOption = None
    allow_plaintext_on_network: PlaintextOption = False
    allow_anonymous_on_network: AnonymousOption = False


@dataclass(frozen=True, kw_only=True)
class LogSection:
    """Logs."""

    log_level: LogLevelOption = "info"
    log_format: LogFormatOption = None


def selected(kind: type[Section], options: Any, **others: Any) -> Section:
    """Return the fields of a section, taken from the options of a command, lists as tuples; `others` are fields with
    other values.
    """
    found: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]
        value = getattr(options, one.name, None)
        if value is not None:
            found[one.name] = tuple(value) if isinstance(value, list) else value
    return kind(**found | others)
