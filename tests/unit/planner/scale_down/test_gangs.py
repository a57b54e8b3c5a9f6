"""A node with pods of a running gang goes only if the gang keeps its minimum, or moves whole with the node."""

from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.gangs import GangRow, gang_snapshot, member, members
from tests.builders.kubernetes import Json, job, node, node_group, pdb, pod
from tests.builders.random_gangs import gang_cluster
from tests.builders.random_growth import growth_settings
from tests.builders.scale_down import NOW_S, Outcome, plan_message
from tests.builders.snapshots import write
from tests.certificates.gangs import gangs_in
from tests.certificates.scale_down import offences
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.round.round import Work
from trimtab.planner.scale_down.whole_gangs import WholeGangs
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

JOB = job("j", 9)


def running(group: str, count: int, on: str, first: int = 0) -> list[Json]:
    pods = members(group, first + count, "500m", node=on, phase="Running", ready=True, owner=JOB)
    return pods[first:]


def decide(groups: list[GangRow], *objects: Json | list[Json], **more: object) -> Outcome:
    nodes = [node(f"n{i}", "4") for i in range(3)]
    settings = {"unneededTime": "0s", "utilizationThreshold": 1.0} | more
    group = node_group("a", 0, 9, nodes=[one["metadata"]["name"] for one in nodes], price=1.0)
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


SPREAD = [*running("g", 1, "n0"), *running("g", 1, "n1", 1)]
WHOLE = GangRow("g", 2, whole=True)


def test_a_gang_that_is_disrupted_as_a_whole_moves_whole_from_several_nodes() -> None:
    elsewhere = pod("x", "500m", node="n2", phase="Running")
    found = decide([WHOLE], SPREAD, elsewhere)
    assert (sorted(found.decision.drain), set(found.destinations.values())) == (["n0", "n1"], {"n2"})


def test_the_nodes_of_a_gang_that_moves_whole_are_marked_with_it() -> None:
    found = decide([WHOLE], SPREAD, pod("x", "500m", node="n2", phase="Running"))
    assert {one.node: one.gang for one in found.decision.unneeded} == {"n0": "default/g", "n1": "default/g"}


def test_the_nodes_of_a_gang_that_moves_whole_share_the_cost_of_moving_it_equally() -> None:
    pods = [*running("g", 3, "n0"), *running("g", 1, "n1", 3)]
    found = decide([GangRow("g", 4, whole=True)], pods, pod("x", "500m", node="n2", phase="Running"))
    assert {one.node: one.eviction_cost for one in found.decision.unneeded} == {"n0": 2.0, "n1": 2.0}


@pytest.mark.parametrize(("floor", "goes"), [(0.39, ["n0", "n1"]), (0.41, [])])
def test_what_is_saved_per_eviction_is_of_the_whole_gang(floor: float, goes: list[str]) -> None:
    """Two nodes with the price 1 for five evictions: 0.4, though the node with one pod saves 1 and the other 0.25."""
    pods = [*running("g", 1, "n0"), *running("g", 4, "n1", 1)]
    alone = pod("x", "500m", node="n2", phase="Running")
    found = decide([GangRow("g", 5, whole=True)], pods, alone, minSavingPerEviction=floor)
    assert found.unneeded == goes


def test_a_node_with_all_pods_of_a_gang_goes_independently_of_others() -> None:
    elsewhere = [pod(f"x{i}", "500m", node=f"n{i}", phase="Running") for i in (1, 2)]
    found = decide([WHOLE], running("g", 3, "n0"), elsewhere)
    assert [(one.node, one.gang) for one in found.decision.unneeded] == [("n0", "")]


def test_a_gang_that_is_disrupted_as_a_whole_keeps_its_nodes_if_one_of_them_stays() -> None:
    pods = [*running("g", 1, "n0"), *running("g", 1, "n1", 1), *running("g", 1, "n2", 2)]
    found = decide([GangRow("g", 1, whole=True)], pods)
    assert found.unneeded == []
    assert {why for _, why in found.blocking.values()} <= {"GANG", "NO_PLACE"}
    kept = decide([WHOLE], SPREAD, pod("bare", "500m", node="n1", phase="Running"))
    assert kept.unneeded == ["n2"]
    assert kept.blocking["n0"] == ("default/g-000", "GANG")


def test_a_gang_that_does_not_fit_whole_elsewhere_keeps_its_nodes() -> None:
    elsewhere = [pod("x", "3200m", node="n2", phase="Running")]
    assert decide([WHOLE], SPREAD, elsewhere).unneeded == []


def test_a_gang_that_runs_less_than_its_minimum_does_not_move_from_several_nodes() -> None:
    """Once evicted, its pods would be bound only with more pods, for which there may be no room."""
    found = decide([GangRow("g", 3, whole=True)], SPREAD, members("g", 3, "500m", owner=JOB)[2:])
    assert not {"n0", "n1"} & {*found.unneeded}


def test_a_gang_that_a_topology_key_binds_does_not_move() -> None:
    found = decide([GangRow("g", 2, key="kubernetes.io/hostname", whole=True)], SPREAD)
    assert not {"n0", "n1"} & {*found.unneeded}


def test_a_gang_on_more_nodes_than_may_be_drained_at_a_time_keeps_them() -> None:
    assert not {"n0", "n1"} & {*decide([WHOLE], SPREAD, maxDrainParallelism=1).unneeded}


def test_two_gangs_on_one_node_keep_their_nodes() -> None:
    other = [*running("h", 1, "n1"), *running("h", 1, "n2", 1)]
    assert decide([WHOLE, GangRow("h", 2, whole=True)], SPREAD, other).unneeded == []


