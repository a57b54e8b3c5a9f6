"""The actuator dies at every store write and every call while it moves a gang whole: all its nodes go, or none does.

In the suite it dies at a seventh of them, in the nightly tier (`TRIMTAB_ALL_DEATHS=1`) at each.
"""

from tests.builders.actuator import Crash, Stage, place, small_cluster
from tests.builders.kubernetes import pod
from tests.builders.tiers import ALL_DEATHS
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.v1 import actuator_pb2

GANG = ("n0", "n1", "n2")
STRIDE = 1 if ALL_DEATHS else 7


def begin(stage: Stage, request: actuator_pb2.StartDeletionRequest, die_at: int | None) -> None:
    """Make a request, die once, and make it again as a caller would."""
    for moment in (die_at, None):
        try:
            stage.boot(moment)
            stage.start(request)
            stage.run()
        except Crash:
            continue
        return


def moved(die_at: int | None) -> Stage:
    stage = Stage(small_cluster())
    begin(stage, stage.request("r", *GANG, gang="default/g", assume=True), die_at)
    return stage


def unmovable(die_at: int | None) -> Stage:
    """Return a stage where a pod has come to the last node of the gang since the plan, but only once it is tainted."""
    stage = Stage(small_cluster())
    request = stage.request("r", *GANG, gang="default/g", assume=True)
    late = pod("late", tolerations=[{"operator": "Exists"}])
    place(late, "n2")
    taints = stage.cluster.add_taint

    def taint_then_pod(node: str, *more: object) -> None:
        taints(node, *more)  # type: ignore[arg-type]
        if node == "n2" and ("default", "late") not in stage.cluster.state.pods:
            with stage.looking(), stage.cluster.transaction() as state:
                state.put_pod(SimulatedPod(late))

    stage.cluster.add_taint = taint_then_pod  # type: ignore[assignment,method-assign]
    begin(stage, request, die_at)
    return stage


def test_all_nodes_of_a_gang_go_whenever_the_process_dies() -> None:
    count = moved(None).breaker.count
    assert count > 100
    for moment in range(1, count + 1, STRIDE):
        stage = moved(moment)
        assert stage.finished() == dict.fromkeys(GANG, ("DELETED", "UNSPECIFIED")), f"moment {moment}"
        assert len(stage.noted("evicted")) == len(set(stage.noted("evicted"))) == 9
        assert stage.tainted() == set()
        stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_no_pod_of_a_gang_is_evicted_if_one_of_its_nodes_cannot_go_whenever_the_process_dies() -> None:
    whole = unmovable(None)
    stays = ("FAILED", "GANG_STAYS")
    assert whole.finished() == {"n0": stays, "n1": stays, "n2": ("FAILED", "NODE_CHANGED")}
    count = whole.breaker.count
    for moment in range(1, count + 1, STRIDE):
        stage = unmovable(moment)
        assert stage.noted("evicted") == [], f"moment {moment}"
        assert stage.noted("deleted") == []
        assert stage.tainted() == set(), f"moment {moment}"
        assert {state for state, _ in stage.finished().values()} <= {"FAILED"}
        assert stage.target("g") == 8


def test_no_pod_is_evicted_while_the_pods_of_another_node_of_the_gang_cannot_be_read() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", *GANG, gang="default/g"))
    stage.cluster.faults.add(Fault("list_pods", "n1", ClusterError("timeout"), times=30))
    stage.run_for(20)
    assert stage.noted("evicted") == []
    stage.run()
    assert stage.finished() == dict.fromkeys(GANG, ("DELETED", "UNSPECIFIED"))


def test_a_gang_whose_drains_do_not_all_begin_in_time_stays() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", *GANG, gang="default/g"))
    stage.cluster.faults.add(Fault("list_pods", "n1", ClusterError("timeout"), times=10_000))
    stage.run_for(700)
    stage.cluster.faults.clear()
    stage.run()
    assert stage.noted("evicted") == []
    assert {state for state, _ in stage.finished().values()} == {"FAILED"}
    assert stage.tainted() == set()
    details = {one.node: one.detail for one in stage.status().finished}
    assert any("did not begin within 600 s" in detail for detail in details.values())
