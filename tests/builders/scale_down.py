"""A scale-down decision from plain objects, verified by the certificate before a test checks it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json, snapshot_of
from tests.builders.verdicts import judged, saving_of
from tests.certificates.scale_down import offences
from trimtab.clients.verdicts import GOES
from trimtab.places import destinations
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.model.settings import resolve_planner, resolve_scale_down
from trimtab.planner.round.decision import NodeChange
from trimtab.planner.round.round import Round, Work
from trimtab.planner.scale_down.context import ScaleDownRequest
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.simulation.build import SimulationSettings, build_simulation
from trimtab.planner.simulation.inputs import template_requests
from trimtab.planner.simulation.virtual_rows import NO_KINDS, VirtualRows
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, reason_pb2, snapshot_pb2

NOW_S = 1_800_000_000
"""A time long after all times that builders use."""


class Outcome(NamedTuple):
    """A decision as plain names: reason by node, destination by pod. counts : of its summary."""

    decision: plan_pb2.ScaleDownDecision
    state: plan_pb2.ScaleDownState
    notes: tuple[str, ...]
    counts: dict[str, int]
    nodes: tuple[plan_pb2.NodeVerdict, ...]
    change: NodeChange
    answer: plan_pb2.PlanResponse

    @property
    def saving_per_hour(self) -> float:
        """Return what the unneeded nodes cost, those of unknown price excepted."""
        return saving_of(self.answer)

    @property
    def bound(self) -> float:
        """Return what no plan exceeds, 0 = not computed."""
        return self.change.most_saved or 0.0

    @property
    def going(self) -> list[plan_pb2.NodeVerdict]:
        """Return the verdicts on unneeded nodes."""
        return [one for one in self.nodes if one.fate in GOES]

    @property
    def staying(self) -> list[plan_pb2.NodeVerdict]:
        """Return the verdicts on nodes that stay."""
        return [one for one in self.nodes if one.fate not in GOES]

    @property
    def unneeded(self) -> list[str]:
        return [entry.node for entry in self.decision.unneeded]

    @property
    def reasons(self) -> dict[str, str]:
        """Return why each node stays."""
        name = reason_pb2.UnremovableReason.Code.Name
        return {entry.node: name(entry.reason) for entry in self.staying}

    @property
    def not_now(self) -> dict[str, str]:
        """Return why each unneeded node is not removed now; "" = it is."""
        name = reason_pb2.UnremovableReason.Code.Name
        return {e.node: name(e.reason) if e.reason else "" for e in self.going}

    @property
    def blocking(self) -> dict[str, tuple[str, str]]:
        """Return the blocking pod of each node that has one, and why it blocks."""
        name = reason_pb2.BlockingPodReason.Code.Name
        return {e.node: (e.blocking_pod, name(e.blocking_reason)) for e in self.staying if e.blocking_pod}

    @property
    def destinations(self) -> dict[str, str]:
        return destinations(self.decision.places)

    @property
    def result(self) -> str:
        return reason_pb2.ScaleDownResult.Code.Name(self.decision.result).removeprefix("SCALE_DOWN_")


def settings_of(given: Json | None) -> plan_pb2.PlanSettings:
    """Return settings from JSON: keys of `scaleDown`, plus `nodeGroups`, `planner`, `searchEffort` and `gangs`."""
    given = dict(given or {})
    more = {key: given.pop(key) for key in ("nodeGroups", "planner", "searchEffort", "gangs") if key in given}
    return ParseDict({"scaleDown": given} | more, plan_pb2.PlanSettings())


def even(most: int) -> Json:
    """Return settings with which similar node groups and zones differ by at most `most` nodes."""
    return {"planner": {"balance": {"maxDifference": most}}}


def scale_down_request(
    snapshot: Snapshot,
    settings: plan_pb2.PlanSettings,
    now_s: int = NOW_S,
    state: plan_pb2.ScaleDownState | None = None,
    time_left: Callable[[], bool] | None = None,
) -> ScaleDownRequest:
    """Return a request for a snapshot in its own round."""
    general = resolve_planner(settings)
    simulated = SimulationSettings(expendable_below=general.expendable_priority, templates=template_requests(snapshot))
    this = Round(
        snapshot,
        lambda pods, _=NO_KINDS: build_simulation(snapshot, VirtualRows(pods), settings=simulated),
        now_s * 10**9,
        settings=general,
        work=Work(time_left=time_left),
    )
    return ScaleDownRequest(this, resolve_scale_down(settings), state)


def plan_message(
    message: snapshot_pb2.ClusterSnapshot,
    settings: Json | None = None,
    state: plan_pb2.ScaleDownState | None = None,
    now_s: int = NOW_S,
    time_left: Callable[[], bool] | None = None,
) -> Outcome:
    """Decide on a snapshot, and verify the plan."""
    snapshot = planned_snapshot(canonicalize(message)).snapshot
    given = settings_of(settings)
    result = decide_scale_down(scale_down_request(snapshot, given, now_s, state, time_left))
    answer = judged(result, snapshot)
    broken = offences(message, given, answer, now_s)
    assert broken == []
    after: Any = result.state
    return Outcome(
        answer.scale_down, after, result.notes, dict(result.figures), tuple(answer.nodes), result.change, answer
    )


def plan(
    *objects: Json | Sequence[Json], actuation: snapshot_pb2.ActuationStatus | None = None, **more: Any
) -> Outcome:
    """Decide on Kubernetes objects; `settings`, `state`, `now_s`, `time_left` as for `plan_message`."""
    return plan_message(snapshot_of(*objects, actuation=actuation), **more)
