"""Estimated resources of nodes of an unseen type, compared with published facts about instance types."""

from collections.abc import Sequence

import pytest

from tests.builders.instance_types import AWS, MIB, NODES, aws_machine, aws_seen, real_machine, real_seen
from trimtab.actuator.cloud.provider import MachineType, Reservation
from trimtab.actuator.node_types.estimate import Estimator, Offer, family_of
from trimtab.actuator.tracker.states import NodeAmounts, SeenType

GIB = 1 << 30


def errors(offer: Offer, seen: SeenType) -> tuple[float, float]:
    """Return the relative errors of cpu and memory for pods, compared with real nodes."""
    pairs = (
        (offer.allocatable.cpu_milli, seen.allocatable.cpu_milli),
        (offer.allocatable.memory_bytes, seen.allocatable.memory_bytes),
    )
    cpu, memory = (abs(estimated - real) / real for estimated, real in pairs)
    return cpu, memory


def worst(held_out: str, others: Sequence[str]) -> float:
    """Return the larger error for an AWS type after nodes of the others were seen."""
    estimator = Estimator([aws_seen(name) for name in others])
    return max(errors(estimator.offer("other", aws_machine(held_out)), aws_seen(held_out)))


@pytest.mark.parametrize("family", AWS)
def test_each_held_out_size_of_a_family_is_predicted_within_three_percent(family: str) -> None:
    names = [f"{family}.{size}" for size in AWS[family]]
    found = {name: worst(name, [other for other in names if other != name]) for name in names}
    assert {name: error for name, error in found.items() if error > 0.03} == {}


@pytest.mark.parametrize("family", AWS)
def test_two_sizes_of_a_family_are_enough_for_all_others(family: str) -> None:
    names = [f"{family}.{size}" for size in AWS[family]]
    found = {name: worst(name, [names[0], names[2]]) for name in names}
    assert {name: error for name, error in found.items() if error > 0.03} == {}


def test_nodes_of_other_families_do_no_harm_to_a_family_that_was_seen() -> None:
    names = [f"{family}.{size}" for family, sizes in AWS.items() for size in sizes]
    found = {name: worst(name, [other for other in names if other != name]) for name in names}
    assert {name: error for name, error in found.items() if error > 0.03} == {}


@pytest.mark.parametrize(
    ("observed", "held_out"),
    [
        (["n2-highmem-4", "n2-highmem-32"], ["n2-highmem-16", "n2-standard-16", "n2-standard-64", "n1-highmem-4"]),
        (["r5.xlarge", "r5.4xlarge"], ["r5.16xlarge", "r7i.xlarge", "r7i.4xlarge"]),
        (["r7i.xlarge"], ["r7i.4xlarge"]),
    ],
    ids=["Google", "AWS", "one node"],
)
def test_nodes_in_use_are_predicted_by_a_rule_that_is_not_named(observed: list[str], held_out: list[str]) -> None:
    estimator = Estimator([real_seen(name) for name in observed])
    found = {name: max(errors(estimator.offer("other", real_machine(name)), real_seen(name))) for name in held_out}
    assert {name: error for name, error in found.items() if error > 0.01} == {}


def test_the_facts_of_both_sources_agree() -> None:
    for name in ("r5.xlarge", "r5.4xlarge", "r5.16xlarge"):
        measured, in_use = aws_seen(name).allocatable, real_seen(name).allocatable
        assert measured.cpu_milli == in_use.cpu_milli
        assert abs(measured.memory_bytes - in_use.memory_bytes) < 0.01 * in_use.memory_bytes
    assert len(NODES) > 5


def test_without_any_node_the_rule_of_the_cloud_counts() -> None:
    (offer,) = [Estimator([]).offer("g", aws_machine("m5.large"))]
    # 2 vCPU, 8 GiB less 7.5 %, 29 pods: 70 m and 255 + 11 · 29 MiB are reserved, and 100 MiB for eviction.
    whole = int(8 * GIB * 0.925)
    assert offer == Offer(NodeAmounts(2000, whole, 29), NodeAmounts(1930, whole - 674 * MIB, 29))
    plain = MachineType("", 4000, 16 * GIB, 0, Reservation.KUBELET)
    assert Estimator([]).offer("g", plain).allocatable == NodeAmounts(4000, 16 * GIB - 100 * MIB, 0)
    stated = plain._replace(reservation=Reservation.NONE)
    assert Estimator([]).offer("g", stated).allocatable == NodeAmounts(4000, 16 * GIB, 0)


