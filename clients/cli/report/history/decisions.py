"""The recorded decisions of the planner with their reasons. Nothing is computed again.

Decides that an equal decision of successive rounds is one entry that counts them: a recording whose plans are not
carried out repeats them. Beside growth and removals, an entry names pods that no node group serves.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.sentences import NODE_GROUP_SENTENCES
from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.simulation.decisions import MOST_NAMES, Decisions
from trimtab.places import shortfalls
from trimtab.v1 import plan_pb2

Json = dict[str, Any]


class RecordedDecisions:
    """The decisions of a recording. entries : as those of a simulation; `again` counts the repetitions up to the time
    `last`.
    """

    def __init__(self, groups: Mapping[str, str], prices: Mapping[str, float]) -> None:
        """groups : node group by node; prices : per node and hour, by group; both as of the round."""
        self.entries: list[Json] = []
        self._decided = Decisions(groups, prices)
        self._of_round_before: list[Json] = []

    def add(self, now_s: float, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Record a round."""
        planned = RoundResult(request, answer, None, was_delta=False)
        planned.grown = [one.node_group for one in answer.scale_up.splits]
        planned.accepted = [*answer.scale_down.delete_empty, *answer.scale_down.drain]
        self._decided.entries = []
        self._decided.add(now_s, planned)
        found = [*self._decided.entries, *_without_room(now_s, answer.scale_up)]
        kept = []
        for one in found:
            before = next((other for other in self._of_round_before if _content(other) == _content(one)), None)
            if before is None:
                self.entries.append(one)
            else:
                before["again"], before["last"] = before.get("again", 0) + 1, now_s
            kept.append(before or one)
        self._of_round_before = kept


def _content(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if name not in ("time", "again", "last")}


def _without_room(now_s: float, decision: plan_pb2.ScaleUpDecision) -> list[Json]:
    """Return the pods that no node group serves, with the reasons."""
    if not decision.unschedulable:
        return []
    lacking = shortfalls(decision)
    reasons = {
        pod: one.detail
        or "; ".join(f"{group}: {NODE_GROUP_SENTENCES[code]}" for group, code in sorted(one.reasons.items()))
        for pod, one in islice(lacking.items(), MOST_NAMES)
    }
    count = len(lacking)
    text = f"no node group serves {counted(count, 'pod')}"
    return [{"time": now_s, "kind": "no room", "count": count, "text": text, "reasons": reasons}]