def test_a_gang_moves_whole_with_the_one_node_that_has_all_of_it() -> None:
    elsewhere = [pod(f"x{i}", "500m", node=f"n{i}", phase="Running") for i in (1, 2)]
    found = decide([GangRow("g", 3, whole=True)], running("g", 3, "n0"), elsewhere)
    assert (found.unneeded, len(found.destinations)) == (["n0"], 3)


def test_running_gangs_stay_if_the_settings_say_so() -> None:
    pods = [*running("g", 1, "n0"), *running("g", 1, "n1", 1), *running("g", 1, "n2", 2)]
    assert decide([GangRow("g", 2)], pods, gangs={"moveRunning": False}).unneeded == []


@given(st.lists(st.tuples(st.integers(-1, 2), st.floats(-10, 10)), min_size=1, max_size=12))
def test_numbers_of_nodes_are_shared_within_gangs_and_their_sums_stay(nodes: list[tuple[int, float]]) -> None:
    of_node = np.array([gang for gang, _ in nodes], np.int32)
    sizes = np.array([max(sum(gang == one for gang, _ in nodes), 1) for one in range(3)], np.int64)
    none = np.zeros(0, np.int64)
    gangs = WholeGangs(of_node, sizes, np.zeros(len(nodes), np.int32), none, none, ("a", "b", "c"))
    found = gangs.shared(np.array([number for _, number in nodes]))
    for (gang, number), after in zip(nodes, found.tolist(), strict=True):
        others = [one for of, one in nodes if of == gang]
        assert after == pytest.approx(number if gang < 0 else sum(others) / len(others))
    assert sum(found.tolist()) == pytest.approx(sum(number for _, number in nodes))


@given(st.integers(0, 2**48))
@example(2276)
@examples(200)
def test_no_plan_drains_a_gang_below_its_minimum(seed: int) -> None:
    message = write(gang_cluster(seed))
    settings = growth_settings(seed)
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN], settings=settings)
    request.now.seconds = NOW_S
    found = take_decisions(canonicalize(message), request, None, Work())
    assert offences(message, settings, found, NOW_S) == []


def whole_gangs(random: Random) -> tuple[snapshot_pb2.ClusterSnapshot, Json]:
    """Return a cluster with gangs that are disrupted as a whole, and settings of scale-down."""
    names = [f"n{i}" for i in range(9)]
    groups = [node_group("a", 0, 9, nodes=names[:4], price=1.0), node_group("b", 0, 9, nodes=names[4:], price=2.0)]
    pods: list[Json] = []
    rows = [GangRow(f"g{i}", random.randint(1, 3), whole=random.random() < 0.8) for i in range(3)]
    for row in rows:
        for i in range(row.min_count + random.randint(-1, 2)):
            fields = {"node": random.choice(names), "phase": "Running", "ready": True, "owner": JOB}
            labels = {"app": random.choice("xy")}
            pods.append(member(f"{row.name}-{i}", row.name, random.choice(("300m", "900m")), labels=labels, **fields))
    for i in range(random.randint(0, 3)):
        owner = None if random.random() < 0.1 else JOB
        pods.append(pod(f"p{i}", "700m", node=random.choice(names), phase="Running", owner=owner, labels={"app": "x"}))
    budgets = [pdb(allowed=random.randint(0, 3), labels={"app": "x"})] if random.random() < 0.4 else []
    settings = {
        "unneededTime": "0s",
        "utilizationThreshold": random.choice((0.5, 1.0, 1.0)),
        "maxDrainParallelism": random.choice((2, 3, 10, 10)),
        "maxWaves": random.choice((1, 3)),
        "nodeGroups": {"b": {"unneededTime": random.choice(("0s", "600s"))}},
        "searchEffort": random.choice(("FIRST", "USUAL", "BEST")),
    }
    nodes = [node(name, "3") for name in names]
    return gang_snapshot(rows, nodes, groups, JOB, pods, budgets), settings


def moved_whole(message: snapshot_pb2.ClusterSnapshot, found: Outcome) -> bool:
    """Return whether all pods of a gang that was on several nodes have destinations."""
    whole = [
        one.name for one in message.pod_groups if one.disruption_mode == snapshot_pb2.PodGroupDisruptionMode.POD_GROUP
    ]
    gangs = [one for one in gangs_in(message).values() if len({*one.pods.values()}) > 1]
    return any(one.row.name in whole and one.pods.keys() <= found.destinations.keys() for one in gangs if one.row)


@given(st.randoms(use_true_random=False))
@examples(150)
def test_gangs_move_whole_or_not_at_all_loop_by_loop(random: Random) -> None:
    """Certificates check each plan; the later ones continue the first with other limits, and with other pods."""
    message, settings = whole_gangs(random)
    first = plan_message(message, settings=settings)
    plan_message(message, settings=settings, state=first.state, now_s=NOW_S + 60)
    plan_message(message, settings=settings | {"maxDrainParallelism": 2}, state=first.state, now_s=NOW_S + 700)
    other, settings = whole_gangs(random)
    plan_message(other, settings=settings, state=first.state, now_s=NOW_S + 700)


@pytest.mark.ci
def test_such_clusters_have_gangs_that_move_from_several_nodes() -> None:
    clusters = [whole_gangs(Random(seed)) for seed in range(40)]
    assert sum(moved_whole(message, plan_message(message, settings=settings)) for message, settings in clusters) > 5
