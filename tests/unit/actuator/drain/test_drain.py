"""Draining one node: which pods are evicted, in which order, and what happens if they do not terminate."""

from dataclasses import replace
from itertools import pairwise

import pytest

from tests.builders.actuator import DELAYS, SETTINGS, START_S, Stage, place, small_cluster
from tests.builders.kubernetes import daemon_set, node, node_group, pdb, pod, pods_of, replica_set
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.drain.pods import DaemonEvictor, EvictionOrder, daemons_to_evict, pods_to_move, stays
from trimtab.actuator.kube.cluster import ClusterError, PodView, RefusedError, TooManyRequestsError
from trimtab.actuator.service.settings import ActuatorSettings, priority_groups
from trimtab.actuator.settings import DrainSettings, PriorityGroup
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

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
        pytest.param(view(phase="Succeeded"), True, id="completed pod is ignored"),
        pytest.param(view(phase="Failed"), True, id="failed pod is ignored"),
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
        pytest.param((), ["low", "mid", "high"], 25, id="without groups all go together"),
        pytest.param((PriorityGroup(0, 10), PriorityGroup(100, 60)), ["low", "mid"], 10, id="low priority first"),
        pytest.param((PriorityGroup(50, 20), PriorityGroup(5, 5)), ["low", "mid"], 5, id="groups in any order"),
        pytest.param((PriorityGroup(1000, 7),), ["low", "mid", "high"], 7, id="below every group is the lowest"),
        pytest.param((PriorityGroup(0, 90), PriorityGroup(100, 5)), ["low", "mid"], 30, id="never more than its own"),
    ],
)
def test_pods_go_in_priority_groups(groups: tuple[PriorityGroup, ...], names: list[str], grace_s: int) -> None:
    pods = [view("low", priority=0), view("mid", priority=10), view("high", priority=200)]
    order = EvictionOrder(groups, longest_grace_s=25)
    group = order.next_group(pods)
    assert [found.name for found in group] == names
    assert {order.grace_s(found) for found in group} == {grace_s}


@pytest.mark.parametrize(
    ("pod_view", "occupied", "empty"),
    [
        pytest.param(view(owner_kind="DaemonSet"), True, False, id="as the settings say"),
        pytest.param(view(owner_kind="DaemonSet", daemon_eviction=True), True, True, id="annotated to end"),
        pytest.param(view(owner_kind="DaemonSet", daemon_eviction=False), False, False, id="annotated to stay"),
        pytest.param(view(daemon=True), True, False, id="annotated like a DaemonSet's"),
        pytest.param(view(daemon_eviction=True), False, False, id="another pod is not meant"),
        pytest.param(view(owner_kind="DaemonSet", mirror=True), False, False, id="nor a mirror pod"),
        pytest.param(view(owner_kind="DaemonSet", phase="Failed"), False, False, id="nor one that has ended"),
        pytest.param(view(owner_kind="DaemonSet", deletion_ms=1), False, False, id="nor one that is ending"),
    ],
)
def test_which_daemon_pods_are_evicted(pod_view: PodView, occupied: bool, empty: bool) -> None:
    settings = DrainSettings()
    assert bool(daemons_to_evict([pod_view], settings.evict_daemons_occupied)) is occupied
    assert bool(daemons_to_evict([pod_view], settings.evict_daemons_empty)) is empty


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
    """Return a stage with all replicas on one node behind a budget of one; they take long to become ready again."""
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


def test_pods_that_do_not_terminate_fail_the_drain_release_the_node_and_are_named() -> None:
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


@pytest.mark.parametrize(
    ("option", "seconds"),
    [
        pytest.param("1m30s", 90, id="shorter"),
        pytest.param("2h", 7200, id="longer"),
        pytest.param("soon", 600, id="that cannot be read"),
    ],
)
def test_a_group_may_have_a_time_out_of_its_own_for_drains(option: str, seconds: int) -> None:
    web = replica_set("web", 1)
    (item,) = pods_of(web, 1)
    place(item, "n0")
    frozen = pdb("frozen", labels=item["metadata"]["labels"], min_available=1)
    group = node_group("g", nodes=["n0", "n1"])
    group["metadata"]["annotations"] = {ANNOTATION_PREFIX + "draintimeout": option}
    stage = Stage([node("n0"), node("n1"), web, item, frozen, group])
    stage.start(stage.request("r", "n0"))
    stage.run(limit_s=8000)
    (deletion,) = stage.status().finished
    assert deletion.drain_timeout.ToSeconds() == seconds
    assert f"{seconds} s" in deletion.detail
    assert stage.time.now_s - START_S >= seconds
    assert stage.tainted() == set()


