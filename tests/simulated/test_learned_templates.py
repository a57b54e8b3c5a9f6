"""Pods that request slightly more than a new node will have: scale-up ends, with planner and actuator on virtual
time.
"""

from collections.abc import Callable

import pytest

from tests.builders.cloud_rounds import Rounds
from tests.builders.instance_types import MIB, aws_machine, aws_seen
from tests.builders.kubernetes import Json, node, node_group, pod
from trimtab.actuator.cloud.provider import CloudNodeTemplate, MachineType, Reservation
from trimtab.clients.simulation.cloud.provider import MemoryCloud

# The type with the largest difference from AWS's figures: by the published rule pods have 3114 MiB, in fact 2989.
TYPE = "c5.large"
REAL = aws_seen(TYPE)
TOO_MUCH, FITTING = "3050Mi", "2950Mi"


def waiting(memory: str, count: int = 3, prefix: str = "web") -> list[Json]:
    """Return pods of which one fits a node."""
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    return [pod(f"{prefix}-{number}", cpu="1", memory=memory, status=status) for number in range(count)]


def group(name: str = "g", instance_type: str = TYPE, most: int = 20) -> Json:
    """Return a group without nodes; its machines become nodes like those of EKS."""
    seen = aws_seen(instance_type)
    real = node(
        "x",
        cpu=f"{seen.allocatable.cpu_milli}m",
        memory=str(seen.allocatable.memory_bytes),
        pods=str(seen.allocatable.pods),
        capacity={
            "cpu": f"{seen.capacity.cpu_milli}m",
            "memory": str(seen.capacity.memory_bytes),
            "pods": str(seen.capacity.pods),
        },
        labels={"node.kubernetes.io/instance-type": instance_type},
    )
    return node_group(name, 0, most, target=0, nodes=[], template=real)


@pytest.fixture
def rounds_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rounds]:
    """Return rounds with groups of which the cloud knows only the machines, as AWS does."""

    def build(*objects: Json, reservation: Reservation = Reservation.EKS, **settings: Json) -> Rounds:
        own = MemoryCloud.template

        def template(cloud: MemoryCloud, name: str) -> CloudNodeTemplate | None:
            found = own(cloud, name)
            assert found is not None
            machine = aws_machine(found.labels["node.kubernetes.io/instance-type"])._replace(reservation=reservation)
            amounts = _amounts(machine)
            return found._replace(capacity=amounts, allocatable=amounts, machines=(machine,))

        monkeypatch.setattr(MemoryCloud, "template", template)
        return Rounds(list(objects), **settings)

    return build


def _amounts(machine: MachineType) -> dict[str, str]:
    return {"cpu": f"{machine.cpu_milli}m", "memory": f"{machine.memory_bytes // MIB}Mi", "pods": str(machine.pods)}


@pytest.mark.parametrize(
    "reservation",
    [
        pytest.param(Reservation.EKS, id="published rule"),
        pytest.param(Reservation.NONE, id="nothing", marks=pytest.mark.nightly),
    ],
)
def test_growth_for_pods_that_fit_no_real_node_ends_with_the_first_nodes_and_they_go(
    rounds_of: Callable[..., Rounds], reservation: Reservation
) -> None:
    rounds = rounds_of(group(), *waiting(TOO_MUCH), reservation=reservation, scaleDown={"unneededTime": "60s"})
    # Only the estimate is known, and one node is tried for each pod.
    assert rounds.run_for(60) == [("g", 3)]
    assert rounds.run_for(600) == []
    assert (rounds.target("g"), rounds.nodes("g")) == (0, [])
    assert rounds.pending == ["web-0", "web-1", "web-2"]
    # The resources stay known for later pods, although no node is left.
    rounds.add(*waiting(TOO_MUCH, 5, "later"))
    assert rounds.run_for(200) == []


def test_pods_that_fit_a_real_node_are_served_before_and_after_one_was_seen(rounds_of: Callable[..., Rounds]) -> None:
    rounds = rounds_of(group(), *waiting(FITTING))
    assert rounds.run_for(60) == [("g", 3)]
    assert rounds.pending == []
    rounds.add(*waiting(f"{REAL.allocatable.memory_bytes // MIB}Mi", 2, "exact"))
    assert rounds.run_for(60) == [("g", 2)]
    assert rounds.pending == []


def test_pods_that_do_not_fit_go_to_the_next_group(rounds_of: Callable[..., Rounds]) -> None:
    rounds = rounds_of(
        group(), group("larger", "c5.xlarge"), *waiting(TOO_MUCH, 1), scaleUp={"expanders": ["LEAST_WASTE"]}
    )
    assert rounds.run_for(120) == [("g", 1), ("larger", 1)]
    assert rounds.pending == []
