"""Settings of scale-up, resolved: defaults filled in, durations as integers, patterns compiled, values checked.

Times in nanoseconds. Defaults are upstream's unless the field's docstring gives a reason.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from trimtab.common.kubernetes.signals import clouds, cluster_autoscaler
from trimtab.planner.model.settings.reading import SECOND_NS, SettingsError, count, duration_ns, flag
from trimtab.planner.model.settings.search import USUAL, SearchBudgets, resolve_search
from trimtab.v1 import plan_pb2 as pb

DEFAULT_EXPANDERS: Final = (pb.Expander.LEAST_WASTE, pb.Expander.RANDOM)
DEFAULT_GPU_LABEL: Final = clouds.GKE_ACCELERATOR.key
DEFAULT_PRIORITY_LABEL: Final = cluster_autoscaler.SCALING_PRIORITY.key
_PATH: Final = "scale_up"
_NOT_IN_RE2: Final = re.compile(
    r"""(?x)
    (?: \\[^1-9] | \[\^?\]?(?:\\.|[^\]\\])*\] )   # escapes and classes of characters, passed over
    | ( \(\?(?:[=!>(]|<[=!]|P=) | \\[1-9] | [*+?}]\+ )  # lookaround, atomic, conditional, reference, possessive
    """
)
_NAMED_CLASS: Final = "[[:"


@dataclass(frozen=True)
class TaintNames:
    """Keys of taints, complete or by prefix."""

    keys: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def match(self, key: str) -> bool:
        """Return whether a taint's key is among them."""
        return key in self.keys or key.startswith(self.prefixes)


@dataclass(frozen=True)
class Readiness:
    """When a node counts as ready, and how long one that is not is awaited."""

    startup: TaintNames = field(default_factory=TaintNames)
    """Taints that a started node no longer has. `--startup-taint`."""
    status: TaintNames = field(default_factory=TaintNames)
    """Taints that describe the condition of a node. `--status-taint`."""
    start_ns: int = 15 * 60 * SECOND_NS
    """Age up to which a node that is not ready is starting. `--max-node-startup-time`."""
    provision_ns: int = 15 * 60 * SECOND_NS
    """How long a requested node is awaited that has not registered. `--max-node-provision-time`."""
    gpu_label: str = DEFAULT_GPU_LABEL
    """Label of GPU nodes, "" = none; the first one in the Cluster Autoscaler. GPU resources are recognized, too."""


@dataclass(frozen=True)
class PriorityRank:
    """A rank of the expander PRIORITY: a node group has it if a pattern matches somewhere in its id."""

    rank: int
    patterns: tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class ScaleUpSettings:
    """Scale-up, resolved from `PlanSettings`."""

    enabled: bool = True
    """Whether the decision is taken."""
    balance_similar: bool = False
    """Split growth over similar node groups. `--balance-similar-node-groups`."""
    expanders: tuple[int, ...] = DEFAULT_EXPANDERS
    """`Expander.Code`s in the order in which they are applied, each once; the last is RANDOM. If the request names
    none, CHEAPEST_PLAN replaces these where prices are known (`planner.scale_up.default_expanders`). `--expander`."""
    priority: tuple[PriorityRank, ...] = ()
    """Ranks of PRIORITY, highest first; not empty with that expander. Upstream: ConfigMap of the priority expander."""
    priority_label: str = DEFAULT_PRIORITY_LABEL
    """Label of the template with the priority for HIGHEST_PRIORITY. The Zalando fork's."""
    prefer_template: bool = True
    """New nodes follow the group's template, not one of its nodes: a changed template takes effect immediately."""
    new_pod_delay_ns: int = 0
    """Age up to which no nodes are added for a pod. `--new-pod-scale-up-delay`."""
    force_daemonsets: bool = False
    """Include all DaemonSets that would run on a new node, whether or not its template names them. `--force-ds`."""
    readiness: Readiness = field(default_factory=Readiness)
    """Which nodes are ready or starting, as for every decision."""
    scheduler_names: frozenset[str] = frozenset()
    """Schedulers whose pods are served, besides the default scheduler."""
    max_new_nodes: int = 1000
    """Most nodes that one plan adds. `--max-nodes-per-scaleup`."""
    spread_over_new_domains: bool = False
    """Zones (any topology domains but host names) that node groups could open count for topology spread, as Karpenter
    does. Off, as kube-scheduler counts those that have nodes: the first node to register may take all pods, and the
    others of the plan stay empty. With `minDomains` it waits, and plans have as many zones in any case."""
    search: SearchBudgets = USUAL
    """How much is searched for a better plan."""
    names_expanders: bool = False
    """Whether the request names `expanders`. Others then replace them only if `search` allows it."""


def resolve_scale_up(message: pb.PlanSettings) -> ScaleUpSettings:
    """Resolve the scale-up part of `PlanSettings`. Raises SettingsError for an invalid value."""
    given, defaults = message.scale_up, ScaleUpSettings()
    expanders = _expanders(given)
    return ScaleUpSettings(
        enabled=flag(given, "enabled", defaults.enabled),
        balance_similar=flag(given, "balance_similar_node_groups", defaults.balance_similar),
        expanders=expanders,
        priority=_ranks(given, pb.Expander.PRIORITY in expanders),
        priority_label=given.highest_priority.label or defaults.priority_label,
        prefer_template=_prefers_template(given),
        new_pod_delay_ns=duration_ns(given, "new_pod_scale_up_delay", defaults.new_pod_delay_ns, _PATH),
        force_daemonsets=flag(given, "force_daemonsets", defaults.force_daemonsets),
        readiness=resolve_readiness(message),
        scheduler_names=frozenset(_not_empty(given.scheduler_names, f"{_PATH}.scheduler_names", "scheduler")),
        max_new_nodes=count(given, "max_new_nodes", defaults.max_new_nodes, _PATH, 1),
        spread_over_new_domains=flag(given, "spread_over_new_domains", defaults.spread_over_new_domains),
        search=resolve_search(message),
        names_expanders=bool(given.expanders),
    )


def resolve_readiness(message: pb.PlanSettings) -> Readiness:
    """Resolve when nodes are ready. Raises SettingsError for an invalid value."""
    given, taints, defaults = message.planner, message.scale_up, Readiness()
    return Readiness(
        startup=_taint_names(taints.startup_taints, f"{_PATH}.startup_taints"),
        status=_taint_names(taints.status_taints, f"{_PATH}.status_taints"),
        start_ns=duration_ns(given, "max_node_startup_time", defaults.start_ns, "planner"),
        provision_ns=duration_ns(given, "max_node_provision_time", defaults.provision_ns, "planner"),
        gpu_label=given.gpu_label if given.HasField("gpu_label") else defaults.gpu_label,
    )


def _expanders(given: pb.ScaleUpSettings) -> tuple[int, ...]:
    known = set(pb.Expander.Code.values()) - {pb.Expander.UNSPECIFIED}
    chain = list(given.expanders)
    for i, code in enumerate(chain):
        path = f"{_PATH}.expanders[{i}]"
        if code not in known:
            raise SettingsError(path, f"{code} is not an expander; see Expander")
        name = pb.Expander.Code.Name(code)
        if code in chain[:i]:
            raise SettingsError(path, f"{name} is given twice; name each once")
        if code == pb.Expander.RANDOM and i + 1 < len(chain):
            raise SettingsError(path, "RANDOM leaves no choice to the expanders after it; name it last or not at all")
        if code == pb.Expander.CHEAPEST_PLAN and i > 0:
            raise SettingsError(path, "CHEAPEST_PLAN chooses among all node groups at once; name it first")
    if not chain:
        return DEFAULT_EXPANDERS
    return (*(code for code in chain if code != pb.Expander.RANDOM), pb.Expander.RANDOM)


def _ranks(given: pb.ScaleUpSettings, needed: bool) -> tuple[PriorityRank, ...]:
    """Return the ranks, highest first. needed : PRIORITY is among the expanders."""
    path = f"{_PATH}.priority.ranks"
    if needed and not given.priority.ranks:
        raise SettingsError(path, "missing; the expander PRIORITY needs at least one rank with patterns")
    ranks: dict[int, PriorityRank] = {}
    for i, one in enumerate(given.priority.ranks):
        if one.rank in ranks:
            raise SettingsError(f"{path}[{i}].rank", f"{one.rank} is given twice; give each rank once")
        if not one.patterns:
            raise SettingsError(f"{path}[{i}].patterns", "it is empty; give at least one regular expression")
        patterns = (_pattern(text, f"{path}[{i}].patterns[{j}]") for j, text in enumerate(one.patterns))
        ranks[one.rank] = PriorityRank(one.rank, tuple(patterns))
    return tuple(ranks[rank] for rank in sorted(ranks, reverse=True))


def _pattern(text: str, path: str) -> re.Pattern[str]:
    """Compile a pattern; one that RE2 does not support, or interprets differently, is refused, as the Cluster
    Autoscaler uses RE2.
    """
    if _NAMED_CLASS in text:
        raise SettingsError(path, f"{text!r} has a named character class; write it out, such as [a-z]")
    beyond = next((found.group(1) for found in _NOT_IN_RE2.finditer(text) if found.group(1)), None)
    if beyond:
        raise SettingsError(
            path, f"{text!r} has {beyond!r}, which RE2 lacks: it has no lookaround and no backreferences"
        )
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise SettingsError(path, f"{text!r} does not compile: {error}") from error


def _prefers_template(given: pb.ScaleUpSettings) -> bool:
    if given.template_source not in pb.TemplateSource.Code.values():
        raise SettingsError(f"{_PATH}.template_source", f"{given.template_source} is not a source; see TemplateSource")
    return given.template_source != pb.TemplateSource.PREFER_NODE


def _taint_names(given: pb.TaintNames, path: str) -> TaintNames:
    keys = _not_empty(given.keys, f"{path}.keys", "taint")
    prefixes = _not_empty(given.prefixes, f"{path}.prefixes", "taint by the prefix of its key")
    return TaintNames(frozenset(keys), tuple(sorted(set(prefixes))))


def _not_empty(names: Iterable[str], path: str, what: str) -> list[str]:
    found = list(names)
    for i, name in enumerate(found):
        if not name:
            raise SettingsError(f"{path}[{i}]", f"empty; name a {what}")
    return found