def test_an_absurd_retry_hint_does_not_end_the_retries() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("evict", "default/web-0", TooManyRequestsError("later", retry_after_s=1e9), times=1))
    stage.start(stage.request("r", "n0"))
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}


def test_the_servers_hint_sets_the_time_of_the_retry() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("evict", "default/web-0", TooManyRequestsError("later", retry_after_s=100), times=1))
    stage.start(stage.request("r", "n0"))
    stage.run_for(90)
    assert stage.finished() == {}
    assert len(stage.noted("evicted")) == 2
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}


def test_an_eviction_whose_answer_was_lost_is_neither_repeated_nor_lost() -> None:
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
    with stage.looking(), stage.cluster.transaction() as state:
        state.put_pod(SimulatedPod(pod("stranger", node="n0")))
    stage.run()
    assert stage.finished() == {"n0": ("FAILED", "NODE_CHANGED")}
    assert stage.noted("evicted") == []
    assert stage.tainted() == set()


def test_a_pod_that_comes_during_the_drain_goes_too() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    with stage.looking(), stage.cluster.transaction() as state:
        state.put_pod(SimulatedPod(pod("late", node="n0", tolerations=[{"operator": "Exists"}])))
    stage.run()
    assert stage.finished() == {"n0": ("DELETED", "UNSPECIFIED")}
    assert "late" in {eviction.name for eviction in stage.status().recent_evictions}


def test_a_node_that_vanishes_ends_its_drain() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    with stage.looking():
        stage.cluster.delete_node("n0", stage.cluster.get_node("n0").uid)
    stage.run()
    assert stage.finished() == {"n0": ("FAILED", "NODE_GONE")}


def test_a_cancelled_drain_evicts_nothing_more_and_releases_the_node() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    evicted = stage.noted("evicted")
    assert stage.actuator.deletions.begin_cancel(["n0", "n1"], "enough") == (["n0"], ["n1"])
    stage.run()
    assert stage.noted("evicted") == evicted
    assert stage.finished() == {"n0": ("CANCELLED", "CANCELLED")}
    assert stage.tainted() == set()


@pytest.mark.parametrize("jump_s", [0.0, 3600.0])
@pytest.mark.parametrize("drain", [True, False])
def test_a_leaving_pod_does_not_become_overdue_by_a_jump_of_the_clock(drain: bool, jump_s: float) -> None:
    stage = Stage(small_cluster(), delays=replace(DELAYS, pod_stop_s=10))
    name = "n0" if drain else "n6"
    stage.start(stage.request("r", name, drain=drain))
    late = pod("late", node=name)
    place(late, name)
    with stage.looking(), stage.cluster.transaction() as state:
        state.put(late)
        found = state.pods["default", "late"]
        stage.cluster.controllers.terminate(found, found.grace_s)
    stage.skew_s += jump_s
    stage.run_for(5)
    # The drain waits for the pod; without a drain its node is not as the plan assumed.
    assert stage.finished() == ({} if drain else {"n6": ("FAILED", "NODE_CHANGED")})


def with_drain(**fields: object) -> ActuatorSettings:
    """Return the usual settings with changed drain settings."""
    work = replace(SETTINGS.work, drain=replace(SETTINGS.work.drain, **fields))  # type: ignore[arg-type]
    return replace(SETTINGS, work=work)


def drained(stage: Stage, *nodes: str, drain: bool = True) -> Stage:
    stage.start(stage.request("r", *nodes, drain=drain))
    stage.run()
    assert stage.finished() == dict.fromkeys(nodes, ("DELETED", "UNSPECIFIED"))
    return stage


