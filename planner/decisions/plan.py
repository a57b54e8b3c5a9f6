"""Plan: the requested decisions, one after the other on one simulation, in one answer. Decides which settings, state
and simulation each decision gets, and the order of decisions; never their results.

A decision that raises an error ends with the result ERROR, a note, and its state as it was; the others are taken as if
it had not been requested. Raises SettingsError for invalid settings, RequestError for unknown nodes, SnapshotError for
amounts beyond its limits, and the errors of the caller's tools (`Work.ends_request`); the rest of a request is checked
before (`trimtab.planner.decisions.requests`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import numpy as np

from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.decisions.simulations import RoundGrowth, round_growth, simulate, with_missing_members
from trimtab.planner.decisions.summary import PodCountsKey, count_pods, notes, write_summary, write_verdicts
from trimtab.planner.decisions.table import TABLE, Table
from trimtab.planner.facts.nodes import ShownPricesKey, shown_prices
from trimtab.planner.facts.readiness import starting
from trimtab.planner.model.settings import SettingsError, resolve_planner
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import NOTHING_BOOKED, Round, RoundInput, Work
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import GrowthNeed
from trimtab.planner.simulation.log import commit
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualPod, VirtualRows
from trimtab.planner.snapshot.caches import UNCACHED
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.columns import Int32, Snapshot
from trimtab.v1 import plan_pb2 as pb

P = ParamSpec("P")
T = TypeVar("T")
_BAD_INPUT: Final = (RequestError, SettingsError, SnapshotError)
"""Errors of the request, not of a decision."""


class DecisionFailure(NamedTuple):
    """A decision that failed, and the error that it raised."""

    decision: Decision
    error: Exception

    @property
    def detail(self) -> str:
        """What people should know: the kind of error, but nothing of its text."""
        return f"an error of the planner ({type(self.error).__name__}), whose log has the details"


class Planned(NamedTuple):
    """An answer. failures : of decisions, in their order; inputs : what decisions give to those that follow
    (`Decided.input`); round : in which they were taken; unconcluded : decisions to be concluded (`Decision.conclude`);
    decided : what each decision that did not fail says, in their order.
    """

    answer: pb.PlanResponse
    failures: tuple[DecisionFailure, ...] = ()
    inputs: tuple[RoundInput | None, ...] = ()
    round: Round | None = None
    unconcluded: tuple[Decision, ...] = ()
    decided: tuple[tuple[Decision, Decided], ...] = ()


def plan(
    snapshot: Snapshot, request: pb.PlanRequest, state: pb.PlanState | None, work: Work, table: Table = TABLE
) -> pb.PlanResponse:
    """Take the decisions, as `plan_with_failures`."""
    return plan_with_failures(snapshot, request, state, work, table).answer


def plan_with_failures(
    snapshot: Snapshot,
    request: pb.PlanRequest,
    state: pb.PlanState | None,
    work: Work,
    table: Table = TABLE,
    *,
    is_whole: bool = False,
) -> Planned:
    """Take the decisions. `state` : that of the last answer, None = first loop; is_whole : all moves are made in the
    simulation of the round, those of the last decision included.

    The state of a decision that is not requested is returned unchanged. The caller sets `request_id`, `state_version`
    and the stages of the diagnostics.
    """
    if not (resolve_planner(request.settings).gangs.count_missing and snapshot.pod_groups):
        return _planned(snapshot, request, state, work, table, is_whole)
    whole, note = with_missing_members(snapshot)
    if whole is not snapshot:
        # Nothing kept with the snapshot, or under its version, is of this one.
        work = work._replace(cache=UNCACHED)
    planned = _planned(whole, request, state, work, table, is_whole)
    planned.answer.summary.notes.extend([note] if note else [])
    return planned


def _planned(
    snapshot: Snapshot, request: pb.PlanRequest, state: pb.PlanState | None, work: Work, table: Table, is_whole: bool
) -> Planned:
    """Take the decisions on all pods that count."""
    requested = [decision for decision in table if decision.code in request.decisions]
    settings: dict[int, Any] = {decision.code: decision.resolve(request.settings) for decision in requested}
    explained = _explained(snapshot, request)
    call = _PlanCall(
        snapshot, request, state, work, table, requested, settings, explained, snapshot.version, is_followed=is_whole
    )
    planned = _in_rounds(call)
    _tell(call, planned)
    return planned


def _in_rounds(call: "_PlanCall") -> Planned:
    """Take the decisions, those that come before the others in a round of their own."""
    before = [decision for decision in call.requested if decision.comes_before]
    if not before:
        return _taken(call)
    rest = [decision for decision in call.requested if not decision.comes_before]
    first = _taken(call._replace(requested=before), describe=not rest)
    if not rest:
        return _concluded(call, first, first)
    second = _taken(call.after(first)._replace(requested=rest, is_followed=call.is_followed or bool(first.unconcluded)))
    return _joined(_concluded(call, first, second), before, second)


def _tell(call: "_PlanCall", planned: Planned) -> None:
    """Write the summary and the verdicts on nodes."""
    snapshot, cache, this = call.snapshot, call.work.cache, planned.round
    assert this is not None
    with call.work.stage("encode"):
        shown = cache.get(ShownPricesKey(), snapshot, shown_prices)
        placed = cache.get(PodCountsKey(), snapshot, count_pods).placed
        changes = ((decision.code, decided.change) for decision, decided in planned.decided)
        write_summary(planned.answer.summary, snapshot, shown, this.leaving, placed, changes)
        if {pb.Decision.SCALE_DOWN, pb.Decision.REPLACEMENT}.isdisjoint(call.request.decisions):
            return
        starts = starting(snapshot, call.now_ns, this.settings.readiness)
        # What is known only after all others is said last.
        said = sorted(planned.decided, key=lambda pair: pair[0].comes_before)
        judges = (decided.judge for _, decided in said)
        write_verdicts(planned.answer, snapshot, cache, this.leaving, starts, judges)


def _taken(call: "_PlanCall", *, describe: bool = True) -> Planned:
    """Take decisions in one round. describe : the answer gets the sizes of the snapshot and the notes on it, too."""
    failures: dict[int, DecisionFailure] = {}
    while True:
        try:
            return _RoundAttempt(call, failures).run(describe)
        except _DecisionFailedError as failed:
            # Nothing of a failed decision may stay: neither its moves, which may be incomplete, nor the nodes that it
            # required. So the others are taken again without it.
            failures[failed.failure.decision.code] = failed.failure


def _concluded(call: "_PlanCall", first: Planned, last: Planned) -> Planned:
    """Return an answer with the decisions concluded that wait for the others; one whose conclusion fails stays as it
    was answered. last : the answer of the last round."""
    failures, decided = list(first.failures), dict(first.decided)
    for decision in first.unconcluded:
        field: Any = decision.field
        assert decision.conclude is not None
        assert last.round is not None
        result = type(getattr(first.answer, field))()
        result.CopyFrom(getattr(first.answer, field))
        state = getattr(call.state, field) if call.state is not None else None
        try:
            with _bulkhead(decision, call.work):
                gone = decision.conclude(result, state, last.round)
        except _DecisionFailedError as failed:
            failures.append(failed.failure)
            continue
        getattr(first.answer, field).CopyFrom(result)
        entry_ = next(summary for summary in first.answer.diagnostics.decisions if summary.decision == decision.code)
        entry_.counts.update(decision.summarize(result).counts)
        change = decided[decision].change._replace(gone=gone)
        decided[decision] = decided[decision]._replace(change=change, judge=partial(_judge_released, gone))
    return first._replace(failures=tuple(failures), unconcluded=(), decided=tuple(decided.items()))


def _judge_released(nodes: Int32, verdicts: Sequence[pb.NodeVerdict]) -> None:
    """Write that nodes go now because what they came for cannot be completed."""
    for node in nodes.tolist():
        verdicts[node].fate = pb.NodeFate.GOES_NOW
        verdicts[node].detail = "it came for what can no longer be completed"
        for field in ("reason", "goes_at", "blocking_pod", "blocking_reason"):
            verdicts[node].ClearField(field)


def _joined(first: Planned, before: Sequence[Decision], rest: Planned) -> Planned:
    """Return the answer of two rounds: that of the second one, with what the decisions before it have answered."""
    answer, own, diagnostics = rest.answer, first.answer, rest.answer.diagnostics
    results = [*own.diagnostics.decisions, *diagnostics.decisions]
    notes_of_both = [*own.summary.notes, *answer.summary.notes]
    del diagnostics.decisions[:], answer.summary.notes[:]
    diagnostics.decisions.extend(results)
    answer.summary.notes.extend(notes_of_both)
    for decision in before:
        field: Any = decision.field
        getattr(answer, field).CopyFrom(getattr(own, field))
        if own.state.HasField(field):
            getattr(answer.state, field).CopyFrom(getattr(own.state, field))
    return Planned(answer, first.failures + rest.failures, round=rest.round, decided=first.decided + rest.decided)


class _PlanCall(NamedTuple):
    """The input of a plan. requested : in the order of the table; settings : as resolved, by `Decision.Code`; explained
    : int32, see `Round.explained`; is_followed : all moves are needed in the simulation, those of the last decision
    included; others as for `plan_with_failures`.
    """

    snapshot: Snapshot
    request: pb.PlanRequest
    state: pb.PlanState | None
    work: Work
    table: Table
    requested: list[Decision]
    settings: Mapping[int, Any]
    explained: Int32
    version: str
    input: RoundInput | None = None
    is_followed: bool = False

    def after(self, first: Planned) -> "_PlanCall":
        """Return the call for the decisions that follow a round of others."""
        following = next((round_input for round_input in first.inputs if round_input is not None), None)
        if following is None:
            return self
        if following.snapshot is self.snapshot:
            return self._replace(input=following)
        # What is cached belongs to the snapshot as it came.
        return self._replace(input=following, snapshot=following.snapshot, work=self.work._replace(cache=UNCACHED))

    @property
    def now_ns(self) -> int:
        """The time of the request, Unix nanoseconds."""
        return self.request.now.seconds * 1_000_000_000 + self.request.now.nanos


class _DecisionFailedError(Exception):
    """A decision raised an error that is none of the request."""

    def __init__(self, failure: DecisionFailure) -> None:
        super().__init__(failure.decision.name)
        self.failure = failure


class _RoundAttempt:
    """The decisions of one request, taken one after the other in one round, except those that failed before.

    failures : by `Decision.Code`.
    """

    def __init__(self, call: _PlanCall, failures: Mapping[int, DecisionFailure]) -> None:
        self._call, self._failures = call, dict(failures)
        self._answer = pb.PlanResponse(snapshot_version=call.version)
        self._notes: list[str] = []
        self._needs = {code: need for code, need in map(self._need, call.requested) if need is not None}
        self._growth: RoundGrowth | None = None
        self._round = Round(
            snapshot=call.snapshot,
            simulate=self._simulate,
            now_ns=call.now_ns,
            seed=call.request.seed,
            settings=resolve_planner(call.request.settings),
            work=call.work,
            grow=lambda code, virtual_pod_count: self._laid_out(virtual_pod_count).of(code),
            explained=call.explained,
            booked=call.input.booked if call.input else NOTHING_BOOKED,
            requested=call.input.requested if call.input else None,
        )

    def run(self, describe: bool) -> Planned:
        """Take all decisions; return the answer. Raises _DecisionFailedError if one more fails."""
        call, answer = self._call, self._answer
        if call.state is not None:
            answer.state.CopyFrom(call.state)
        for number, decision in enumerate(call.requested):
            with call.work.stage("simulate"):
                if decision.code not in self._failures:
                    self._run_decision(decision, is_last=number + 1 == len(call.requested) and not call.is_followed)
                if decision.code in self._failures:
                    self._write_failure(self._failures[decision.code])
        if describe:
            self._describe()
        self._answer.summary.notes.extend(self._notes)
        decided = self._round.decided
        unconcluded = tuple(
            decision
            for decision in call.requested
            if decision.code in decided and decided[decision.code].is_concluded_later
        )
        inputs = tuple(outcome.input for outcome in decided.values())
        said = tuple((decision, decided[decision.code]) for decision in call.requested if decision.code in decided)
        return Planned(answer, tuple(self._failures.values()), inputs, self._round, unconcluded, said)

    def _run_decision(self, decision: Decision, is_last: bool) -> None:
        """Take one decision and write its result."""
        try:
            with _bulkhead(decision, self._call.work):
                self._decide(decision, is_last)
        except _DecisionFailedError as failed:
            if not is_last or failed.failure.decision.code in self._needs:
                raise
            # No other decision has seen anything of it.
            self._failures[decision.code] = failed.failure

    def _decide(self, decision: Decision, is_last: bool) -> None:
        """Take one decision and write its result into the answer."""
        answer, this = self._answer, self._round
        field: Any = decision.field
        state = getattr(answer.state, field) if answer.state.HasField(field) else None
        decided = decision.decide(this, self._call.settings[decision.code], state)
        getattr(answer, field).CopyFrom(decided.result)
        summary = decision.summarize(decided.result)
        this.decided[decision.code] = decided
        if decision.comes_before or not is_last:
            # Commit before, too, so that the log has room for the remaining moves.
            self._commit(decision)
            decided.finish()
            self._commit(decision)
        getattr(answer.state, field).CopyFrom(decided.state)
        counts = {**summary.counts, **decided.figures}
        answer.diagnostics.decisions.add(decision=decision.code, result=summary.result, counts=counts)
        self._notes.extend(decided.notes)

    def _commit(self, decision: Decision) -> None:
        """Make the moves of a decision final. One that comes before the round of the others may not have simulated."""
        if self._round.is_simulated or not decision.comes_before:
            commit(self._round.simulation.state)

    def _write_failure(self, failure: DecisionFailure) -> None:
        """Write the result of a decision that failed. Its state is still that of the request."""
        decision, detail = failure.decision, failure.detail
        getattr(self._answer, decision.field).CopyFrom(decision.failed(detail))
        self._answer.diagnostics.decisions.add(decision=decision.code, result=f"{decision.name}_ERROR", failed=True)
        self._notes.append(f"{decision.name} has failed: {detail}; the other decisions are as if it were not requested")

    def _need(self, decision: Decision) -> tuple[int, GrowthNeed | None]:
        """Return the requirements of a decision for groups to grow, None if it has none or has failed."""
        call = self._call
        if decision.growth is None or decision.code in self._failures:
            return decision.code, None
        guarded = partial(_guarded, decision, call.work)
        need = guarded(decision.growth)(call.snapshot, call.settings[decision.code], call.now_ns)
        if need is not None:
            need = need._replace(templates=guarded(need.templates), spare_nodes=guarded(need.spare_nodes))
        return decision.code, need

    def _laid_out(self, virtual_pod_count: int) -> RoundGrowth:
        """Return the virtual nodes with which groups grow; the number of virtual pods never changes in a round."""
        if self._growth is None:
            call = self._call
            with call.work.stage("classes"):
                self._growth = round_growth(
                    call.snapshot, self._needs, virtual_pod_count, call.work.cache, call.work.limits
                )
        return self._growth

    def _simulate(self, virtual: tuple[VirtualPod, ...], kinds: Kinds = NO_KINDS) -> Simulation:
        call, growth = self._call, self._laid_out(len(virtual))
        with call.work.stage("classes"):
            rows = VirtualRows(virtual, growth.rows.nodes, kinds)
            cutoff = self._round.settings.expendable_priority
            return simulate(call.snapshot, call.request, call.work.cache, rows, call.work.limits, growth.key, cutoff)

    def _describe(self) -> None:
        """Write the sizes of snapshot and classes, and all notes."""
        call, diagnostics = self._call, self._answer.diagnostics
        counts = call.work.cache.get(PodCountsKey(), call.snapshot, count_pods)
        diagnostics.node_count = len(call.snapshot.nodes.name)
        diagnostics.pod_count = counts.pods
        diagnostics.unsupported_pod_count = counts.unsupported
        diagnostics.orphaned_pod_count = counts.orphaned
        if self._round.is_simulated:
            diagnostics.pod_class_count = self._round.simulation.pods.size
            diagnostics.node_class_count = len(self._round.simulation.nodes.taint_set)
        self._answer.summary.notes.extend(notes(call.snapshot, call.request, call.table))
        if self._growth is not None:
            self._answer.summary.notes.extend(self._growth.rows.notes)


@contextmanager
def _bulkhead(decision: Decision, work: Work) -> Iterator[None]:
    """Raise _DecisionFailedError for every error of a decision, unless it ends the request or another one failed."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (_DecisionFailedError, *_BAD_INPUT, *work.ends_request)):
            raise
        raise _DecisionFailedError(DecisionFailure(decision, error)) from error


def _guarded(decision: Decision, work: Work, function: Callable[P, T]) -> Callable[P, T]:
    """Return a function of a decision whose errors are the decision's, whoever calls it."""

    def call(*arguments: P.args, **keywords: P.kwargs) -> T:
        with _bulkhead(decision, work):
            return function(*arguments, **keywords)

    return call


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
