"""How much is searched for a better plan: `PlanSettings.search_effort` as budgets.

Every budget is an amount of work. What it pays for becomes less as a cluster grows; with BEST, no budget but those of
memory and of the linear programme ends before the deadline.
"""

from dataclasses import dataclass, replace
from typing import Final

from trimtab.planner.model.settings.reading import value_of
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
