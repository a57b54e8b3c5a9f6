"""The options of all commands, as sections: each option has one name, type, meaning and help text. A command's options
are a dataclass of sections and of its own fields. Reads no file.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
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


def _panel(title: str) -> Callable[..., Any]:
    """Return what makes an option of a panel of `--help`."""
    return partial(typer.Option, rich_help_panel=title)


reads, money, services, pages = map(_panel, ("Input", "Money", "Planner and settings", "Page"))
live, acts, reports = map(_panel, ("Cluster", "What it does", "Reports"))


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


def _output(text: str, *more: str, page: bool = False) -> Any:
    """Return the option `-o`. more : forms beside table, json and yaml."""
    forms = _OutputForms("table", "json", "yaml", *more, page=page)
    return typer.Option("-o", "--output", parser=forms, metavar="FORM", help=text)


_FORM = "table, json, yaml, or html=FILE, a page"

OutputOption = Annotated[Output, _output("table, json or yaml")]
PageOption = Annotated[Output, _output(_FORM, page=True)]
SlackOutputOption = Annotated[Output, _output(f"{_FORM}; slack as capacity-buffers or pause-pods", *EXPORTS, page=True)]
PoolOutputOption = Annotated[
    Output,
    _output("table, json, yaml; or objects of the chosen pools: nodegroups, karpenter, clusterapi", *PoolExport),
]
OffersOption = Annotated[
    Path | None, money(metavar="FILE", help="machines that pools may have, with prices: CSV, JSON or YAML", hidden=True)
]
PricesOption = Annotated[
    list[str] | None,
    money(
        metavar="FILE|RATES",
        help="prices of instance types and groups, CSV or YAML; or of a core and a GiB an hour: cpu=0.03,memory=0.004",
    ),
]
GroupByOption = Annotated[
    str | None,
    reads(
        metavar="LABEL,…",
        help="labels that define node groups; default: node pool, instance type and zone; none: no groups",
        hidden=True,
    ),
]
FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FILE...]", help="objects as kubectl prints them, - for a pipe, or a recording", show_default=False
    ),
]
PlannerOption = Annotated[
    str | None, services(metavar="HOST:PORT", help="a running planner; default: decide in process")
]
DecisionOption = Annotated[
    list[str] | None,
    services(
        metavar="NAME",
        help="scale-up, scale-down, replacement, slack, pod-costs, capacity-requests; default: what input and settings "
        "ask for",
    ),
]
ActuatorOption = Annotated[str | None, services(metavar="HOST:PORT", help="the actuator")]
IntervalOption = Annotated[
    float, acts("--interval", min=0.1, help="seconds from the start of a round to the start of the next")
]
RoundsOption = Annotated[int, acts(min=0, help="end after this many rounds; 0 = never")]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="every node, all advice, and the reason codes")]
UsageOption = Annotated[
    str | None,
    reads(
        metavar="FILE|URL",
        help="what pods use, for advice and to show: a PodMetricsList, answers of Prometheus, or its address",
        hidden=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class SettingsSection:
    """Settings of plans."""

    settings: Annotated[Path | None, services(metavar="FILE", help="settings, YAML or JSON")] = None
    set_values: Annotated[
        list[str] | None,
        services("--set", metavar="KEY=VALUE", help="one setting, such as scaleDown.utilizationThreshold=0.4"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputSection:
    """The clusters to read."""

    files: FilesArgument = None
    contexts: Annotated[
        list[str] | None, reads("--context", metavar="NAME", help="read this context's live cluster")
    ] = None
    kubeconfig: Annotated[
        Path | None,
        reads(metavar="FILE", help="read a live cluster; without --context, the file's current context", hidden=True),
    ] = None
    max_input_bytes: Annotated[int, reads(metavar="BYTES", min=1, help="largest FILE, uncompressed", hidden=True)] = (
        MAX_INPUT_BYTES
    )


@dataclass(frozen=True, kw_only=True)
class ClustersSection:
    """Several clusters from files."""

    named: Annotated[
        list[str] | None, reads("--cluster", metavar="NAME=FILE", help="one of several clusters, with its name")
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlannerSection(SettingsSection):
    """Who decides, by which settings, when."""

    planner: PlannerOption = None
    now: Annotated[
        str | None, services(metavar="TIME", help="time to decide for, RFC 3339 or Unix seconds", hidden=True)
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

    state: Annotated[Path | None, services(metavar="FILE", help="the last plan or its `state`, as JSON")] = None


@dataclass(frozen=True, kw_only=True)
class UsageSection:
    """What pods use."""

    usage: UsageOption = None
    usage_margin: Annotated[
        float,
        reads(
            metavar="PERCENT",
            min=0,
            help="how far above their use --usage advice would leave requests, in per cent of the use",
            hidden=True,
        ),
    ] = 15.0


@dataclass(frozen=True, kw_only=True)
class ConnectionSection:
    """One live cluster."""

    kubeconfig: Annotated[
        Path | None, live(metavar="FILE", help="default: $KUBECONFIG, ~/.kube/config or the pod's service account")
    ] = None
    context: Annotated[str, live(metavar="NAME", help="context of the kubeconfig; default: the current one")] = ""


@dataclass(frozen=True, kw_only=True)
class LiveSection(ConnectionSection, SettingsSection):
    """One live cluster that is followed, and its settings."""

    node_groups: Annotated[list[Path] | None, live(metavar="FILE", help="NodeGroup objects; may be repeated")] = None
    cluster_name: Annotated[str, live(metavar="NAME", help="name of the cluster in requests and logs")] = ""


@dataclass(frozen=True, kw_only=True)
class PageSection:
    """A page: its text, and how several inputs share it."""

    title: Annotated[str, pages(metavar="TEXT", help="title of the page", hidden=True)] = ""
    from_start: Annotated[
        bool,
        pages(
            help="a page of several overlays them by the time since the start of each, not by date and time",
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
