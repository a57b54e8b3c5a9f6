"""Settings of scale-up and of how much is searched, resolved: patterns compiled, times in nanoseconds. Meaning,
defaults and ranges are those of the contract.

Every search budget is an amount of work. What it pays for becomes less as a cluster grows; with BEST, no budget but
those of memory and of the linear programme ends before the deadline.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final

from trimtab.planner.model.settings.reading import SettingsError, resolved, setting, value_of
from trimtab.v1 import plan_pb2 as pb

_UNLIMITED: Final = 1 << 62
QUICK_GROUPS: Final = 24
"""Node groups that one of many plans for new nodes evaluates in detail."""


@dataclass(frozen=True)
class SearchBudgets:
    """Budgets of one decision's search. Defaults are those of USUAL: some milliseconds each."""

    compares: bool = True
    """Whether any plan is made besides the first."""
    shuffled_candidates: int = 800
    """Candidates in all arbitrary orders of scale-down together: eight orders of 100. In small clusters the choice of
    the order makes a difference of a node or so."""
    recompared_candidates: int = 100
    """Candidates up to which scale-down compares its orders whenever something is new, even if its plan is as good as
    when they were last compared: that takes a millisecond or so."""
    variant_work: int = 8 << 16
    """Waiting pods times the nodes and groups that could take them, summed over scale-up's other plans: eight plans for
    256 pods and as many nodes."""
    repacking_checks: int = 1 << 20
    """Checks of a pod against a node in all tries of scale-up to do without one new node."""
    exchange_checks: int = 1 << 21
    """Nodes looked at for pods while scale-down exchanges nodes of its plan for others that save more, if money
    decides: up to 200 ms, for the first wave and again for all waves, if there are several. Plans that would move more
    than 4,096 pods are not worth beginning with."""
    packed_groups: int = 128
    """Kinds of node groups of which scale-up packs pods onto each. Of more kinds, the most promising and a sample are
    packed, the others if none helps."""
    detailed_groups: int = 96
    """Node groups that CHEAPEST_PLAN evaluates in detail; of more, the cheapest for some pods and a sample by price."""
    weightings: int = 3
    """Weightings of resources by which CHEAPEST_PLAN fills nodes for its first plan."""
    programme_entries: int = 300 * 300
    """Entries of the basis of CHEAPEST_PLAN's linear programme, the square of its classes; its work grows at least with
    that. Beyond, only the first plan is improved, which is worse: by 3 % (12 ms in place of 80) with 301 classes of
    random pods and 100 groups, by 0.6 % (27 ms in place of 256) with 599. 1,500 classes would take 5 s."""
    improved_classes: int = 300
    """Classes of all plans together that CHEAPEST_PLAN improves, at most three: three of 100 classes, two of 150."""
    improves: bool = True
    """Whether CHEAPEST_PLAN improves its plan by removing nodes and filling others."""
    replacement_work: int = 1 << 16
    """Work of all trials of replacement together: each counts 128 for itself, one for each pod that it moves, and one
    for each node group that may grow, if it opens new nodes. Some 300 trials in small clusters; in large ones, a plan
    for all waves as one and one trial of each wave are made whatever they cost: 1.5 s for 5,000 nodes."""
    other_expanders: bool = False
    """Whether scale-up may take a plan of other expanders than those that the settings name."""
    begins_with: "SearchBudgets | None" = None
    """Budgets by which scale-up searches first: that plan stays if these budgets lead to a worse one. More groups and
    classes in detail make a cheaper plan in numbers, which affinity and spread may leave dearer than another."""

    def for_one_of_many(self, programme_entries: int) -> "SearchBudgets":
        """Return the budgets of one of many plans for new nodes: about a quarter of the time."""
        few = min(self.detailed_groups, QUICK_GROUPS)
        return replace(self, detailed_groups=few, weightings=1, programme_entries=programme_entries, improves=False)


FIRST: Final = SearchBudgets(
    compares=False,
    shuffled_candidates=0,
    recompared_candidates=0,
    variant_work=0,
    repacking_checks=0,
    exchange_checks=0,
    replacement_work=1 << 12,
)
USUAL: Final = SearchBudgets()
BEST: Final = SearchBudgets(
    shuffled_candidates=_UNLIMITED,
    recompared_candidates=_UNLIMITED,
    variant_work=_UNLIMITED,
    repacking_checks=1 << 26,
    exchange_checks=1 << 24,
    replacement_work=_UNLIMITED,
    packed_groups=_UNLIMITED,
    detailed_groups=1 << 10,
    programme_entries=600 * 600,
    improved_classes=_UNLIMITED,
    other_expanders=True,
    begins_with=USUAL,
)
_BUDGETS: Final = {
    pb.SearchEffort.FIRST: FIRST,
    pb.SearchEffort.USUAL: USUAL,
    pb.SearchEffort.BEST: BEST,
}


def resolve_search(message: pb.PlanSettings) -> SearchBudgets:
    """Return the budgets of the requested effort. Raises SettingsError for an unknown one."""
    return _BUDGETS[value_of(message, "search_effort", "")]


