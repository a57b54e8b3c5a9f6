"""A node with pods of a running gang goes only if the gang keeps its minimum, or moves whole with the node."""

from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.gangs import GangRow, gang_snapshot, members
from tests.builders.kubernetes import Json, job, node, node_group, pod
from tests.builders.random_gangs import gang_cluster
from tests.builders.random_growth import growth_settings
from tests.builders.scale_down import NOW_S, Outcome, plan_message
from tests.builders.snapshots import write
from tests.certificates.scale_down import offences
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.round.work import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

JOB = job("j", 9)


def running(group: str, count: int, on: str, first: int = 0) -> list[Json]:
    pods = members(group, first + count, "500m", node=on, phase="Running", ready=True, owner=JOB)
    return pods[first:]


def decide(groups: list[GangRow], *objects: Json | list[Json], **more: object) -> Outcome:
    nodes = [node(f"n{i}", "4") for i in range(3)]
    settings = {"unneededTime": "0s", "utilizationThreshold": 1.0} | more
    group = node_group("a", 0, 9, nodes=[one["metadata"]["name"] for one in nodes])
    return plan_message(gang_snapshot(groups, nodes, group, JOB, *objects), settings=settings)


def test_nodes_go_as_long_as_the_minimum_runs() -> None:
    pods = [*running("g", 1, "n0"), *running("g", 1, "n1", 1), *running("g", 1, "n2", 2)]
    found = decide([GangRow("g", 2)], pods, maxWaves=1)
    assert len(found.unneeded) == 1


def test_a_gang_at_its_minimum_keeps_its_nodes() -> None:
    pods = [*running("g", 1, "n0"), *running("g", 1, "n1", 1), *running("g", 1, "n2", 2)]
    found = decide([GangRow("g", 3)], pods)
    assert found.unneeded == []
    assert {why for _, why in found.blocking.values()} == {"GANG"}


def test_a_gang_that_is_disrupted_as_a_whole_keeps_its_nodes() -> None:
    pods = [*running("g", 1, "n0"), *running("g", 1, "n1", 1), *running("g", 1, "n2", 2)]
    assert decide([GangRow("g", 1, whole=True)], pods).unneeded == []


def test_a_gang_moves_whole_with_the_one_node_that_has_all_of_it() -> None:
    elsewhere = [pod(f"x{i}", "500m", node=f"n{i}", phase="Running") for i in (1, 2)]
    found = decide([GangRow("g", 3, whole=True)], running("g", 3, "n0"), elsewhere)
    assert (found.unneeded, len(found.destinations)) == (["n0"], 3)


def test_running_gangs_stay_if_the_settings_say_so() -> None:
    pods = [*running("g", 1, "n0"), *running("g", 1, "n1", 1), *running("g", 1, "n2", 2)]
    assert decide([GangRow("g", 2)], pods, gangs={"moveRunning": False}).unneeded == []


@given(st.integers(0, 2**48))
@example(2276)
@examples(200)
def test_no_plan_drains_a_gang_below_its_minimum(seed: int) -> None:
    message = write(gang_cluster(seed))
    settings = growth_settings(seed)
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN], settings=settings)
    request.now.seconds = NOW_S
    found = take_decisions(canonicalize(message), request, None, Work()).scale_down
    assert offences(message, settings, found, NOW_S) == []
