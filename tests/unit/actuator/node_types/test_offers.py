"""Templates of groups with what nodes really have."""

from actuator.cloud.provider import MachineType, NodeTemplate, Reservation
from actuator.node_types.offers import Offers
from actuator.tracker.states import NodeAmounts, SeenType
from tests.builders.instance_types import aws_machine, aws_seen, nominal

GIB = 1 << 30
KIB = 1 << 10


def template(*machines: MachineType, **declared: str) -> NodeTemplate:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "29", "nvidia.com/gpu": "1"} | declared
    return NodeTemplate({"pool": "a"}, (), amounts, amounts, machines=machines, declared=frozenset(declared))


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


def test_an_answer_is_made_anew_when_nodes_or_the_template_change_and_only_then() -> None:
    offers, given = Offers(), template(aws_machine("m5.large"))
    none, seen = (), (aws_seen("m5.large"),)
    first = offers.of("g", given, none)
    assert offers.of("g", given, none) is first
    second = offers.of("g", given, seen)
    assert second != first
    assert offers.of("g", given._replace(labels={"pool": "b"}), seen).labels == {"pool": "b"}
