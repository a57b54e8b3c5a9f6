"""Which pods can be moved when their node is drained: an ordered list of rules, one per file.

The first rule with an outcome decides. Upstream's order, with the rule for Jobs after the annotations. Source: Cluster
Autoscaler, simulator/drainability/rules, Default.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from trimtab.planner.scale_down.drainability import (
    daemon_set,
    disruption_budget,
    job,
    local_storage,
    long_terminating,
    mirror,
    not_safe_to_evict,
    on_completion,
    outcome,
    replica_count,
    replicated,
    safe_to_evict,
    several_budgets,
    system,
    terminal,
    unsupported,
)
from trimtab.planner.scale_down.drainability.pod_columns import PodDrainColumns
from trimtab.planner.snapshot.columns import UInt8

Rule = Callable[[PodDrainColumns], UInt8]

RULES: Final[tuple[Rule, ...]] = (
    mirror.drainable,
    long_terminating.drainable,
    replica_count.drainable,
    daemon_set.drainable,
    safe_to_evict.drainable,
    terminal.drainable,
    on_completion.drainable,
    job.drainable,
    replicated.drainable,
    system.drainable,
    not_safe_to_evict.drainable,
    local_storage.drainable,
)
"""All rules that do not depend on how much of the budgets the loop has used up."""


def judge(pods: PodDrainColumns) -> UInt8:
    """Return for each pod the outcome of the first rule that has one, without budgets. uint8[P]; O(rules · P)."""
    codes = np.zeros(len(pods.phase), np.uint8)
    for rule in RULES:
        outcome.put(codes, rule(pods), codes == outcome.UNDEFINED)
    return codes


def judge_budgets(pods: PodDrainColumns, codes: UInt8) -> UInt8:
    """Return the codes of `judge`, completed with the current budgets and with the rules that nothing overrides.
    uint8[P].
    """
    judged = codes.copy()
    _override(judged, several_budgets.drainable(pods))
    outcome.put(judged, disruption_budget.drainable(pods), judged == outcome.UNDEFINED)
    _override(judged, unsupported.drainable(pods))
    return judged


def _override(judged: UInt8, verdicts: UInt8) -> None:
    """Overwrite, with the outcomes of a rule, those by which a pod can be moved, in place. uint8[P] each."""
    movable = (judged == outcome.UNDEFINED) | (judged == outcome.DRAIN_OK)
    outcome.put(judged, verdicts, movable & (verdicts != outcome.UNDEFINED))
