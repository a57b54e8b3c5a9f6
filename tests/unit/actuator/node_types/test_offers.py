"""Templates of groups with the resources of real nodes."""

import pytest
from msgspec.structs import replace

from tests.builders.instance_types import aws_machine, aws_seen, nominal
from trimtab.actuator.cloud.provider import CloudNodeTemplate, MachineType, Reservation
from trimtab.actuator.node_types.learned_resources import Offers
from trimtab.actuator.tracker.states import NodeAmounts, SeenType

GIB = 1 << 30
KIB = 1 << 10


def template(*machines: MachineType, **declared: str) -> CloudNodeTemplate:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "29", "nvidia.com/gpu": "1"} | declared
    return CloudNodeTemplate({"pool": "a"}, (), amounts, amounts, machines=machines, declared=frozenset(declared))


def test_a_template_of_nodes_stands_as_it_is() -> None:
    given = template()
    assert Offers().of("g", given, (aws_seen("m5.large"),)) is given


def test_amounts_are_those_of_nodes_and_everything_else_stays() -> None:
    seen = aws_seen("m5.large")
    found = Offers().of("g", template(aws_machine("m5.large")), (seen,))
    assert found.capacity == {
        "cpu": "2",
        "memory": f"{seen.capacity.memory_bytes // KIB}Ki",
        "pods": "29",
        "nvidia.com/gpu": "1",
    }
    assert found.allocatable == {
        "cpu": "1930m",
        "memory": f"{seen.allocatable.memory_bytes // KIB}Ki",
        "pods": "29",
        "nvidia.com/gpu": "1",
    }
    assert found.labels == {"pool": "a"}


def test_of_several_machines_each_amount_is_the_least() -> None:
    many_cores, much_memory = aws_machine("c5.xlarge"), aws_machine("r5.large")
    seen = (aws_seen("c5.xlarge"), aws_seen("r5.large"))
    found = Offers().of("g", template(many_cores, much_memory), seen)
    assert found.allocatable["cpu"] == "1930m"
    assert found.allocatable["memory"] == f"{seen[0].allocatable.memory_bytes // KIB}Ki"
    assert found.allocatable["pods"] == "29"


def test_what_is_declared_for_nodes_stands() -> None:
    given = template(aws_machine("m5.large"), memory="6500Mi", pods="20")
    found = Offers().of("g", given, (aws_seen("m5.large"),))
    assert (found.allocatable["memory"], found.capacity["memory"], found.allocatable["pods"]) == (
        "6500Mi",
        "6500Mi",
        "20",
    )
    assert found.allocatable["cpu"] == "1930m"


def test_a_provider_s_amounts_stand_until_a_node_shows_otherwise() -> None:
    machine = MachineType("x-1", 2000, 8 * GIB, 29, Reservation.NONE)
    offers = Offers()
    assert offers.of("g", template(machine), ()).allocatable["memory"] == f"{8 * GIB // KIB}Ki"
    less = NodeAmounts(2000, 7 * GIB, 29)
    seen = (SeenType("g", "x-1", nominal(machine), less, less),)
    assert offers.of("g", template(machine), seen).allocatable["memory"] == f"{7 * GIB // KIB}Ki"


def showing(kind: str, group: str = "g", **others: int) -> SeenType:
    seen = aws_seen(kind)
    named = tuple(sorted(({"disk": "ephemeral-storage", "gpu": "nvidia.com/gpu"}[key], n) for key, n in others.items()))
    capacity, allocatable = (replace(one, others=named) for one in (seen.capacity, seen.allocatable))
    return replace(seen, node_group=group, capacity=capacity, allocatable=allocatable)


@pytest.mark.parametrize(
    ("seen", "disk", "gpus"),
    [
        ([showing("m5.large", disk=20 * GIB)], f"{20 << 20}Ki", "1"),
        ([showing("m5.large", disk=20 * GIB, gpu=4)], f"{20 << 20}Ki", "4"),
        ([showing("m5.large", disk=1000, gpu=0)], "1000", None),
        ([showing("m5.large", "h", disk=20 * GIB, gpu=4)], None, "1"),
        ([showing("m5.large", "h", disk=20 * GIB), showing("m5.large", disk=8 * GIB)], f"{8 << 20}Ki", "1"),
    ],
    ids=["a disk", "devices", "no device in spite of the cloud", "another group", "both groups"],
)
def test_disk_and_devices_are_what_nodes_of_the_same_group_show(
    seen: list[SeenType], disk: str | None, gpus: str | None
) -> None:
    found = Offers().of("g", template(aws_machine("m5.large")), tuple(seen))
    for amounts in (found.capacity, found.allocatable):
        assert (amounts.get("ephemeral-storage"), amounts.get("nvidia.com/gpu")) == (disk, gpus)


def test_of_several_machines_a_device_counts_that_all_have_and_the_least_disk_that_any_shows() -> None:
    machines = [aws_machine(kind) for kind in ("m5.large", "m5.xlarge", "m5.2xlarge")]
    seen = (showing("m5.large", disk=40 * GIB, gpu=4), showing("m5.xlarge", disk=30 * GIB, gpu=2))
    plain = template(*machines)
    given = plain._replace(capacity={**plain.capacity, "nvidia.com/gpu": "3"}, allocatable=plain.allocatable)
    found = Offers().of("g", given, seen)
    assert (found.capacity["ephemeral-storage"], found.capacity["nvidia.com/gpu"]) == (f"{30 << 20}Ki", "2")
    assert found.allocatable["nvidia.com/gpu"] == "1", "the cloud's word for the type that was not seen"
    without = template(*machines)._replace(capacity={"cpu": "2"}, allocatable={"cpu": "2"})
    assert "nvidia.com/gpu" not in Offers().of("g", without, seen).allocatable
    declared = template(*machines, **{"nvidia.com/gpu": "1", "ephemeral-storage": "5Gi"})
    stands = Offers().of("g", declared, seen).allocatable
    assert (stands["nvidia.com/gpu"], stands["ephemeral-storage"]) == ("1", "5Gi")


def test_an_answer_is_made_again_when_nodes_or_the_template_change_and_only_then() -> None:
    offers, given = Offers(), template(aws_machine("m5.large"))
    none, seen = (), (aws_seen("m5.large"),)
    first = offers.of("g", given, none)
    assert offers.of("g", given, none) is first
    second = offers.of("g", given, seen)
    assert second != first
    assert offers.of("g", given._replace(labels={"pool": "b"}), seen).labels == {"pool": "b"}