@pytest.mark.parametrize(
    ("fields", "node_name", "drain", "evicted"),
    [
        pytest.param({}, "n0", True, ["agent-n0"], id="of a drained node"),
        pytest.param({"evict_daemons_occupied": False}, "n0", True, [], id="of a drained node, not wanted"),
        pytest.param({}, "n6", False, [], id="of an empty node"),
        pytest.param({"evict_daemons_empty": True}, "n6", False, ["agent-n6"], id="of an empty node, wanted"),
    ],
)
def test_daemon_pods_are_evicted_by_setting(
    fields: dict[str, bool], node_name: str, drain: bool, evicted: list[str]
) -> None:
    stage = Stage(small_cluster(), with_drain(**fields))
    names = {p.uid: p.key[1] for p in stage.cluster.state.pods.values()}
    drained(stage, node_name, drain=drain)
    assert [names[uid] for uid in stage.noted("daemon_evicted")] == evicted
    assert not {eviction.name for eviction in stage.status().recent_evictions} & set(evicted)


@pytest.mark.parametrize("error", [TooManyRequestsError("budget"), ClusterError("timeout"), RefusedError("webhook")])
def test_daemon_pods_that_do_not_end_delay_nothing(error: ClusterError) -> None:
    stage = Stage(small_cluster(), with_drain(evict_daemons_empty=True))
    for name in ("n0", "n6"):
        stage.cluster.faults.add(Fault("evict", f"kube-system/agent-{name}", error))
    drained(stage, "n0")
    stage.start(stage.request("empty", "n6", drain=False))
    stage.run()
    assert set(stage.finished()) == {"n0", "n6"}
    assert stage.noted("daemon_evicted") == []


def test_a_daemon_pod_that_comes_back_is_left_alone_and_a_refused_one_is_asked_again() -> None:
    agents = [view(f"agent-{number}", owner_kind="DaemonSet", owner_uid="ds", grace_s=99) for number in range(3)]
    asked: list[tuple[str, int | None]] = []
    answers: list[Exception | None] = [TooManyRequestsError("later", retry_after_s=20), None]

    class Cluster:
        def evict(self, pod: PodView, grace_s: int | None) -> None:
            asked.append((pod.name, grace_s))
            if (answer := answers.pop(0)) is not None:
                raise answer

    counted: list[tuple[str, bool]] = []
    order = EvictionOrder((), longest_grace_s=60)
    evictor = DaemonEvictor(Cluster(), order, 5, lambda result, daemon=False: counted.append((result, daemon)))  # type: ignore[arg-type]
    for now_ms in (0, 19_999, 20_000, 30_000):
        evictor.evict(agents[:1], now_ms)
    evictor.evict(agents[1:], 40_000)
    assert asked == [("agent-0", 60), ("agent-0", 60)]
    assert counted == [("budget", True), ("granted", True)]


def test_daemon_pods_end_with_their_priority_group() -> None:
    low, high = replica_set("low", 1), replica_set("high", 1)
    daemon = daemon_set("agent")
    items = [
        pod("low-0", node="n0", owner=low, priority=0),
        pod("high-0", node="n0", owner=high, priority=100),
        pod("agent-0", node="n0", owner=daemon, priority=1000),
    ]
    settings = with_drain(priority_groups=(PriorityGroup(0, 5), PriorityGroup(100, 50), PriorityGroup(1000, 1)))
    stage = Stage([node("n0"), node("n1"), low, high, daemon, *items, node_group("g", nodes=["n0", "n1"])], settings)
    order: list[str] = []
    stage.cluster.faults.before = lambda operation, subject: order.append(subject) if operation == "evict" else None
    drained(stage, "n0")
    assert order == ["default/low-0", "default/high-0", "default/agent-0"]


def test_each_priority_group_has_its_grace_period_and_waits_for_the_one_before() -> None:
    low, high = replica_set("low", 1), replica_set("high", 1)
    items = [
        pod("low-0", node="n0", owner=low, priority=0, spec={"terminationGracePeriodSeconds": 300}),
        pod("high-0", node="n0", owner=high, priority=100, spec={"terminationGracePeriodSeconds": 300}),
    ]
    settings = with_drain(priority_groups=(PriorityGroup(0, 7), PriorityGroup(100, 60)))
    objects = [node("n0"), node("n1"), low, high, *items, node_group("g", nodes=["n0", "n1"])]
    stage = Stage(objects, settings, replace(DELAYS, pod_stop_s=1000))
    asked: dict[str, float] = {}
    stage.cluster.faults.before = lambda operation, subject: (
        asked.setdefault(subject, stage.time.now_s) and None if operation == "evict" else None
    )
    drained(stage, "n0")
    pause_s = asked["default/high-0"] - asked["default/low-0"]
    assert 7 <= pause_s <= 7 + settings.work.drain.poll_max_s
    assert stage.time.now_s - asked["default/high-0"] >= 60