DEFAULT_EXPANDERS: Final = (pb.Expander.LEAST_WASTE, pb.Expander.RANDOM)
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
    """Taints that a started node no longer has."""
    status: TaintNames = field(default_factory=TaintNames)
    """Taints that describe the condition of a node."""
    start_ns: int = setting("planner.max_node_startup_time")
    provision_ns: int = setting("planner.max_node_provision_time")
    gpu_label: str = setting("planner.gpu_label")
    """"" = none; the first one in the Cluster Autoscaler. GPU resources are recognized, too."""


@dataclass(frozen=True)
class PriorityRank:
    """A rank of the expander PRIORITY: a node group has it if a pattern matches somewhere in its id."""

    rank: int
    patterns: tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class ScaleUpSettings:
    """Scale-up, resolved from `PlanSettings`."""

    enabled: bool = setting("scale_up.enabled")
    balance_similar: bool = setting("scale_up.balance_similar_node_groups")
    expanders: tuple[int, ...] = DEFAULT_EXPANDERS
    """`Expander.Code`s in the order in which they are applied, each once; the last is RANDOM. If the request names
    none, CHEAPEST_PLAN replaces these where prices are known (`planner.scale_up.context`)."""
    priority: tuple[PriorityRank, ...] = ()
    """Ranks of PRIORITY, highest first; not empty with that expander."""
    priority_label: str = setting("scale_up.highest_priority.label")
    prefer_template: bool = setting("scale_up.template_source", lambda code: code != pb.TemplateSource.PREFER_NODE)
    """New nodes follow the group's template, not one of its nodes."""
    new_pod_delay_ns: int = setting("scale_up.new_pod_scale_up_delay")
    force_daemonsets: bool = setting("scale_up.force_daemonsets")
    readiness: Readiness = field(default_factory=Readiness)
    """Which nodes are ready or starting, as for every decision."""
    scheduler_names: frozenset[str] = setting("scale_up.scheduler_names", frozenset)
    max_new_nodes: int = setting("scale_up.max_new_nodes")
    spread_over_new_domains: bool = setting("scale_up.spread_over_new_domains")
    search: SearchBudgets = USUAL
    """How much is searched for a better plan."""
    names_expanders: bool = False
    """Whether the request names `expanders`. Others then replace them only if `search` allows it."""


def resolve_scale_up(message: pb.PlanSettings) -> ScaleUpSettings:
    """Resolve the scale-up part of `PlanSettings`. Raises SettingsError for an invalid value."""
    own = message.scale_up
    expanders = _expanders(own)
    return resolved(
        ScaleUpSettings,
        message,
        expanders=expanders,
        priority=_ranks(own, pb.Expander.PRIORITY in expanders),
        readiness=resolve_readiness(message),
        search=resolve_search(message),
        names_expanders=bool(own.expanders),
    )


def resolve_readiness(message: pb.PlanSettings) -> Readiness:
    """Resolve when nodes are ready. Raises SettingsError for an invalid value."""
    taints = message.scale_up
    return resolved(
        Readiness,
        message,
        startup=_taint_names(taints.startup_taints, f"{_PATH}.startup_taints"),
        status=_taint_names(taints.status_taints, f"{_PATH}.status_taints"),
    )


def _expanders(own: pb.ScaleUpSettings) -> tuple[int, ...]:
    chain = list(own.expanders)
    value_of(own, "expanders", _PATH)
    for i, code in enumerate(chain):
        path = f"{_PATH}.expanders[{i}]"
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


def _ranks(own: pb.ScaleUpSettings, needed: bool) -> tuple[PriorityRank, ...]:
    """Return the ranks, highest first. needed : PRIORITY is among the expanders."""
    path = f"{_PATH}.priority.ranks"
    if needed and not own.priority.ranks:
        raise SettingsError(path, "missing; the expander PRIORITY needs at least one rank with patterns")
    ranks: dict[int, PriorityRank] = {}
    for i, message_rank in enumerate(own.priority.ranks):
        if message_rank.rank in ranks:
            raise SettingsError(f"{path}[{i}].rank", f"{message_rank.rank} is given twice; give each rank once")
        if not message_rank.patterns:
            raise SettingsError(f"{path}[{i}].patterns", "it is empty; give at least one regular expression")
        patterns = (_pattern(text, f"{path}[{i}].patterns[{j}]") for j, text in enumerate(message_rank.patterns))
        ranks[message_rank.rank] = PriorityRank(message_rank.rank, tuple(patterns))
    return tuple(ranks[rank] for rank in sorted(ranks, reverse=True))


def _pattern(text: str, path: str) -> re.Pattern[str]:
    """Compile a pattern; one that RE2 does not support, or interprets differently, is refused, as the Cluster
    Autoscaler uses RE2.
    """
    if _NAMED_CLASS in text:
        raise SettingsError(path, f"{text!r} has a named character class; write it out, such as [a-z]")
    beyond = next((match.group(1) for match in _NOT_IN_RE2.finditer(text) if match.group(1)), None)
    if beyond:
        raise SettingsError(
            path, f"{text!r} has {beyond!r}, which RE2 lacks: it has no lookaround and no backreferences"
        )
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise SettingsError(path, f"{text!r} does not compile: {error}") from error


def _taint_names(names: pb.TaintNames, path: str) -> TaintNames:
    return TaintNames(frozenset(value_of(names, "keys", path)), tuple(sorted(value_of(names, "prefixes", path))))
