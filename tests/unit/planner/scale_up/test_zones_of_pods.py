"""Zones of pods that zones bind are chosen together, so that they fill nodes that are opened for others."""

from collections import Counter

import pytest

from tests.builders.kubernetes import Json, anti_affinity, labelled, node, node_group, pod, pod_affinity, spread
from tests.builders.scale_up import Outcome, plan
from trimtab.planner.scale_up import draft

ZONE = "topology.kubernetes.io/zone"


def groups(prices: dict[str, float]) -> list[Json]:
    """Return groups of nodes of two cores, one in each zone."""
    return [
        node_group(f"g-{zone}", 0, 50, target=0, nodes=[], price=price, template=node("t", "2", "8Gi", zone=zone))
        for zone, price in prices.items()
    ]


def apart(count: int) -> list[Json]:
    """Return pods that get a node each, which has room for one core more."""
    keep = anti_affinity(labelled(app="apart"))
    return [pod(f"apart-{at}", "1", "1Gi", labels={"app": "apart"}, affinity=keep) for at in range(count)]


def crossed(count: int) -> list[Json]:
    """Return pods of two applications of which each spreads over zones by where the other's pods are."""
    return [
        pod(f"{own}-{at}", "1", "1Gi", labels={"app": own}, spread=[spread(labelled(app=other), topology_key=ZONE)])
        for own, other in (("one", "two"), ("two", "one"))
        for at in range(count)
    ]


def zones(found: Outcome, app: str) -> Counter[str]:
    """Return how many pods of an application each zone gets."""
    return Counter({group: sum(app in name for name in pods) for group, pods in found.on_new.items()})


def without_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no zones be chosen beforehand."""
    monkeypatch.setattr(draft, "bound_by_zones", lambda state: state.local_class > 2)


SETTINGS = {"expanders": ["CHEAPEST_PLAN"], "searchEffort": "FIRST", "spreadOverNewDomains": True}


def test_pods_that_spread_by_others_labels_fill_the_nodes_of_pods_that_keep_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = [*groups({"a": 1.0, "b": 1.0, "c": 1.0}), *apart(12), *crossed(6)]
    found = plan(*objects, settings=SETTINGS)
    assert sum(found.growth.values()) == 12
    assert found.decision.price_per_hour == 12.0
    without_zones(monkeypatch)
    assert plan(*objects, settings=SETTINGS).decision.price_per_hour > 12.0


def test_pods_that_have_to_be_in_one_zone_are_in_the_cheapest_whose_nodes_take_them_all() -> None:
    beside = pod_affinity(labelled(app="team"), topology_key=ZONE)
    team = [pod(f"team-{at}", "1", "1Gi", labels={"app": "team"}, affinity=beside) for at in range(4)]
    found = plan(*groups({"a": 1.2, "b": 1.0, "c": 1.1}), *apart(6), *crossed(3), *team, settings=SETTINGS)
    assert [zone for zone, count in zones(found, "team").items() if count] == ["g-b"]
    assert not found.decision.unschedulable
