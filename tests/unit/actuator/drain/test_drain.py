"""Draining one node: which pods go, in which order, and what happens when they will not."""

import pytest

from actuator.cloud.memory.faults import Fault
from actuator.drain.pods import next_group, pods_to_move, stays
from actuator.kube.cluster import ClusterError, PodView, TooManyRequestsError
from actuator.settings import PriorityGroup
from tests.builders.actuator import SETTINGS, START_S, Stage, place, small_cluster
from tests.builders.kubernetes import node, node_group, pdb, pod, pods_of, replica_set

NOW_MS = 1_000_000


def view(name: str = "p", **fields: object) -> PodView:
    values = {
        "namespace": "default", "name": name, "uid": name, "node": "n1", "phase": "Running", "priority": 0,
        "owner_kind": "ReplicaSet", "owner_name": "web", "owner_uid": "u", "mirror": False,
        "deletion_ms": 0, "grace_s": 30,
    }  # fmt: skip
    return PodView(**{**values, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pod_view", "expected"),
    [
        pytest.param(view(), False, id="a pod of a ReplicaSet goes"),
        pytest.param(view(owner_kind=""), False, id="a bare pod goes"),
        pytest.param(view(owner_kind="DaemonSet"), True, id="a DaemonSet pod stays"),
        pytest.param(view(daemon=True), True, id="a pod annotated like one stays"),
        pytest.param(view(mirror=True), True, id="a mirror pod stays"),
        pytest.param(view(priority=-11), True, id="an expendable pod stays"),
        pytest.param(view(priority=-10), False, id="one of just enough priority goes"),
        pytest.param(view(phase="Succeeded"), True, id="a completed pod is no matter"),
        pytest.param(view(phase="Failed"), True, id="a failed pod is no matter"),
        pytest.param(view(phase="Pending"), False, id="a pending pod goes"),
        pytest.param(view(deletion_ms=NOW_MS), False, id="a leaving pod is waited for"),
        pytest.param(view(deletion_ms=NOW_MS - 60_001), True, id="a pod that should long be gone is not"),
        pytest.param(view(deletion_ms=NOW_MS - 60_000), False, id="but until then it is"),
    ],
)
def test_which_pods_a_drain_ignores(pod_view: PodView, expected: bool) -> None:
    assert stays(pod_view, NOW_MS, -10) is expected
    assert (pods_to_move([pod_view], NOW_MS, -10) == []) is expected


@pytest.mark.parametrize(
    ("groups", "names", "grace_s"),
    [
        pytest.param((), ["low", "mid", "high"], None, id="without groups all go together"),
        pytest.param((PriorityGroup(0, 10), PriorityGroup(100, 60)), ["low", "mid"], 10, id="low priority first"),
        pytest.param((PriorityGroup(50, 20), PriorityGroup(5, 5)), ["low", "mid"], 5, id="groups in any order"),
        pytest.param((PriorityGroup(1000, 7),), ["low", "mid", "high"], 7, id="below every group is the lowest"),
    ],
)
def test_pods_go_in_priority_groups(groups: tuple[PriorityGroup, ...], names: list[str], grace_s: int | None) -> None:
    pods = [view("low", priority=0), view("mid", priority=10), view("high", priority=200)]
    group, group_grace_s = next_group(pods, groups)
    assert [found.name for found in group] == names
    assert group_grace_s == grace_s


def test_a_drain_moves_every_pod_and_leaves_daemons() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n0"))
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}
    evicted = {eviction.name for eviction in stage.status().recent_evictions}
    assert evicted == {"web-0", "web-6", "db-0"}
    (deletion,) = stage.status().finished
    assert (deletion.pods_total_count, deletion.pods_gone_count) == (3, 3)


def test_evictions_carry_owner_node_and_time() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n0"))
    stage.run()
    eviction = next(eviction for eviction in stage.status().recent_evictions if eviction.name == "db-0")
    assert (eviction.node, eviction.owner_kind, eviction.owner_name) == ("n0", "StatefulSet", "db")
    assert eviction.owner_uid
    assert eviction.evict_time.seconds >= START_S


