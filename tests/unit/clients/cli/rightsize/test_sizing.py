"""Pools by price: the optimum of small problems, limits on pools and nodes, headroom."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import kubernetes as k8s
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.rightsize.empty_cluster import empty_cluster
from trimtab.clients.cli.rightsize.machines import MachineChoice, Profile
from trimtab.clients.cli.rightsize.sizing import Bin, Sizer, Sizing, SizingLimits, least_bins, read_headroom
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.karpenter.offers import MachineOffer, OfferKey, labels_of
from trimtab.planner.cheapest import portfolio

NOW = Timestamp(seconds=1_800_000_000)


class SmallOffer(NamedTuple):
    """A machine: cores, memory in GiB, most pods, and price."""

    cores: int
    memory_gib: int
    pods: int
    price: float


class SmallPod(NamedTuple):
    """A pod: milli-cores, and memory in GiB."""

    cpu_milli: int
    memory_gib: int


def machine(name: str, offer: SmallOffer, zone: str = "z1") -> MachineChoice:
    """Return a machine that offers all that it has."""
    amounts: dict[str, Any] = {
        "cpu": f"{offer.cores}",
        "memory": f"{offer.memory_gib}Gi",
        "pods": f"{offer.pods}",
    }
    key = OfferKey(name, zone, "on-demand")
    return MachineChoice(MachineOffer(key, amounts, amounts, labels_of(key), offer.price), Profile(""))


def sized(
    planner: PlannerClient,
    offers: Sequence[SmallOffer],
    pods: Sequence[SmallPod],
    limits: SizingLimits = SizingLimits(),  # noqa: B008
) -> Sizing:
    """Return the sizing of a problem."""
    objects = [k8s.namespace(), k8s.node("now")]
    objects += [
        k8s.pod(f"p{i}", cpu=f"{one.cpu_milli}m", memory=f"{one.memory_gib}Gi", node="now")
        for i, one in enumerate(pods)
    ]
    empty = empty_cluster(build_snapshot(decode_objects(objects)).snapshot)
    machines = [machine(f"t{i}", one) for i, one in enumerate(offers)]
    return Sizer(planner, empty, machines, limits, NOW).best()


def least_price(offers: Sequence[SmallOffer], pods: Sequence[SmallPod]) -> tuple[int, float]:
    """Return how many pods fit no machine, and the least price for all others: the best partition of the pods into
    nodes. O(3^pods).
    """
    fitting = [pod for pod in pods if any(_fits(offer, [pod]) for offer in offers)]
    count = len(fitting)
    alone = [_node_price(offers, [pod for i, pod in enumerate(fitting) if mask >> i & 1]) for mask in range(1 << count)]
    best = [0.0] * (1 << count)
    for mask in range(1, 1 << count):
        first = mask & -mask
        rest, part, found = mask ^ first, mask ^ first, float("inf")
        while True:
            found = min(found, alone[part | first] + best[rest ^ part])
            if not part:
                break
            part = (part - 1) & rest
        best[mask] = found
    return len(pods) - count, best[-1]


def _node_price(offers: Sequence[SmallOffer], pods: Sequence[SmallPod]) -> float:
    return min((offer.price for offer in offers if _fits(offer, pods)), default=float("inf"))


def _fits(offer: SmallOffer, pods: Sequence[SmallPod]) -> bool:
    return (
        len(pods) <= offer.pods
        and sum(pod.cpu_milli for pod in pods) <= offer.cores * 1000
        and sum(pod.memory_gib for pod in pods) <= offer.memory_gib
    )


PRICE = st.integers(1, 20).map(lambda tenths: tenths / 10)
OFFERS = st.lists(
    st.builds(SmallOffer, st.integers(1, 8), st.integers(1, 16), st.sampled_from([2, 4, 110]), PRICE),
    min_size=1,
    max_size=4,
)
POD = st.builds(SmallPod, st.integers(1, 30).map(lambda n: n * 100), st.integers(1, 5))


@pytest.fixture(scope="module")
def planner() -> Iterator[PlannerClient]:
    """A planner that improves a plan with fewer tries: of a handful of pods most are repeated."""
    with pytest.MonkeyPatch.context() as patched, open_planner(None) as opened:
        patched.setattr(portfolio, "IMPROVEMENT_FILLS", 1000)
        yield opened


@settings(max_examples=4, deadline=None)
@given(offers=OFFERS, pods=st.lists(POD, min_size=1, max_size=7))
def test_pools_of_small_problems_cost_the_least_that_is_possible(
    planner: PlannerClient, offers: list[SmallOffer], pods: list[SmallPod]
) -> None:
    left, price = least_price(offers, pods)
    found = sized(planner, offers, pods)
    assert (len(found.unplaced), found.is_verified) == (left, True)
    assert found.price == pytest.approx(price)


@pytest.mark.nightly
@settings(max_examples=40, deadline=None)
@given(offers=OFFERS, pods=st.lists(POD, min_size=8, max_size=12))
def test_pools_of_twelve_pods_cost_at_most_a_tenth_more_than_the_least_that_is_possible(
    planner: PlannerClient, offers: list[SmallOffer], pods: list[SmallPod]
) -> None:
    left, price = least_price(offers, pods)
    found = sized(planner, offers, pods)
    assert (len(found.unplaced), found.is_verified) == (left, True)
    assert price - 1e-9 <= found.price <= price * 1.1 + 1e-9


@settings(max_examples=50, deadline=None)
@given(offers=OFFERS, pods=st.lists(POD, min_size=1, max_size=7))
def test_few_pods_are_partitioned_for_the_least_price(offers: list[SmallOffer], pods: list[SmallPod]) -> None:
    amounts = [{"cpu": one.cores * 1000, "memory": one.memory_gib, "pods": one.pods} for one in offers]
    bins = [Bin(f"t{i}", one.price, of) for i, (one, of) in enumerate(zip(offers, amounts, strict=True))]
    found = least_bins(bins, [{"cpu": pod.cpu_milli, "memory": pod.memory_gib} for pod in pods])
    left, price = least_price(offers, pods)
    assert (found is None) == (left > 0)
    if found is not None:
        assert sum(offers[int(name[1:])].price * count for name, count in found.items()) == pytest.approx(price)


def test_a_pod_that_fits_no_machine_has_no_partition() -> None:
    bins = [Bin("t0", 1.0, {"cpu": 1000, "memory": 1, "pods": 110})]
    assert least_bins(bins, [{"cpu": 500, "memory": 1}, {"cpu": 500, "memory": 2}]) is None


BIG, SMALL = SmallOffer(8, 32, 110, 1.0), SmallOffer(2, 8, 110, 0.3)
ODD = SmallOffer(2, 16, 110, 0.31)
PODS = [SmallPod(1900, 1)] * 5 + [SmallPod(100, 15)]


def sizes(found: Sizing) -> dict[str, int]:
    return {group.machine.offer.key.instance_type: group.node_count for group in found.groups}


def test_without_limits_pods_of_different_shapes_get_pools_of_their_own(planner: PlannerClient) -> None:
    assert sizes(sized(planner, [BIG, SMALL, ODD], PODS)) == {"t0": 1, "t1": 1}


@pytest.mark.parametrize(("most", "expected"), [(1, {"t2": 5}), (2, {"t0": 1, "t1": 1})])
def test_at_most_so_many_pools(planner: PlannerClient, most: int, expected: dict[str, int]) -> None:
    assert sizes(sized(planner, [BIG, SMALL, ODD], PODS, SizingLimits(max_pools=most))) == expected


def test_a_pool_below_its_least_size_is_given_up_if_that_is_cheaper(planner: PlannerClient) -> None:
    found = sized(planner, [BIG, SMALL, ODD], PODS, SizingLimits(min_nodes=3))
    assert all(count >= 3 for count in sizes(found).values())
    assert sizes(found) == {"t2": 5}


def test_a_pool_has_at_most_so_many_nodes(planner: PlannerClient) -> None:
    found = sized(planner, [BIG, SMALL], [SmallPod(1900, 1)] * 10, SizingLimits(max_nodes=2))
    assert sizes(found) == {"t0": 2, "t1": 2}


def test_headroom_stays_free_on_each_node(planner: PlannerClient) -> None:
    pods = [SmallPod(1000, 1)] * 8
    assert sizes(sized(planner, [BIG], pods)) == {"t0": 1}
    assert sizes(sized(planner, [BIG], pods, SizingLimits(read_headroom("10%")))) == {"t0": 2}
    assert sizes(sized(planner, [BIG], pods, SizingLimits(read_headroom("cpu=500m")))) == {"t0": 2}
    assert sizes(sized(planner, [BIG], pods, SizingLimits(read_headroom("memory=50%")))) == {"t0": 1}


def test_a_pod_that_fits_no_machine_is_said_and_all_others_have_a_place(planner: PlannerClient) -> None:
    found = sized(planner, [SMALL], [SmallPod(1000, 1), SmallPod(9000, 1)])
    assert list(found.unplaced) == ["default/p1"]
    assert "a new node is too small" in found.unplaced["default/p1"]
    assert sizes(found) == {"t0": 1}


@pytest.mark.parametrize("text", ["ten", "100%", "-1%", "cpu=many", "cpu=-1", "=10%", "10"])
def test_headroom_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--headroom"):
        read_headroom(text)


def test_no_headroom_changes_nothing() -> None:
    assert read_headroom(None).left({"cpu": "4", "memory": "8Gi"}) == {"cpu": "4", "memory": "8Gi"}
    assert str(read_headroom(None)) == ""
    assert str(read_headroom("10%")) == "10% of cpu and 10% of memory"
