"""How much is searched for a better plan: `PlanSettings.search_effort` as budgets.

Every budget is an amount of work. What it pays for becomes less as a cluster grows; nothing ends at a size.
"""

from dataclasses import dataclass
from typing import Final

from trimtab.planner.model.settings.reading import SettingsError
from trimtab.v1 import plan_pb2 as pb

_UNLIMITED: Final = 1 << 62


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
    exchange_checks: int = 1 << 19
    """Nodes looked at for pods while scale-down exchanges nodes of its plan for others that save more, if money
    decides: about 60 ms. Plans that would move more than 2,048 pods are not worth beginning with."""
    other_expanders: bool = False
    """Whether scale-up may take a plan of other expanders than those that the settings name."""


FIRST: Final = SearchBudgets(False, 0, 0, 0, 0, 0)
USUAL: Final = SearchBudgets()
BEST: Final = SearchBudgets(True, _UNLIMITED, _UNLIMITED, _UNLIMITED, 1 << 26, 1 << 24, True)
_BUDGETS: Final = {
    pb.SearchEffort.UNSPECIFIED: USUAL,
    pb.SearchEffort.FIRST: FIRST,
    pb.SearchEffort.USUAL: USUAL,
    pb.SearchEffort.BEST: BEST,
}


def resolve_search(message: pb.PlanSettings) -> SearchBudgets:
    """Return the budgets of the requested effort. Raises SettingsError for an unknown one."""
    effort = message.search_effort
    if effort not in _BUDGETS:
        raise SettingsError("search_effort", f"{effort} is not an effort; see SearchEffort")
    return _BUDGETS[effort]
