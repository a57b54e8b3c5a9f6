"""The wall clock is set by an hour while drains, deletions, delays and growths are in progress: everything ends as it
does without, and in the same time; also if the actuator restarts while the clock is set back. A restart on a clock that
is ahead cannot be told from an absence.
"""

from collections.abc import Callable

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.cloud.provider import CloudError
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.v1 import actuator_pb2, plan_pb2

DELAY = "delay-deletion.cluster-autoscaler.kubernetes.io/storage"
MOMENTS_S = (0.5, 2.5, 6.0, 15.0, 40.0, 100.0)


def drain_and_delete(stage: Stage) -> None:
    stage.start(stage.request("r", "n0", "n1", "n6"))


def delete_what_the_cloud_does_not_end(stage: Stage) -> None:
    stage.cluster.faults.add(Fault("delete_instances", error=CloudError("away")))
    stage.start(stage.request("r", "n6", drain=False))


def delete_after_a_delay(stage: Stage) -> None:
    with stage.looking(), stage.cluster.transaction() as state:
        state.nodes["n6"].node["metadata"].setdefault("annotations", {})[DELAY] = "true"
        state.node_changed(state.nodes["n6"])
    stage.start(stage.request("r", "n6", drain=False))


def grow(stage: Stage) -> None:
    stage.cluster.faults.add(Fault("set_size", error=CloudError("away"), times=4))
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=10)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id="r", splits=[split]))


WORK = (drain_and_delete, delete_what_the_cloud_does_not_end, delete_after_a_delay, grow)


def outcome(work: Callable[[Stage], None], step_s: float, at_s: float, restarts: bool) -> tuple[object, ...]:
    """Return how the work has ended, and after how many seconds."""
    stage = Stage(small_cluster())
    begun_s = stage.time.now_s
    work(stage)
    stage.run_for(at_s)
    stage.skew_s += step_s
    if restarts:
        stage.boot()
    stage.run()
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())
    answers = stage.actuator.growths.answers("r") if work is grow else stage.finished()
    return answers, stage.target("g"), sorted(stage.noted("deleted")), stage.tainted(), stage.time.now_s - begun_s


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
@pytest.mark.parametrize(
    ("step_s", "restarts"), [(-3600.0, False), (3600.0, False), (-3600.0, True)], ids=["back", "ahead", "back, restart"]
)
@pytest.mark.parametrize("at_s", MOMENTS_S)
def test_a_step_of_the_clock_changes_neither_results_nor_times(
    work: Callable[[Stage], None], step_s: float, restarts: bool, at_s: float
) -> None:
    assert outcome(work, step_s, at_s, restarts) == outcome(work, 0.0, at_s, restarts)
