"""A decision that grows groups finds their virtual nodes in the round; other requests are not affected."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.builders.caches import KeptValues
from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from trimtab.places import moves_by_node, on_new_nodes, places_of
from trimtab.planner.decisions.plan import plan
from trimtab.planner.decisions.simulations import SimulationKey, shares_of
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.placement.packing import GrowingGroups, pack, packer, place_on_new_nodes
from trimtab.planner.round.decision import Decided, Decision, Summary
from trimtab.planner.round.round import Round, Work
from trimtab.planner.scale_down.decision import SCALE_DOWN
from trimtab.planner.simulation.growth import NO_GROWTH, GrowthNeed
from trimtab.planner.simulation.kernels import open_from_template, place
from trimtab.planner.simulation.virtual_rows import GroupTemplate, template_of
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.texts import find_pods
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ScaleUpResult

DECISION = pb.Decision
WEB = replica_set("web", 2)
CLUSTER: list[Json] = [
    *(node(name, cpu="4") for name in ("n1", "n2")),
    node_group("g", nodes=["n1", "n2"]),
    WEB,
    pod("a", "1", node="n1", owner=WEB),
    pod("b", "3", node="n2", owner=WEB),
    *(pod(f"large-{at}", "4") for at in range(3)),
]


def growth(upcoming: int, built: list[str]) -> Callable[[Snapshot, Any, int], GrowthNeed]:
    """Request growth; record in `built` when templates are made."""

    def need(snapshot: Snapshot, settings: None, now_ns: int) -> GrowthNeed:
        del settings, now_ns

        def templates(limits: RequestLimits) -> list[GroupTemplate]:
            del limits
            built.append("templates")
            return [GroupTemplate(template_of(snapshot, snapshot.nodes, 0))]

        return GrowthNeed("", templates, (upcoming,), lambda _: 5)

    return need


def grow(this: Round, settings: None, state: pb.ScaleUpState | None) -> Decided:
    """Add nodes for the large pods."""
    del settings, state
    keys = [f"default/large-{at}" for at in range(3)]
    pods = find_pods(this.snapshot, keys)[0].astype(np.int32)
    pods = pods[this.simulation.state.pod_node[pods] < 0]
    within = packer(this.simulation, this.growth_of(DECISION.SCALE_UP))
    found = pack(within, GrowingGroups([0], [2], [9]), pods, 9)
    on = place_on_new_nodes(within, [0] * found.nodes, found.pods, found.node_of)
    split = pb.ScaleUpSplit(node_group="g", current_size=2, new_size=2 + found.nodes)
    placed = [(this.snapshot.pod_key(one), "", "g#0") for one, at in zip(found.pods, on, strict=True) if at >= 0]
    return Decided(pb.ScaleUpDecision(splits=[split], places=places_of(sorted(placed))), pb.ScaleUpState())


def summarize(result: pb.ScaleUpDecision) -> Summary:
    return Summary("TESTED", {"splits": len(result.splits)})


def ignore(settings: pb.PlanSettings) -> None:
    del settings


def failed(detail: str) -> pb.ScaleUpDecision:
    return pb.ScaleUpDecision(result=ScaleUpResult.SCALE_UP_ERROR, detail=detail)


def scale_up(upcoming: int, built: list[str]) -> Decision:
    return Decision(DECISION.SCALE_UP, ignore, grow, summarize, ignore, failed, growth(upcoming, built))


def ask(
    table: tuple[Decision, ...],
    work: Work,
    *decisions: "DECISION.Code.ValueType",
    timeout: bool = False,
    state: pb.PlanState | None = None,
    reserve: bool = False,
) -> pb.PlanResponse:
    request = pb.PlanRequest(decisions=decisions)
    request.now.seconds = 1_800_000_000
    request.settings.scale_down.unneeded_time.seconds = 0
    request.settings.planner.reserve_for_pending_pods = reserve
    request.settings.planner.reserve_for_unmarked_pods = reserve
    request.settings.simulation.topology_spread_timeout = timeout
    return plan(canonicalize(snapshot_of(CLUSTER)), request, state, work, table)


def kept() -> tuple[dict[SnapshotKey[Any], Any], Work]:
    cache = KeptValues()
    return cache.values, Work(cache=cache)


@pytest.mark.parametrize("timeout", [False, True])
def test_new_nodes_are_in_the_round_and_scale_down_sees_what_is_on_them(timeout: bool) -> None:
    table = (scale_up(0, []), SCALE_DOWN)
    answer = ask(table, Work(), DECISION.SCALE_UP, DECISION.SCALE_DOWN, timeout=timeout)
    (split,) = answer.scale_up.splits
    assert split.new_size == 5
    assert on_new_nodes(answer.scale_up)["g"] == [f"default/large-{at}" for at in range(3)]
    assert moves_by_node(answer.scale_down.places) == {"n1": {"default/a": "n2"}}


def test_templates_are_read_and_the_simulation_built_once_for_a_snapshot() -> None:
    built: list[str] = []
    objects, work = kept()
    first = ask((scale_up(1, built),), work, DECISION.SCALE_UP)
    names = list(objects)
    again = ask((scale_up(1, built),), work, DECISION.SCALE_UP)
    assert again.SerializeToString(deterministic=True) == first.SerializeToString(deterministic=True)
    assert (built, list(objects)) == (["templates"], names)
    ask((scale_up(2, built),), work, DECISION.SCALE_UP)
    assert built == ["templates"] * 2


def test_without_the_decision_that_grows_a_round_has_no_virtual_nodes() -> None:
    built: list[str] = []
    objects, work = kept()
    table = (scale_up(3, built), SCALE_DOWN)
    answer = ask(table, work, DECISION.SCALE_DOWN)
    assert answer == ask((SCALE_DOWN,), Work(), DECISION.SCALE_DOWN)
    assert built == []
    assert [one.virtual.node_count for name, one in objects.items() if isinstance(name, SimulationKey)] == [0]


def grow_more(this: Round, settings: None, state: pb.SlackState | None) -> Decided:
    """Add a node for one large pod before the other decision does, of the group's template; name the new nodes."""
    del settings, state
    pod = int(find_pods(this.snapshot, ["default/large-0"])[0][0])
    growth, sim = this.growth_of(DECISION.SLACK), this.simulation.state
    node = int(growth.spare_nodes[0])
    assert open_from_template(sim, node, int(growth.template_node[0])) == 0
    assert place(sim, pod, node) == 0
    return Decided(pb.SlackDecision(pushed_out=growth.spare_names[:1]), pb.SlackState())


