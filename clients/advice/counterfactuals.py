"""Plans of the planner over one cluster with changed input, all as differences to the snapshot of the base plan, so
that the planner reads the cluster once.

Decides which decisions a counterfactual plan needs: those of the base plan that determine which nodes go, so none after
scale-down. Scale-up is left out if no pod waits and the plan without it frees the same nodes. An edit is planned once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from trimtab.clients.advice.changes import Edit
from trimtab.clients.advice.editing import SnapshotEditor, edited_settings
from trimtab.clients.advice.result import saving_of
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.verdicts import going, known_prices, staying
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

_Decision = plan_pb2.Decision
_AFTER_SCALE_DOWN: Final = frozenset({_Decision.REPLACEMENT, _Decision.POD_COSTS})


@dataclass(frozen=True)
class Outcome:
    """What one plan frees. prices : hourly, by node, of those that are known."""

    answer: plan_pb2.PlanResponse
    prices: Mapping[str, float]

    @cached_property
    def nodes(self) -> frozenset[str]:
        """The nodes that can go."""
        return frozenset(one.node for one in going(self.answer))

    def beyond(self, base: "Outcome") -> tuple[tuple[str, ...], tuple[str, ...], float | None]:
        """Return the nodes that can go here only, those that can go only in the base plan, and the difference of what
        both save per hour.
        """
        more, less = tuple(sorted(self.nodes - base.nodes)), tuple(sorted(base.nodes - self.nodes))
        return more, less, saving_of(more, less, self.prices)


class Counterfactuals:
    """The plans about one cluster. Thread-bound, as its planner is.

    request : that of the base plan, with its decisions; answer : the base plan, whose prices count.
    Errors: those of the planner; ValueError, IndexError for a damaged snapshot.
    """

    def __init__(
        self,
        planner: PlannerClient,
        view: ClusterView,
        request: plan_pb2.PlanRequest,
        answer: plan_pb2.PlanResponse,
    ) -> None:
        self.view, self.request = view, request
        self.prices = known_prices(answer)
        self.base = Outcome(answer, self.prices)
        self.plan_count = 0
        self._planner, self._version = planner, answer.snapshot_version
        self._known: dict[tuple[object, ...], Outcome] = {Edit().key: self.base}
        self._decisions = [decision for decision in request.decisions if decision not in _AFTER_SCALE_DOWN]

    @cached_property
    def _editor(self) -> SnapshotEditor:
        return SnapshotEditor(self.view.snapshot)

    @property
    def is_by_money(self) -> bool:
        """Whether money decided between plans of scale-down."""
        found = (one for one in self.base.answer.summary.decisions if one.decision == _Decision.SCALE_DOWN)
        return any(one.objective == plan_pb2.Objective.MONEY for one in found)

    def explained(self) -> plan_pb2.PlanResponse:
        """Return the base plan with all blocking pods of the nodes that stay."""
        request = self._copied()
        request.explain_nodes.extend(one.node for one in staying(self.base.answer))
        if _Decision.SCALE_UP in request.decisions and not self.view.waiting_pods():
            without = [one for one in self._decisions if one != _Decision.SCALE_UP]
            request.decisions[:] = without
            answer = self._ask(pb.SnapshotDelta(), request)
            if Outcome(answer, self.prices).nodes == self.base.nodes:
                self._decisions = without
                return answer
            request.decisions[:] = self._decisions
        return self._ask(pb.SnapshotDelta(), request)

    def plan(self, edit: Edit) -> Outcome:
        """Return what the plan with an edit frees."""
        found = self._known.get(edit.key)
        if found is None:
            request = self._copied()
            request.settings.CopyFrom(edited_settings(self.request.settings, edit.settings))
            found = self._known[edit.key] = Outcome(self._ask(self._editor.delta(edit), request), self.prices)
        return found

    def _copied(self) -> plan_pb2.PlanRequest:
        request = plan_pb2.PlanRequest()
        request.CopyFrom(self.request)
        request.decisions[:] = self._decisions
        return request

    def _ask(self, delta: pb.SnapshotDelta, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Return the answer; the cluster is sent again if the planner does not have it any more."""
        self.plan_count += 1
        try:
            return self._planner.plan_delta(delta, self._version, request)
        except TrimtabError as error:
            if error.reason != Reason.SNAPSHOT_BASE_UNKNOWN:
                raise
        base = self._copied()
        self._version = self._planner.plan(self.view.snapshot, base).snapshot_version
        return self._planner.plan_delta(delta, self._version, request)
