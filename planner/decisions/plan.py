"""Plan: the requested decisions, one after the other on one simulation, in one answer. Decides which settings, state
and simulation each decision gets, and the order of decisions; never their results. Raises SettingsError for invalid
settings, and RequestError for unknown nodes; the rest of a request is checked before
(`trimtab.planner.decisions.requests`).
"""

from bisect import bisect_left
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.decisions.notes import count_pods, notes
from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.decisions.simulations import growing, simulate
from trimtab.planner.decisions.table import TABLE, Table
from trimtab.planner.model.settings import resolve_planner
from trimtab.planner.model.wire import entry, tag
from trimtab.planner.round.decision import Decision
from trimtab.planner.round.round import Round
from trimtab.planner.round.work import Work
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import GrowthNeed, GrowthRows
from trimtab.planner.simulation.log import commit
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, VirtualRows
from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb


class Planned(NamedTuple):
    """An answer. answer : all of it but `rest`; rest : encoded entries of fields of `PlanResponse`, to be merged into
    it.
    """

    answer: pb.PlanResponse
    rest: tuple[bytes, ...] = ()

    def whole(self) -> pb.PlanResponse:
        """Return the answer with everything merged into it."""
        for part in self.rest:
            self.answer.MergeFromString(part)
        return self.answer

    def encoded(self) -> bytes:
        """Return the bytes of the whole answer. Whoever parses them merges the entries."""
        return b"".join((self.answer.SerializeToString(), *self.rest))


def plan(
    snapshot: Snapshot, request: pb.PlanRequest, state: pb.PlanState | None, work: Work, table: Table = TABLE
) -> pb.PlanResponse:
    """Take the decisions: `plan_in_parts`, in one message."""
    return plan_in_parts(snapshot, request, state, work, table).whole()


def plan_in_parts(
    snapshot: Snapshot, request: pb.PlanRequest, state: pb.PlanState | None, work: Work, table: Table = TABLE
) -> Planned:
    """Take the decisions. `state` : that of the last answer, None = first loop.

    The state of a decision that is not requested is returned unchanged. The caller sets `request_id`, `state_version`
    and the stages of the diagnostics.
    """
    requested = [decision for decision in table if decision.code in request.decisions]
    settings = {decision.code: decision.resolve(request.settings) for decision in requested}
    answer = pb.PlanResponse(snapshot_version=snapshot.version)
    this = _round(snapshot, request, work, answer.diagnostics, _need(requested, settings, snapshot, request))
    _describe(snapshot, work, answer.diagnostics)
    answer.diagnostics.notes.extend(notes(snapshot, request, table))
    if state is not None:
        answer.state.CopyFrom(state)
    rest: tuple[bytes, ...] = ()
    for number, decision in enumerate(requested):
        with work.stage("simulate"):
            rest += _take(decision, this, settings[decision.code], answer, number + 1 == len(requested))
    return Planned(answer, rest)


def _need(
    requested: list[Decision], settings: dict[Any, Any], snapshot: Snapshot, request: pb.PlanRequest
) -> GrowthNeed | None:
    """Return the growth requirements on the simulation. At most one decision has any."""
    for decision in requested:
        if decision.growth is not None:
            return decision.growth(snapshot, settings[decision.code], _now_ns(request))
    return None


def _now_ns(request: pb.PlanRequest) -> int:
    return request.now.seconds * 1_000_000_000 + request.now.nanos


def _round(
    snapshot: Snapshot, request: pb.PlanRequest, work: Work, diagnostics: pb.Diagnostics, need: GrowthNeed | None
) -> Round:
    """Return the common input of all decisions of the request."""

    @cache
    def grow(virtual_pod_count: int) -> tuple[GrowthRows, str]:
        with work.stage("classes"):
            return growing(snapshot, need, virtual_pod_count, work.derive, work.effort)

    def simulation(virtual: tuple[VirtualPod, ...], kinds: Kinds = NO_KINDS) -> Simulation:
        rows, key = grow(len(virtual))
        diagnostics.notes.extend(rows.notes)
        with work.stage("classes"):
            every = VirtualRows(virtual, rows.nodes, kinds)
            built = simulate(snapshot, request, work.derive, every, work.effort, key)
        diagnostics.pod_class_count = built.pods.size
        diagnostics.node_class_count = len(built.nodes.taint_set)
        return built

    return Round(
        snapshot=snapshot,
        simulate=simulation,
        now_ns=_now_ns(request),
        seed=request.seed,
        settings=resolve_planner(request.settings),
        work=work,
        grow=lambda virtual_pod_count: grow(virtual_pod_count)[0].growth,
        explained=_explained(snapshot, request),
    )


def _explained(snapshot: Snapshot, request: pb.PlanRequest) -> Int32:
    """Return the nodes of `explain_nodes`, ascending. int32. Errors: RequestError."""
    names, rows = snapshot.nodes.name, set[int]()
    for i, name in enumerate(request.explain_nodes):
        row = bisect_left(names, name)
        if row == len(names) or names[row] != name:
            raise RequestError(f"explain_nodes[{i}]", f"the snapshot has no node {name!r}")
        if row in rows:
            raise RequestError(f"explain_nodes[{i}]", f"{name!r} is given twice; name each node once")
        rows.add(row)
    return np.array(sorted(rows), np.int32)


def _take(decision: Decision, this: Round, settings: Any, answer: pb.PlanResponse, is_last: bool) -> tuple[bytes, ...]:
    """Take one decision and write its result into the answer, but for the encoded entries of the answer that this
    returns: nothing here reads them, so they are not parsed.
    """
    field: Any = decision.field
    known = getattr(answer.state, field) if answer.state.HasField(field) else None
    decided = decision.decide(this, settings, known)
    result = getattr(answer, field)
    rest: tuple[bytes, ...] = ()
    if decided.summary is not None:
        result.CopyFrom(decided.result)
        tagged = tag(pb.PlanResponse, field)
        rest = tuple(entry(tagged, part) for part in decided.more)
    else:
        decided.write(result)
        decided = decided._replace(result=result, more=())
    getattr(answer.state, field).CopyFrom(decided.state)
    answer.diagnostics.notes.extend(decided.notes)
    summary = decided.summary or decision.summarize(result)
    answer.diagnostics.decisions.add(decision=decision.code, result=summary.result, counts=summary.counts)
    this.decided[decision.code] = decided
    if not is_last:
        # Commit before, too, so that the log has room for the remaining moves.
        commit(this.simulation.state)
        decided.finish()
        commit(this.simulation.state)
    return rest


def _describe(snapshot: Snapshot, work: Work, diagnostics: pb.Diagnostics) -> None:
    """Write the sizes of the snapshot."""
    counts = work.derive("counts", partial(count_pods, snapshot))
    diagnostics.node_count = len(snapshot.nodes.name)
    diagnostics.pod_count = counts.pods
    diagnostics.unsupported_pod_count = counts.unsupported
    diagnostics.orphaned_pod_count = counts.orphaned
