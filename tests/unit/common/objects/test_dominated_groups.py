"""Node groups that others replace are left out, and the cheapest plan costs the same without them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from tests.builders.replaceable_groups import cluster, group
from trimtab.clients.cli.planners import open_planner
from trimtab.common.objects.dominated_groups import leave_out_dominated
from trimtab.v1 import plan_pb2

Group = tuple[str, str, str, str, float]
"""Cores, memory in Gi, zone, taint, and price."""


def remaining(*objects: dict[str, object], limits: tuple[str, ...] = ()) -> list[str]:
    snapshot, asked = cluster(*objects), plan_pb2.PlanSettings()
    for resource in limits:
        asked.planner.limits.add(resource=resource, maximum=1_000_000)
    count = len(snapshot.node_groups)
    dropped = leave_out_dominated(snapshot, asked)
    assert dropped == count - len(snapshot.node_groups)
    return [one.id for one in snapshot.node_groups]


SMALL, LARGE = group("small", "4", "16Gi", 0.2), group("large", "8", "32Gi", 0.2)


@pytest.mark.parametrize(
    ("objects", "kept"),
    [
        ((SMALL, LARGE), ["large"]),
        ((group("a", "4", "16Gi", 0.2), group("b", "4", "16Gi", 0.2)), ["a"]),
        ((SMALL, group("dear", "8", "32Gi", 0.3)), ["dear", "small"]),
        ((SMALL, group("lean", "8", "8Gi", 0.1)), ["lean", "small"]),
        ((SMALL, group("unknown", "8", "32Gi", None)), ["small", "unknown"]),
        ((SMALL, group("tainted", "8", "32Gi", 0.1, taints=["a=b:NoSchedule"])), ["small", "tainted"]),
        ((SMALL, group("few", "8", "32Gi", 0.1, max_size=999)), ["few", "small"]),
        ((group("used", "4", "16Gi", 0.2, nodes=["n1"]), LARGE, k8s.node("n1")), ["large", "used"]),
        ((group("wanted", "4", "16Gi", 0.2, target=1), LARGE), ["large", "wanted"]),
        ((group("least", "4", "16Gi", 0.2, min_size=1, target=1), LARGE), ["large", "least"]),
        ((group("z1", "4", "16Gi", 0.2, zone="z1"), group("z2", "4", "16Gi", 0.1, zone="z2")), ["z2"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_a_group_is_left_out_if_another_replaces_it(objects: tuple[dict[str, object], ...], kept: list[str]) -> None:
    assert remaining(*objects) == kept


def test_groups_that_a_pod_tells_apart_by_a_label_stay() -> None:
    zones = group("z1", "4", "16Gi", 0.2, zone="z1"), group("z2", "4", "16Gi", 0.1, zone="z2")
    spread = k8s.pod("p", spec={"topologySpreadConstraints": [k8s.spread(topology_key="topology.kubernetes.io/zone")]})
    assert remaining(*zones, spread) == ["z1", "z2"]
    assert remaining(*zones, k8s.pod("p", node_selector={"topology.kubernetes.io/zone": "z1"})) == ["z1", "z2"]


def test_a_limited_resource_must_be_the_same() -> None:
    assert remaining(SMALL, LARGE, limits=("cpu",)) == ["large", "small"]
    assert remaining(SMALL, group("more", "4", "32Gi", 0.2), limits=("cpu",)) == ["more"]


_GROUPS = st.lists(
    st.tuples(
        st.sampled_from("1248"), st.sampled_from("248"), st.sampled_from(["", "z1", "z2"]),
        st.sampled_from(["", "only=a:NoSchedule"]), st.sampled_from([0.1, 0.2, 0.3, 0.5]),
    ),
    min_size=2, max_size=8,
)  # fmt: skip
_PODS = st.lists(
    st.tuples(st.sampled_from(["500m", "1", "3"]), st.sampled_from(["1Gi", "3Gi"]), st.sampled_from(["", "z1"])),
    min_size=1, max_size=6,
)  # fmt: skip


@pytest.mark.ci
@settings(max_examples=15, deadline=None)
@given(groups=_GROUPS, pods=_PODS)
def test_the_cheapest_plan_costs_the_same_without_them(groups: list[Group], pods: list[tuple[str, str, str]]) -> None:
    objects = [
        group(f"g{i}", cpu, f"{memory}Gi", price, zone=zone, taints=[taint] if taint else [])
        for i, (cpu, memory, zone, taint, price) in enumerate(groups)
    ]
    objects += [
        k8s.pod(f"p{i}", cpu=cpu, memory=memory, node_selector={"topology.kubernetes.io/zone": zone} if zone else None)
        for i, (cpu, memory, zone) in enumerate(pods)
    ]
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], now={"seconds": 1_800_000_000})
    request.settings.scale_up.expanders.append(plan_pb2.Expander.CHEAPEST_PLAN)
    request.settings.search_effort = plan_pb2.SearchEffort.BEST
    whole, fewer = cluster(*objects), cluster(*objects)
    leave_out_dominated(fewer, request.settings)
    with open_planner(None) as planner:
        before, after = (planner.plan(snapshot, request).scale_up for snapshot in (whole, fewer))
    assert after.price_per_hour == pytest.approx(before.price_per_hour)
    assert len(after.unschedulable) == len(before.unschedulable)
