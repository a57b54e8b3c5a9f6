"""The interface of a decision: its package's functions, and its answer.

A decision is one package with one `Decision`, and one line in `trimtab.planner.decisions.table`. Requests, answers,
state, notes, logs, metrics and the warm-up follow from the table.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import Message

from trimtab.planner.drainability.limits import NodeBudgets, Spare, active_budgets, spare
from trimtab.planner.facts.readiness import unhealthy
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.model.settings import ScaleDownSettings, ScaleUpSettings
from trimtab.planner.model.settings.scale_down import NodeDisruptionBudget
from trimtab.planner.placement.group_templates import GroupTemplates, group_templates
from trimtab.planner.placement.limits import LimitInputs, Limits
from trimtab.planner.round.round import Round, RoundInput
from trimtab.planner.simulation.growth import GrowthNeed
from trimtab.planner.snapshot.caches import SnapshotCache
from trimtab.planner.snapshot.columns import Bool, Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb

Settings = TypeVar("Settings")
State = TypeVar("State")


class DecisionRequest(NamedTuple, Generic[Settings, State]):
    """The round, the settings of a decision, and its state of the last answer, None = first loop."""

    round: Round
    settings: Settings
    state: State | None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the round."""
        return self.round.snapshot

    @property
    def now_ns(self) -> int:
        """The time of the round, Unix nanoseconds."""
        return self.round.now_ns

    @property
    def leaving(self) -> Bool:
        """Which nodes of the snapshot are being deleted. bool[N]."""
        return self.round.leaving

    @property
    def ready(self) -> Bool:
        """Which nodes of the snapshot are ready. bool[N]."""
        return self.round.ready

    @property
    def cache(self) -> SnapshotCache:
        """Cache of values of the snapshot."""
        return self.round.work.cache

    @property
    def limits(self) -> RequestLimits:
        """Limits of the request, on time and memory."""
        return self.round.work.limits

    def spare(self, leaving: Bool) -> Spare:
        """Return the headroom above minimums, of the whole cluster without some nodes : bool[N]."""
        return spare(self.snapshot, self.round.settings.limits, leaving)

    def node_budgets(self, budgets: Iterable[NodeDisruptionBudget], is_empty: Bool) -> NodeBudgets:
        """Return the budgets for nodes that hold now: nodes that are being deleted or not ready count already. is_empty
        : bool[N], the node leaves without pods to move."""
        return active_budgets(self.snapshot, budgets, is_empty, self.leaving | ~self.ready, self.now_ns)

    def unhealthy(self, limits: ScaleDownSettings) -> str:
        """Return why no node may leave, as too many are not ready; "" = they may."""
        rules = self.round.settings.readiness
        return unhealthy(self.snapshot, self.ready, self.leaving, rules, limits, self.now_ns)


def room_to_grow(this: Round, settings: ScaleUpSettings) -> tuple[GroupTemplates, Limits]:
    """Return the template of each node group, and how many nodes each may get."""
    work, snapshot = this.work, this.snapshot
    templates = group_templates(snapshot, settings, this.leaving, this.now_ns, work.cache, work.limits)
    cluster = LimitInputs(snapshot, templates, this.leaving, this.now_ns)
    return templates, Limits(cluster, this.settings.limits, settings.max_new_nodes)


class Summary(NamedTuple):
    """A result for logs and metrics. result : name of an enumeration's value; counts : numbers by name."""

    result: str
    counts: dict[str, int]


class NodeChange(NamedTuple):
    """What a decision changes of the nodes. gone : int32 nodes of the snapshot that go, now or later; new : the node
    group of each new node, a row of `Snapshot.groups`; placed : number of pods that wait and get a place; objective :
    what plans were compared by; most_saved : bound of the saving for one hour, None = not computed.
    """

    gone: Int32
    new: Sequence[int] = ()
    placed: int = 0
    objective: "pb.Objective.Code.ValueType" = pb.Objective.UNSPECIFIED
    most_saved: float | None = None


NO_CHANGE: Final = NodeChange(np.zeros(0, np.int32))


class Decided(NamedTuple):
    """The answer of a decision. result : the decision's field of `PlanResponse`; state : its field of `PlanState`, for
    the next request; notes : for the caller; finish : makes the remaining moves of the decision in the round's
    simulation, called only if another decision follows; figures : of its work, for diagnostics, beside those of the
    result; input : of the round of the decisions that follow, from one that is taken before it, None = as it is; change
    : of the nodes, for the summary; judge : writes what the decision says of nodes into their verdicts, one for each
    node of the snapshot, in its order.
    """

    result: Message
    state: Message
    notes: tuple[str, ...] = ()
    finish: Callable[[], None] = lambda: None
    figures: Mapping[str, int] = MappingProxyType({})
    input: RoundInput | None = None
    is_concluded_later: bool = False
    change: NodeChange = NO_CHANGE
    judge: Callable[[Sequence[pb.NodeVerdict]], None] = lambda verdicts: None  # noqa: ARG005


@dataclass(frozen=True)
class Decision:
    """One decision.

    resolve : returns its settings from those of the request; raises SettingsError; decide : takes the decision, given
    the round, the settings as `resolve` returns them, and the state of the last answer, None = first loop; summarize :
    returns the summary of a result; warm_up : changes the settings of the request with which kernels are compiled, so
    that all kernels run; failed : returns the result, whose outcome is "…_ERROR", if the decision fails, given what
    people should know; growth : returns the requirements for groups to grow in the simulation (`Round.growth`), a
    function of snapshot, settings and Unix nanoseconds; None = no requirements; comes_before : it is
    taken in a round of its own, before that of the others, whose input it gives (`Decided.input`); conclude : of such a
    decision, adds what is known only after all others to its result, given also the state of the last answer and the
    round of the last decision, which then contains the moves of all, and returns the nodes that go by it.
    """

    code: "pb.Decision.Code.ValueType"
    resolve: Callable[[pb.PlanSettings], Any]
    decide: Callable[[Round, Any, Any], Decided]
    summarize: Callable[[Any], Summary]
    warm_up: Callable[[pb.PlanSettings], None]
    failed: Callable[[str], Message]
    growth: Callable[[Snapshot, Any, int], GrowthNeed | None] | None = None
    comes_before: bool = False
    conclude: Callable[[Any, Any, Round], Int32] | None = None

    @property
    def name(self) -> str:
        """Name of the decision, as `Decision.Code` has it."""
        return pb.Decision.Code.Name(self.code)

    @property
    def field(self) -> str:
        """Name of its field in `PlanSettings`, `PlanState` and `PlanResponse`."""
        return self.name.lower()
