"""NodeResourcesFit, case by case."""

import pytest

from tests.builders.columns import snapshot
from tests.builders.fitting import node, pending, reasons
from tests.builders.refusals import explain
from tests.builders.rows import PodRow
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.simulation.build import build_simulation
from trimtab.v1.snapshot_pb2 import PodPhase

ROOM = {"cpu": 1000, "memory": 100, "pods": 3, "example.com/gpu": 2}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param((("cpu", 1000),), [], id="exactly all"),
        pytest.param((("cpu", 1001),), ["INSUFFICIENT_RESOURCES"], id="one more than all"),
        pytest.param((("example.com/gpu", 2), ("memory", 100)), [], id="extended resources count"),
        pytest.param((("example.com/gpu", 3),), ["INSUFFICIENT_RESOURCES"], id="too many of an extended resource"),
        pytest.param((("hugepages-2Mi", 1),), ["INSUFFICIENT_RESOURCES"], id="what the node lacks is 0"),
        pytest.param((("ephemeral-storage", 1),), ["INSUFFICIENT_RESOURCES"], id="ephemeral storage that is not there"),
        pytest.param((("unknown", 1),), [], id="a name that the scheduler does not know is passed over"),
        pytest.param((("pods", 9),), [], id="pods are counted, not requested"),
    ],
)
def test_amounts_must_be_free(requests: tuple[tuple[str, int], ...], expected: list[str]) -> None:
    assert reasons(pending(PodRequirements(requests=requests)), [node(allocatable=ROOM)]) == {"n1": expected}


def test_a_request_of_nothing_fits_an_overcommitted_node() -> None:
    other = PodRow("other", PodRequirements(requests=(("cpu", 5000),)), node="n1")
    assert reasons(pending(PodRequirements()), [node(allocatable=ROOM)], [other]) == {"n1": []}


def test_every_pod_that_runs_takes_room_for_one() -> None:
    running = [PodRow(f"p{i}", node="n1") for i in range(3)]
    ended = [PodRow(f"e{i}", node="n1", phase=PodPhase.SUCCEEDED) for i in range(3)]
    assert reasons(pending(PodRequirements()), [node(allocatable=ROOM)], running) == {"n1": ["TOO_MANY_PODS"]}
    assert reasons(pending(PodRequirements()), [node(allocatable=ROOM)], [*running[:2], *ended]) == {"n1": []}


def test_the_resources_that_are_short_are_named() -> None:
    spec = PodRequirements(requests=(("cpu", 2000), ("example.com/gpu", 3), ("memory", 1)))
    simulation = build_simulation(snapshot([node(allocatable=ROOM)], [pending(spec)]))
    assert explain(simulation, 0, 0).insufficient == ["cpu", "example.com/gpu"]
