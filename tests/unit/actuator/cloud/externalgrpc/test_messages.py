"""Templates of an external provider: those of nodes are used as they are, those of machines are recognized."""

import pytest

from trimtab.actuator.cloud.externalgrpc.messages import node_bytes, template_of
from trimtab.actuator.cloud.provider import CloudNodeTemplate, MachineType, Reservation

WHOLE = {"cpu": "4", "memory": "16Gi", "pods": "58"}
MACHINE = MachineType("m5.xlarge", 4000, 16 << 30, 58, Reservation.NONE)


def read(allocatable: dict[str, str], capacity: dict[str, str] = WHOLE) -> CloudNodeTemplate:
    labels = {"node.kubernetes.io/instance-type": "m5.xlarge"}
    return template_of(node_bytes(CloudNodeTemplate(labels, (), capacity, allocatable), "g"))


@pytest.mark.parametrize("allocatable", [{}, WHOLE, WHOLE | {"pods": "50"}], ids=["none", "all", "fewer pods"])
def test_a_template_that_reserves_nothing_is_a_machine(allocatable: dict[str, str]) -> None:
    assert read(allocatable).machines == (MACHINE,)


@pytest.mark.parametrize("less", [{"cpu": "3920m"}, {"memory": "14Gi"}], ids=str)
def test_a_template_that_reserves_something_is_a_node(less: dict[str, str]) -> None:
    assert read(WHOLE | less).machines == ()


@pytest.mark.parametrize(
    "odd", [{"cpu": "4"}, {"cpu": "four", "memory": "16Gi"}, {"cpu": "0", "memory": "1Gi"}], ids=str
)
def test_a_template_without_amounts_is_not_a_machine(odd: dict[str, str]) -> None:
    assert read({}, odd).machines == ()