def test_without_any_node_the_rule_is_within_seven_percent_of_nodes_of_eks() -> None:
    names = [f"{family}.{size}" for family, sizes in AWS.items() for size in sizes]
    assert {name: error for name in names if (error := worst(name, [])) > 0.07} == {}
    # Nodes of c5.large lack more than those of any other type.
    offers = {name: Estimator([]).offer("g", aws_machine(name)).allocatable.memory_bytes for name in names}
    assert [name for name in names if offers[name] > aws_seen(name).allocatable.memory_bytes] == ["c5.large"]


def test_what_nodes_show_wins_over_estimates_first_of_their_own_group() -> None:
    own, other = aws_seen("m5.large", "g"), aws_seen("m5.large", "h")
    less = SeenType("h", "m5.large", other.nominal, other.capacity, NodeAmounts(1500, 4 * GIB, 20))
    estimator = Estimator([own, less])
    assert estimator.offer("g", aws_machine("m5.large")) == Offer(own.capacity, own.allocatable)
    assert estimator.offer("h", aws_machine("m5.large")).allocatable == less.allocatable
    # The smaller amount of two groups: a third one may be like either of them.
    assert estimator.offer("new", aws_machine("m5.large")).allocatable == less.allocatable


def test_a_machine_that_the_cloud_describes_otherwise_by_now_is_another_one() -> None:
    seen = aws_seen("m5.large")
    larger = aws_machine("m5.large")._replace(memory_bytes=16 * GIB)
    assert Estimator([seen]).offer("g", larger).allocatable.memory_bytes > 13 * GIB


def test_what_nodes_reserve_by_no_published_rule_is_fitted() -> None:
    def seen(gib: int) -> SeenType:
        whole = NodeAmounts(gib * 500, gib * GIB, 110)
        # 2 GiB and 5 % of the memory, 300 m and 2 % of the cores.
        left = NodeAmounts(int(whole.cpu_milli * 0.98) - 300, int(whole.memory_bytes * 0.95) - 2 * GIB, 110)
        return SeenType("g", f"own-{gib}", whole, whole, left)

    estimator = Estimator([seen(gib) for gib in (8, 16, 64)])
    for gib in (12, 32, 128):
        machine = MachineType(f"own-{gib}", gib * 500, gib * GIB, 110)
        assert max(errors(estimator.offer("g", machine), seen(gib))) < 0.03


@pytest.mark.parametrize(
    ("shown", "given", "expected"),
    [
        ([(29, 29), (58, 58)], 234, 110),
        ([(29, 29), (234, 234)], 737, 737),
        ([(110, 29), (110, 58)], 20, 110),
        ([], 737, 110),
        ([(29, 29)], 0, 0),
    ],
    ids=["up to 110", "by addresses", "the same everywhere", "none seen", "not known"],
)
def test_the_number_of_pods_is_as_nodes_show_it(shown: list[tuple[int, int]], given: int, expected: int) -> None:
    seen = [
        SeenType("g", f"t-{at}", NodeAmounts(2000, GIB, addresses), *[NodeAmounts(2000, GIB, pods)] * 2)
        for at, (pods, addresses) in enumerate(shown)
    ]
    offer = Estimator(seen).offer("g", MachineType("t-new", 4000, 2 * GIB, given))
    assert (offer.capacity.pods, offer.allocatable.pods) == (expected, expected)


def test_no_offer_is_below_nothing_or_above_the_node() -> None:
    greedy = SeenType("g", "t-1", NodeAmounts(4000, 8 * GIB), NodeAmounts(4000, 8 * GIB), NodeAmounts(100, GIB))
    tiny = Estimator([greedy]).offer("g", MachineType("t-0", 1000, GIB))
    assert tiny.allocatable == NodeAmounts(0, 0, 0)
    generous = SeenType("g", "t-1", NodeAmounts(4000, 8 * GIB), NodeAmounts(4000, 8 * GIB), NodeAmounts(4000, 8 * GIB))
    same = Estimator([generous]).offer("g", MachineType("t-0", 1000, GIB))
    assert same.allocatable == same.capacity == NodeAmounts(1000, GIB, 0)


@pytest.mark.parametrize(
    ("name", "family"), [("m5.large", "m5"), ("n2-highmem-4", "n2-highmem"), ("Standard_D4s_v5", "Standard_D4s_v5")]
)
def test_a_family_is_the_type_without_its_size(name: str, family: str) -> None:
    assert family_of(name) == family
