"""Zones that node groups could open count for topology spread, if settings say so; plans stay legal without them (each
is proven by the certificate, before and after its nodes register)."""

from collections import Counter

import pytest

from tests.builders.kubernetes import Json, labelled, node, node_group, pod, replica_set, spread
from tests.builders.scale_up import Outcome, plan

ZONE = "topology.kubernetes.io/zone"
WEB = replica_set("web", 200)
OVER_NEW = {"spreadOverNewDomains": True}
EVEN = [spread(labelled(app="web"), topology_key=ZONE)]


def in_zones(count: int, most: int = 50, zones: str = "abc") -> list[Json]:
    """Return groups at size 0 in each zone, and pods that spread over zones."""
    groups = [
        node_group(f"g-{zone}", 0, most, target=0, nodes=[], price=1.0, template=node("", "8", "32Gi", zone=zone))
        for zone in zones
    ]
    pods = [pod(f"p{number:03}", "1", "1Gi", owner=WEB, labels={"app": "web"}, spread=EVEN) for number in range(count)]
    return [WEB, *groups, *pods]


def by_group(found: Outcome) -> dict[str, int]:
    return {group: len(pods) for group, pods in found.on_new.items()}


def test_pods_spread_over_zones_of_an_empty_cluster_get_nodes_in_all_three() -> None:
    for settings in ({}, {"expanders": ["LEAST_WASTE"]}, {"searchEffort": "FIRST"}):
        found = plan(in_zones(200), settings=settings | OVER_NEW)
        assert sorted(by_group(found).values()) == [66, 67, 67]
        assert not found.decision.unschedulable


def test_they_go_to_one_zone_where_the_setting_says_so() -> None:
    found = plan(in_zones(200))
    assert sorted(by_group(found).values()) == [200]
    (note,) = [one for one in found.answer.summary.notes if "minDomains" in one]
    assert ZONE in note
    assert "not over a, b, c" in note
    assert not any("minDomains" in one for one in plan(in_zones(200), settings=OVER_NEW).answer.summary.notes)


@pytest.mark.parametrize(("least", "zones"), [(1, 1), (2, 2), (3, 3)])
def test_they_get_nodes_in_as_many_zones_as_their_constraint_asks_for(least: int, zones: int) -> None:
    asked = [{**EVEN[0], "minDomains": least}]
    pods = [pod(f"p{i}", "1", "1Gi", owner=WEB, labels={"app": "web"}, spread=asked) for i in range(6)]
    assert len(by_group(plan([*in_zones(0), *pods]))) == zones


def test_a_zone_with_nodes_does_not_keep_the_pods_to_itself() -> None:
    objects = [*in_zones(9, zones="bc"), node("there", "64", "64Gi", zone="a")]
    found = plan(objects, settings=OVER_NEW)
    assert sorted(by_group(found).values()) == [3, 3]
    assert len(found.on_existing) == 3


def test_a_zone_that_cannot_grow_enough_leaves_no_pod_pending_that_others_could_take() -> None:
    objects = in_zones(60, most=1)
    found = plan(
        [*objects, node_group("more-a", 0, 50, target=0, nodes=[], price=1.0, template=node("", "64", zone="a"))],
        settings=OVER_NEW,
    )
    legal = plan(
        [*objects, node_group("more-a", 0, 50, target=0, nodes=[], price=1.0, template=node("", "64", zone="a"))],
    )
    assert len(found.decision.unschedulable) <= len(legal.decision.unschedulable)


def test_new_nodes_are_opened_in_zones_by_need() -> None:
    found = plan(in_zones(12), settings=OVER_NEW)
    zones = Counter({group: len(pods) for group, pods in found.on_new.items()})
    assert max(zones.values()) - min(zones.values()) <= 1
