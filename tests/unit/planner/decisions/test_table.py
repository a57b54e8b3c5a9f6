"""Several decisions of one plan: each sees the effects of those before it, and an unrequested one has none."""

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from structlog.testing import capture_logs

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from trimtab.places import destinations
from trimtab.planner.decisions.plan import plan
from trimtab.planner.decisions.table import TABLE, codes, missing
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round, Work
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.simulation.growth import GrowthNeed
from trimtab.planner.simulation.kernels import fits, open_from_template, place
from trimtab.planner.simulation.virtual_rows import NO_KINDS, GroupTemplate, VirtualPod, template_of
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.texts import find_pods
from trimtab.v1 import plan_pb2 as pb

NOW_S = 1_800_000_000
WEB = replica_set("web", 3)
DECISION = pb.Decision
CLUSTER: list[Json] = [
    *(node(name, cpu="4") for name in ("n1", "n2", "n3")),
    node_group("g", nodes=["n1", "n2", "n3"]),
    WEB,
    pod("a", "1", node="n1", owner=WEB),
    pod("b", "3", node="n2", owner=WEB),
    pod("c", "4", node="n3", owner=WEB),
    pod("waits", "1"),
]
"""Without other decisions n1 goes and its pod moves to n2. With "waits" on n1 both pods have no place; the other nodes
are used too much.
"""


def keep_room(this: Round, settings: None, state: pb.SlackState | None) -> Decided:
    """Place the pending pod on n1, as slack or scale-up might do."""
    del settings
    simulation, snapshot = this.simulation, this.snapshot
    waiting = next(p for p in range(len(snapshot.pods.spec)) if snapshot.pod_key(p) == "default/waits")
    target = next(n for n in range(len(snapshot.nodes.name)) if fits(simulation.state, waiting, n))
    assert place(simulation.state, waiting, target) == 0
    result = pb.SlackDecision(pushed_out=[f"{snapshot.pod_key(waiting)} on {snapshot.nodes.name[target]}"])
    return Decided(result, pb.SlackState(strings=[*(state.strings if state else ()), "once more"]), ("room is kept",))


def grow(placeholder_on: str) -> Decision:
    """Return a decision that opens a node, places the pending pod there, and a placeholder on a node."""

    def need(snapshot: Snapshot, settings: None, now_ns: int) -> GrowthNeed:
        del settings, now_ns
        template = GroupTemplate(template_of(snapshot, snapshot.nodes, 0))
        return GrowthNeed("", lambda _: [template], (0,), lambda _: 1)

    def decide(this: Round, settings: None, state: pb.SlackState | None) -> Decided:
        del settings, state
        snapshot = this.snapshot
        placeholder = VirtualPod("default", PodRequirements(requests=(("cpu", 1000),)))
        this.hold_room(this.room, (placeholder,), NO_KINDS)
        growth, sim = this.growth_of(DECISION.SLACK), this.simulation.state
        new = int(growth.spare_nodes[0])
        assert open_from_template(sim, new, int(growth.template_node[0])) == 0
        waiting = find_pods(snapshot, ["default/waits"])[0][0]
        assert place(sim, waiting, new) == 0
        on = {name: at for at, name in enumerate(snapshot.nodes.name)} | {"new": new}
        assert place(sim, this.simulation.pod_count, on[placeholder_on]) == 0
        return Decided(pb.SlackDecision(), pb.SlackState())

    return Decision(DECISION.SLACK, ignore, decide, summarize, ignore, failed, need)


def failed(detail: str) -> pb.SlackDecision:
    return pb.SlackDecision(detail=detail)


def rank(this: Round, settings: None, state: pb.PodCostsState | None) -> Decided:
    """Record the node of each pod as this decision sees it, and the nodes that scale-down removes."""
    del settings
    snapshot, at = this.snapshot, this.simulation.state.pod_node
    names = (*snapshot.nodes.name, "")
    groups = [
        pb.PodCostGroup(owner=snapshot.pod_key(p), pods=[names[at[p]]], costs=[1])
        for p in range(len(snapshot.pods.spec))
    ]
    earlier: Any = this.decided.get(DECISION.SCALE_DOWN)
    if earlier is not None:
        groups.append(pb.PodCostGroup(owner="gone", pods=[one.node for one in earlier.result.unneeded]))
    return Decided(pb.PodCostsDecision(groups=groups), state or pb.PodCostsState())


def summarize(result: pb.SlackDecision | pb.PodCostsDecision) -> Summary:
    return Summary("TESTED", {"fields": len(result.ListFields())})


def ignore(settings: pb.PlanSettings) -> None:
    del settings


SLACK = Decision(DECISION.SLACK, ignore, keep_room, summarize, ignore, failed)
POD_COSTS = Decision(DECISION.POD_COSTS, ignore, rank, summarize, ignore, failed)
WHOLE = (SLACK, SCALE_DOWN, POD_COSTS)


def request(*decisions: "DECISION.Code.ValueType") -> pb.PlanRequest:
    message = pb.PlanRequest(decisions=decisions)
    message.now.seconds = NOW_S
    message.settings.scale_down.unneeded_time.seconds = 0
    message.settings.planner.reserve_for_pending_pods = False
    return message


def decide(
    *decisions: "DECISION.Code.ValueType", state: pb.PlanState | None = None, table: tuple[Decision, ...] = WHOLE
) -> pb.PlanResponse:
    return plan(snapshot(), request(*decisions), state, Work(), table)


