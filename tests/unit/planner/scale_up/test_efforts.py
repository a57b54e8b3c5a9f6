"""More search never costs more: what BEST plans is no worse than what USUAL does, and that no worse than FIRST."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import (
    Json,
    anti_affinity,
    labelled,
    node,
    node_group,
    pod,
    pod_affinity,
    snapshot_of,
    spread,
)
from tests.builders.scale_up import NOW_S, settings_of
from tests.certificates.scale_up import offences
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.settings import scale_up
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_CPUS = ("100m", "250m", "500m", "1", "1500m")
_MEMORIES = ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")


def diverse_pods(seed: int, most: int = 40, zones: int = 3) -> list[Json]:
    """Return 5 to `most` pods, of each kind about a fifth, and the node groups."""
    random = Random(seed)
    labels = "abcdefg"[: random.randint(1, 7)]
    pods = [_pod(random, number, labels) for number in range(random.randint(5, most))]
    sizes = sorted({*random.sample(range(1, 33), random.randint(1, 6)), 16})
    dearer = [1.0, *(random.choice((1.0, 1.0, 1.02, 1.2)) for _ in range(zones - 1))]
    return [*pods, *(_group(cores, zone, dearer[zone]) for cores in sizes for zone in range(zones))]


def _pod(random: Random, number: int, labels: str) -> Json:
    own, other = random.choice(labels), labelled(app=random.choice(labels))
    kinds: list[dict[str, Any]] = [
        {"labels": {"app": own}},
        {"labels": {"app": own}, "spread": [spread(other, topology_key=ZONE)]},
        {"labels": {"app": own}, "spread": [spread(other, topology_key=HOST)]},
        {"labels": {"with": own}, "affinity": pod_affinity({"matchLabels": {"with": own}}, topology_key=ZONE)},
        {"labels": {"apart": "yes"}, "affinity": anti_affinity(labelled(apart="yes"))},
    ]
    kind = kinds[number % len(kinds)]
    return pod(f"p{number:03}", random.choice(_CPUS), random.choice(_MEMORIES), **kind)


def _group(cores: int, zone: int, dearer: float) -> Json:
    template = node("t", f"{cores * 1000 - 100}m", f"{cores * 2048 - 10}Mi", zone=f"zone-{zone}")
    price = round(0.315 * cores * dearer, 4)
    return node_group(f"it-{cores}-{zone}", 0, 1000, target=0, nodes=[], price=price, template=template)


ROUNDING = 1e-9


def left_and_price(message: snapshot_pb2.ClusterSnapshot, snapshot: Snapshot, effort: str) -> tuple[int, float]:
    """Return how many pods a plan leaves, and its price. The certificate is asked for everything but an order of
    arrival: it does not find one for all such pods."""
    settings = settings_of({"searchEffort": effort, "spreadOverNewDomains": True})
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], settings=settings)
    request.now.seconds = NOW_S
    found = plan(snapshot, request, None, Work()).scale_up
    assert offences(message, settings, found, NOW_S, ordered=False) == []
    return len(found.unschedulable), found.price_per_hour


@given(st.integers(0, 2**48))
@examples(1000, most=2)
def test_more_effort_leaves_no_more_pods_and_costs_no_more(seed: int) -> None:
    message = snapshot_of(*diverse_pods(seed))
    snapshot, most = canonicalize(message), (1 << 30, 0.0)
    for effort in ("FIRST", "USUAL", "BEST"):
        left, price = left_and_price(message, snapshot, effort)
        assert (left, price - ROUNDING) <= most, effort
        most = left, price


@pytest.mark.parametrize("begins_with", [None, scale_up.USUAL], ids=["without it", "with it"])
def test_the_plan_by_which_a_search_begins_stays_if_the_rest_finds_a_dearer_one(
    begins_with: scale_up.SearchBudgets | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with pods whose affinity and spread a plan that is cheaper in numbers does not know: here the rest of the
    search looks at one group only."""
    message = snapshot_of(*diverse_pods(7))
    snapshot = canonicalize(message)
    usual = left_and_price(message, snapshot, "USUAL")
    rest = replace(scale_up.FIRST, detailed_groups=1, packed_groups=1, begins_with=begins_with)
    monkeypatch.setitem(scale_up._BUDGETS, plan_pb2.SearchEffort.BEST, rest)
    found = left_and_price(message, snapshot, "BEST")
    assert found == usual if begins_with else found > usual
