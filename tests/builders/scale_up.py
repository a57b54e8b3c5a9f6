"""A scale-up decision from plain objects, verified by the certificate before a test checks it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json, snapshot_of
from tests.certificates.scale_up import offences
from trimtab.places import new_nodes, on_existing, on_new_nodes, on_upcoming, shortfalls
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.model.settings import scale_up
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, reason_pb2, snapshot_pb2

NOW_S = 1_800_000_000
"""A time long after all times that builders use."""


class Outcome(NamedTuple):
    """A decision as plain names."""

    decision: plan_pb2.ScaleUpDecision
    answer: plan_pb2.PlanResponse

    @property
    def objective(self) -> "plan_pb2.Objective.Code.ValueType":
        """Return what plans were compared by first."""
        figures = self.answer.summary.decisions
        return next(one.objective for one in figures if one.decision == plan_pb2.Decision.SCALE_UP)

    @property
    def growth(self) -> dict[str, int]:
        """Return the number of new nodes by group."""
        return {split.node_group: split.new_size - split.current_size for split in self.decision.splits}

    @property
    def on_new(self) -> dict[str, list[str]]:
        """Return the pods for which each group grows."""
        return on_new_nodes(self.decision)

    @property
    def pending(self) -> dict[str, dict[str, str]]:
        """Return the pods that stay pending, and why no group helps: the predicate's name if one fails."""
        return {
            pod: {
                group: reason_pb2.PredicateReason.Code.Name(entry.failed_predicates[group])
                if group in entry.failed_predicates
                else reason_pb2.NodeGroupReason.Code.Name(reason)
                for group, reason in entry.reasons.items()
            }
            for pod, entry in shortfalls(self.decision).items()
        }

    @property
    def on_existing(self) -> dict[str, str]:
        """Return the node of each pod that fits an existing one."""
        return on_existing(self.decision)

    @property
    def on_upcoming(self) -> dict[str, str]:
        """Return the node group of each pod that fits a requested node."""
        return on_upcoming(self.decision)

    @property
    def new_nodes(self) -> dict[str, list[list[str]]]:
        """Return the pods of each new node, by node group."""
        return new_nodes(self.decision)

    @property
    def skipped(self) -> dict[str, str]:
        """Return the skipped pods, and why they are skipped."""
        return {one.pod: reason_pb2.SkippedPodReason.Code.Name(one.reason) for one in self.decision.skipped}

    @property
    def result(self) -> str:
        return reason_pb2.ScaleUpResult.Code.Name(self.decision.result).removeprefix("SCALE_UP_")


def settings_of(given: Json | None) -> plan_pb2.PlanSettings:
    """Return settings from JSON: keys of `scaleUp`, plus `planner`, `scaleDown`, `searchEffort` and `gangs`."""
    given = dict(given or {})
    more = {key: given.pop(key) for key in ("planner", "scaleDown", "searchEffort", "gangs") if key in given}
    return ParseDict({"scaleUp": given} | more, plan_pb2.PlanSettings())


def search_budgets(patch: pytest.MonkeyPatch, **budgets: int) -> None:
    """Change budgets of the usual search effort."""
    patch.setitem(scale_up._BUDGETS, plan_pb2.SearchEffort.USUAL, replace(scale_up.USUAL, **budgets))  # type: ignore[arg-type]


def plan_message(
    message: snapshot_pb2.ClusterSnapshot,
    settings: Json | None = None,
    state: plan_pb2.PlanState | None = None,
    now_s: int = NOW_S,
    seed: int = 0,
    decisions: Sequence["plan_pb2.Decision.Code.ValueType"] = (plan_pb2.Decision.SCALE_UP,),
    time_left: Callable[[], bool] | None = None,
) -> Outcome:
    """Decide on a snapshot, and verify the plan."""
    given = settings_of(settings)
    request = plan_pb2.PlanRequest(decisions=decisions, settings=given, seed=seed)
    request.now.seconds = now_s
    answer = take_decisions(planned_snapshot(canonicalize(message)).snapshot, request, state, Work(time_left=time_left))
    bounded = time_left is not None or len(message.node_groups) > scale_up.USUAL.packed_groups
    assert offences(message, given, answer.scale_up, now_s, bounded=bounded) == []
    return Outcome(answer.scale_up, answer)


def plan(
    *objects: Json | Sequence[Json], actuation: snapshot_pb2.ActuationStatus | None = None, **more: Any
) -> Outcome:
    """Decide on Kubernetes objects; `settings`, `state`, `now_s`, `seed`, `decisions` as for `plan_message`."""
    return plan_message(snapshot_of(*objects, actuation=actuation), **more)