def snapshot() -> Snapshot:
    return canonicalize(snapshot_of(CLUSTER))


def unneeded(answer: pb.PlanResponse) -> list[str]:
    return [one.node for one in answer.scale_down.unneeded]


def places(answer: pb.PlanResponse) -> dict[str, str]:
    """Return the node on which POD_COSTS saw each pod, and under "gone" the removed nodes."""
    return {group.owner: "".join(group.pods) for group in answer.pod_costs.groups}


def test_a_node_that_a_decision_has_filled_is_not_drained_by_the_next() -> None:
    assert unneeded(decide(DECISION.SCALE_DOWN)) == ["n1"]
    answer = decide(DECISION.SLACK, DECISION.SCALE_DOWN)
    assert list(answer.slack.pushed_out) == ["default/waits on n1"]
    assert unneeded(answer) == []


def test_the_next_decision_sees_the_drained_pods_where_they_go() -> None:
    before = decide(DECISION.POD_COSTS)
    assert places(before)["default/a"] == "n1"
    after = decide(DECISION.SCALE_DOWN, DECISION.POD_COSTS)
    where = destinations(after.scale_down.places)
    assert places(after) == {"default/a": where["default/a"], "default/b": "n2", "default/c": "n3", "default/waits": "",
                             "gone": "n1"}  # fmt: skip


@pytest.mark.parametrize(("placeholder_on", "goes"), [("new", ["n1"]), ("n1", ["n1"]), ("n2", [])])
def test_nodes_that_a_decision_adds_hold_its_pods_and_take_none_of_those_that_are_drained(
    placeholder_on: str, goes: list[str]
) -> None:
    table = (grow(placeholder_on), SCALE_DOWN)
    answer = decide(DECISION.SLACK, DECISION.SCALE_DOWN, table=table)
    assert unneeded(answer) == goes
    assert destinations(answer.scale_down.places) == ({"default/a": "n2"} if goes else {})
    again = decide(DECISION.SLACK, DECISION.SCALE_DOWN, state=answer.state, table=table)
    assert unneeded(again) == goes


def test_the_order_of_the_request_does_not_matter() -> None:
    whole = decide(DECISION.SLACK, DECISION.SCALE_DOWN, DECISION.POD_COSTS)
    assert decide(DECISION.POD_COSTS, DECISION.SCALE_DOWN, DECISION.SLACK) == whole
    assert [one.decision for one in whole.diagnostics.decisions] == [one.code for one in WHOLE]


def test_a_decision_that_is_not_requested_has_no_effect() -> None:
    alone = decide(DECISION.SCALE_DOWN)
    assert not alone.HasField("slack")
    assert not alone.HasField("pod_costs")
    assert not alone.state.HasField("slack")
    assert alone.scale_down == decide(DECISION.SCALE_DOWN, table=TABLE).scale_down


@pytest.mark.parametrize("asked", [(DECISION.SCALE_DOWN,), (DECISION.POD_COSTS,), (DECISION.SLACK, DECISION.POD_COSTS)])
def test_the_state_of_a_decision_that_is_not_requested_comes_back_unchanged(
    asked: "tuple[DECISION.Code.ValueType, ...]",
) -> None:
    state = decide(*codes(WHOLE)).state
    # State of a decision that this build does not have.
    state.scale_up.opaque = b"of another build"
    answer = decide(*asked, state=state)
    for decision in (*WHOLE, None):
        field: Any = decision.field if decision else "scale_up"
        if decision is None or decision.code not in asked:
            assert getattr(answer.state, field) == getattr(state, field)
    if DECISION.SLACK in asked:
        assert len(answer.state.slack.strings) == 2, "its own state reached it"


def test_logs_metrics_and_notes_follow_the_table() -> None:
    reader = InMemoryMetricReader()
    handler = RequestHandler(MeterProvider([reader]).get_meter("test"), 0, table=WHOLE)
    message = request(DECISION.POD_COSTS, DECISION.SLACK)
    message.settings.slack.SetInParent()
    message.settings.scale_up.SetInParent()
    with capture_logs() as logs:
        answer = handler.plan(message, snapshot_of(CLUSTER).SerializeToString(), Caller())
    told = [(line["decision"], line["result"], line["fields"]) for line in logs if line["event"] == "decision"]
    assert told == [("SLACK", "TESTED", 1), ("POD_COSTS", "TESTED", 1)]
    assert [(one.decision, one.result) for one in answer.diagnostics.decisions] == [
        (DECISION.SLACK, "TESTED"),
        (DECISION.POD_COSTS, "TESTED"),
    ]
    notes = list(answer.summary.notes)
    assert "room is kept" in notes
    assert "settings.scale_up has no effect: this build does not support that decision" in notes
    assert not any("settings.slack" in note for note in notes)
    data: Any = reader.get_metrics_data()
    counted = {
        (str(point.attributes["decision"]), str(point.attributes["result"])): point.value
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == "plans"
        for point in metric.data.data_points
    }
    assert counted == {("SLACK", "TESTED"): 1, ("POD_COSTS", "TESTED"): 1}


def test_every_decision_has_its_fields_in_the_contract() -> None:
    for field in (*missing(()), *(decision.field for decision in TABLE)):
        for message in (pb.PlanSettings, pb.PlanState, pb.PlanResponse):
            assert field in message.DESCRIPTOR.fields_by_name