@pytest.mark.parametrize("drain", [True, False], ids=["drained", "empty"])
def test_a_taint_removed_by_another_client_is_restored(drain: bool) -> None:
    stage = tight()
    name = "n0" if drain else "n1"
    stage.actuator.deletions.begin(stage.request("r", name, drain=drain))
    stage.time.step()
    assert stage.tainted() == {name}
    with stage.looking():
        stage.cluster.remove_taint(name, HARD_TAINT_KEY)
    stage.run_for(1.5)
    assert stage.noted("tainted") == [f"{name} {HARD_TAINT_KEY}"] * 2


def test_a_removed_taint_is_restored_before_the_next_eviction_if_pods_arrive() -> None:
    stage = tight()
    stage.start(stage.request("r", "n0"))
    stage.run_for(3)
    with stage.looking(), stage.cluster.transaction() as state:
        stage.cluster.remove_taint("n0", HARD_TAINT_KEY)
        state.put_pod(SimulatedPod(pod("late", node="n0")))
    tainted_at_eviction = []
    stage.cluster.faults.before = lambda operation, subject: (
        tainted_at_eviction.append(stage.cluster.state.nodes["n0"].node["spec"]["taints"])
        if operation == "evict"
        else None
    )
    stage.run_for(4)
    assert tainted_at_eviction
    assert all(tainted_at_eviction)


def test_a_drain_in_which_nothing_happens_is_checked_less_and_less_often() -> None:
    web = replica_set("web", 1)
    (item,) = pods_of(web, 1)
    place(item, "n0")
    frozen = pdb("frozen", labels=item["metadata"]["labels"], min_available=1)
    objects = [node("n0"), node("n1"), web, item, frozen, node_group("g", nodes=["n0", "n1"])]
    stage = Stage(objects, with_drain(eviction_retry_s=30))
    looks: list[float] = []
    stage.cluster.faults.before = lambda operation, subject: (
        looks.append(stage.time.now_s) if operation == "list_pods" else None
    )
    stage.start(stage.request("r", "n0"))
    stage.run_for(120)
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(looks) if later > earlier]
    assert pauses[1:6] == [1, 1.5, 2.25, 3.375, 5]
    assert max(pauses) == 5


def test_a_failed_drain_says_why_the_first_pod_would_not_go() -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("evict", "default/db-0", TooManyRequestsError("budget db needs 1 healthy pod")))
    stage.start(stage.request("r", "n0"))
    stage.run()
    (deletion,) = stage.status().finished
    assert list(deletion.pods_left) == ["default/db-0"]
    assert deletion.detail.endswith("default/db-0: budget db needs 1 healthy pod")


def test_the_end_of_a_drain_is_never_read_from_the_servers_cache() -> None:
    stage = Stage(small_cluster())
    real = stage.cluster.list_pods
    asked: list[bool] = []

    def list_pods(name: str, from_cache: bool = False) -> object:
        asked.append(from_cache)
        return [] if from_cache else real(name)

    stage.cluster.list_pods = list_pods  # type: ignore[method-assign, assignment]
    drained(stage, "n0")
    assert len(stage.noted("evicted")) == 3
    assert True in asked
    assert stage.noted("pod_lost") == []


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        pytest.param("", (), id="none"),
        pytest.param("0:60", (PriorityGroup(0, 60),), id="one"),
        pytest.param(" -10:5, 2000000000:600", (PriorityGroup(-10, 5), PriorityGroup(2_000_000_000, 600)), id="two"),
    ],
)
def test_priority_groups_are_read_as_upstream_writes_them(text: str, groups: tuple[PriorityGroup, ...]) -> None:
    assert priority_groups(text) == groups


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("0", "'0' is not PRIORITY:SECONDS", id="no grace"),
        pytest.param("0:1:2", "'0:1:2' is not", id="too much"),
        pytest.param("high:10", "'high:10' is not", id="no number"),
        pytest.param("0:10,", "'an empty part' is not", id="an empty part"),
        pytest.param("0:-1", "'0:-1' has a negative", id="negative"),
        pytest.param("0:1,0:2", "priority 0 is given twice", id="twice"),
    ],
)
def test_invalid_priority_groups_are_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        priority_groups(text)