def no_slack(detail: str) -> pb.SlackDecision:
    return pb.SlackDecision(detail=detail)


@pytest.mark.parametrize("own_templates", [False, True], ids=["same templates", "templates of its own"])
def test_two_decisions_add_nodes_and_each_sees_those_of_the_other(own_templates: bool) -> None:
    built: list[str] = []
    need = growth(1, built)

    def also(snapshot: Snapshot, settings: None, now_ns: int) -> GrowthNeed:
        made = need(snapshot, settings, now_ns)._replace(key="other", spare_nodes=lambda _: 3)
        return made if own_templates else made._replace(templates=lambda _: [None], upcoming=(0,))

    first = Decision(DECISION.SLACK, ignore, grow_more, lambda _: Summary("TESTED", {}), ignore, no_slack, also)
    objects, work = kept()
    table = (first, scale_up(1, built), SCALE_DOWN)
    answer = ask((first, *table[1:]), work, DECISION.SLACK, DECISION.SCALE_UP, DECISION.SCALE_DOWN)
    assert list(answer.slack.pushed_out) == ["new-2"]
    # One of the three large pods is on the first decision's node.
    (split,) = answer.scale_up.splits
    assert (split.new_size, len(answer.scale_up.places.pods)) == (4, 2)
    assert [one.node for one in answer.scale_down.unneeded] == ["n1"]
    assert built == ["templates"] * (1 + own_templates)
    names = list(objects)
    again = ask(table, work, DECISION.SLACK, DECISION.SCALE_UP, DECISION.SCALE_DOWN)
    assert again.SerializeToString(deterministic=True) == answer.SerializeToString(deterministic=True)
    assert (len(built), list(objects)) == (1 + own_templates, names)


def test_blank_nodes_are_shared_out_if_a_cluster_may_not_have_as_many() -> None:
    growth_ = NO_GROWTH.growth._replace(spare_nodes=np.arange(10, 16), spare_names=tuple("abcdef"))
    cases = {(6, 3): ["abcde", "f"], (4, 2): ["abcd", "ef"], (9, 9, 9): ["abcd", "e", "f"], (0, 9): ["", "abcdef"]}
    for wanted, expected in cases.items():
        shares = list(shares_of(growth_, list(wanted)))
        assert ["".join(one.spare_names) for one in shares] == expected
        assert [one.spare_nodes.tolist() for one in shares] == [
            ["abcdef".index(c) + 10 for c in one] for one in expected
        ]


def test_a_second_loop_continues_where_pods_wait_for_new_nodes() -> None:
    table = (scale_up(0, []), SCALE_DOWN)
    first = ask(table, Work(), DECISION.SCALE_UP, DECISION.SCALE_DOWN, reserve=True)
    again = ask(table, Work(), DECISION.SCALE_UP, DECISION.SCALE_DOWN, reserve=True, state=first.state)
    assert again.scale_up == first.scale_up
    assert again.scale_down.unneeded == first.scale_down.unneeded