def tight(count: int = 4) -> Stage:
    """All replicas on one node behind a budget of one; they take long to be ready again."""
    web = replica_set("web", count)
    pods = pods_of(web, count)
    for item in pods:
        place(item, "n0")
    budget = pdb("tight", labels=pods[0]["metadata"]["labels"], max_unavailable=1)
    group = node_group("g", 0, 5, nodes=["n0", "n1"])
    return Stage([node("n0"), node("n1"), web, *pods, budget, group])


def test_a_tight_budget_is_waited_for_and_never_violated() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}
    assert stage.violations == []
    assert len(stage.noted("evicted")) == 4
    assert stage.active_pods("web") == 4


def test_pods_that_will_not_go_fail_the_drain_give_the_node_back_and_are_named() -> None:
    web = replica_set("web", 1)
    (item,) = pods_of(web, 1)
    place(item, "n0")
    frozen = pdb("frozen", labels=item["metadata"]["labels"], min_available=1)
    stage = Stage(
        [node("n0"), node("n1"), web, item, pod("bare", node="n0"), frozen, node_group("g", nodes=["n0", "n1"])]
    )
    stage.start(stage.request("r", "n0"))
    stage.run()
    assert stage.finished() == {"n0": ("FAILED", "FAILED_TO_EVICT_PODS")}
    (deletion,) = stage.status().finished
    assert list(deletion.pods_left) == ["default/web-0"]
    assert (deletion.pods_total_count, deletion.pods_gone_count) == (2, 1)
    assert "600 s" in deletion.detail
    assert stage.tainted() == set()
    assert stage.target("g") == 2
    assert stage.time.now_s - START_S >= SETTINGS.work.drain.timeout_s


def test_the_servers_hint_says_when_to_ask_again() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("evict", "default/web-0", TooManyRequestsError("later", retry_after_s=100), times=1))
    stage.start(stage.request("r", "n0"))
    stage.run_for(90)
    assert stage.finished() == {}
    assert len(stage.noted("evicted")) == 2
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}


def test_an_eviction_whose_answer_was_lost_is_not_made_twice_nor_forgotten() -> None:
    stage = Stage(small_cluster())
    lost = []

    def lose(operation: str, subject: str) -> None:
        if operation == "evict" and not lost:
            lost.append(subject)
            raise ClusterError("connection reset")

    stage.cluster.faults.after = lose
    stage.start(stage.request("r", "n0"))
    stage.run()
    assert stage.noted("evicted_twice") == []
    assert {eviction.uid for eviction in stage.status().recent_evictions} == set(stage.noted("evicted"))


def test_an_unplanned_pod_that_came_before_the_taint_stops_the_drain() -> None:
    stage = Stage(small_cluster())
    request = stage.request("r", "n0", assume=True)
    stage.actuator.deletions.begin(request)
    with stage.looking(), stage.cluster.transaction() as world:
        from actuator.cloud.memory.pods import Pod

        world.put_pod(Pod(pod("stranger", node="n0")))
    stage.run()
    assert stage.finished() == {"n0": ("FAILED", "NODE_CHANGED")}
    assert stage.noted("evicted") == []
    assert stage.tainted() == set()


def test_a_pod_that_comes_during_the_drain_goes_too() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    with stage.looking(), stage.cluster.transaction() as world:
        from actuator.cloud.memory.pods import Pod

        world.put_pod(Pod(pod("late", node="n0", tolerations=[{"operator": "Exists"}])))
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}
    assert "late" in {eviction.name for eviction in stage.status().recent_evictions}


def test_a_node_that_vanishes_ends_its_drain() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    with stage.looking():
        stage.cluster.delete_node("n0")
    stage.run()
    assert stage.finished() == {"n0": ("FAILED", "NODE_GONE")}


def test_a_cancelled_drain_evicts_nothing_more_and_gives_the_node_back() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    evicted = stage.noted("evicted")
    assert stage.actuator.deletions.begin_cancel(["n0", "n1"], "enough") == (["n0"], ["n1"])
    stage.run()
    assert stage.noted("evicted") == evicted
    assert stage.finished() == {"n0": ("CANCELLED", "CANCELLED")}
    assert stage.tainted() == set()
