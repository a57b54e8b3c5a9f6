"""Clusters without nodes, such as one whose groups are all at zero: every decision answers, with and without groups."""

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_clusters import clusters
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.places import on_existing, on_new_nodes
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import Owner, PodRequirements
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

ALL = (pb.Decision.SLACK, pb.Decision.SCALE_UP, pb.Decision.SCALE_DOWN, pb.Decision.POD_COSTS)
S = pb.PodCostStrategy
NEEDED = {S.BALANCE_DOMAINS: {"topologyKey": "zone"}, S.IDLE: {"annotation": "idle"}}
NEEDED[S.ACCUMULATED_WORK] = NEEDED[S.IDLE]
STRATEGIES = sorted(set(S.Code.values()) - {S.UNSPECIFIED})
AMOUNTS = {"cpu": 4000, "memory": 1 << 34, "pods": 110}


def slack(strategy: str, **more: Any) -> dict[str, Any]:
    """Settings with a floor, which asks for room where there is no capacity."""
    return {"strategy": strategy, "resources": {"cpu": {"floor": 4000}, "nvidia.com/gpu": {"floor": 1}}, **more}


POOLS = {"pools": [{"name": "p", "nodeGroups": ["g1"]}, {"name": "q", "topologyKey": "zone"}, {"name": "r"}]}
SLACK = st.sampled_from([
    slack(strategy, **more)
    for strategy in ("EQUAL", "LARGEST_POD", "LARGEST_BY_RESOURCE")
    for more in ({}, {"extraCapacityMinRate": 0.5}, POOLS)
])  # fmt: skip
SCALE_UP = st.fixed_dictionaries({
    "expanders": st.sampled_from([["PRICE"], ["CHEAPEST_PLAN"], ["LEAST_WASTE"], []]),
    "forceDaemonsets": st.booleans(),
    "templateSource": st.sampled_from(["PREFER_TEMPLATE", "PREFER_NODE"]),
})  # fmt: skip
SCALE_DOWN = st.fixed_dictionaries({
    "ignoreDaemonsetsUtilization": st.booleans(),
    "objective": st.sampled_from(["UNSPECIFIED", "COUNT", "MONEY"]),
})  # fmt: skip


def answer(given_: Cluster, settings: dict[str, Any], state: pb.PlanState | None = None, *only: int) -> pb.PlanResponse:
    """Take all decisions, or some."""
    request = pb.PlanRequest(decisions=only or ALL)  # type: ignore[arg-type]
    request.now.seconds = 1_800_000_000
    ParseDict(settings, request.settings)
    return plan(canonicalize(write(given_)), request, state, Work())


def costs(*strategies: int) -> dict[str, Any]:
    """Settings that rank the pods of every controller."""
    return {
        "targets": [
            {"strategies": [{"strategy": S.Code.Name(one), **NEEDED.get(one, {})} for one in strategies]}  # type: ignore[arg-type]
        ]
    }


def orphans(group: Group | None = None, phase: int = 2) -> Cluster:
    """Return pods of one controller on nodes that are gone, and pending ones."""
    rows = {
        ("default", f"p{i}"): PodRow(uid=f"u{i}", spec=spec(), node=f"gone-{i}", owner="o", phase=phase)
        for i in range(3)
    }
    rows |= {("default", f"q{i}"): PodRow(uid=f"v{i}", spec=spec(), owner="o", phase=1, flags=32) for i in range(2)}
    owner = Owner("o", "ReplicaSet", "web", "default", 5, 5, "apps/v1")
    return Cluster(pods=rows, owners={"o": owner}, groups={} if group is None else {"g": group})


def spec() -> PodRequirements:
    return PodRequirements(requests=(("cpu", 1500), ("memory", 1 << 30)))


AT_ZERO = Group(0, 10, 0, NodeRow(allocatable=AMOUNTS), 1.0)


@given(clusters(), st.booleans(), SLACK, SCALE_UP, SCALE_DOWN, st.sampled_from(STRATEGIES))
@example(orphans(), False, slack("LARGEST_POD"), {}, {}, S.NODE_COST)
@example(orphans(AT_ZERO), True, slack("LARGEST_BY_RESOURCE", **POOLS), {}, {}, S.BALANCE_DOMAINS)
@examples(80, 8)
def test_every_decision_answers_for_any_cluster_without_nodes_and_again_with_its_state(
    drawn: Cluster, has_groups: bool, slack_: Any, scale_up: Any, scale_down: Any, strategy: int
) -> None:
    settings = {"slack": slack_, "scaleUp": scale_up, "scaleDown": scale_down, "podCosts": costs(strategy)}
    settings |= {"nodeGroups": {"g1": {"ignoreDaemonsetsUtilization": True}}}
    before = answer(drawn, settings)
    empty = replace(drawn, nodes={}, groups=drawn.groups if has_groups else {})
    first = answer(empty, settings)
    again = answer(empty, settings, first.state)
    # The nodes of the last loop are gone all at once.
    since = answer(empty, settings, before.state)
    for one in (first, again, since):
        assert not one.scale_down.unneeded
        assert not one.nodes
        assert not on_existing(one.scale_up)
        assert not any(placeholder.node for placeholder in one.slack.placeholders)
        assert has_groups or not one.scale_up.splits


@pytest.mark.parametrize("strategy", STRATEGIES, ids=S.Code.Name)
def test_pods_on_nodes_that_are_gone_are_not_ranked_by_node(strategy: int) -> None:
    found = answer(orphans(), {"podCosts": costs(strategy)}, None, pb.Decision.SCALE_DOWN, pb.Decision.POD_COSTS)
    (group,) = found.pod_costs.groups
    by_node = {S.BALANCE_DOMAINS, S.UNTOLERATED_TAINTS, S.PREFER_NO_SCHEDULE_NODES, S.NODE_DRAIN, S.NODE_COST}
    if strategy in by_node:
        assert not group.complete
        assert "is on no node of the snapshot" in group.detail


@pytest.mark.parametrize("strategy", ["EQUAL", "LARGEST_POD", "LARGEST_BY_RESOURCE"])
def test_the_floor_of_slack_and_pending_pods_grow_a_group_from_zero(strategy: str) -> None:
    settings = {"slack": slack(strategy, pools=[{"name": "all"}])}
    found = answer(orphans(AT_ZERO), settings, None, pb.Decision.SLACK, pb.Decision.SCALE_UP)
    (split,) = found.scale_up.splits
    assert split.current_size == 0
    assert {"default/q0", "default/q1"} <= set(on_new_nodes(found.scale_up)[split.node_group])
    assert {one.name for one in found.slack.placeholders} <= set(on_new_nodes(found.scale_up)[split.node_group])
    without = answer(orphans(), settings, None, pb.Decision.SLACK, pb.Decision.SCALE_UP)
    assert [pod for one in without.scale_up.unschedulable for pod in one.pods] == ["default/q0", "default/q1"]
    assert without.scale_up.unschedulable[0].detail == "there is no node group"
