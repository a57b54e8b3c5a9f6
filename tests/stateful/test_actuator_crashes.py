"""The actuator dies at every store write and every call to cluster and cloud, restarts, and still ends correctly.

In the suite it dies at a third of them, in the nightly tier (`TRIMTAB_ALL_DEATHS=1`) at each.
"""

import random
from pathlib import Path

import pytest

from tests.builders.actuator import Crash, Stage, small_cluster, sql_store
from tests.builders.tiers import ALL_DEATHS
from trimtab.v1 import actuator_pb2, plan_pb2

STRIDE = 1 if ALL_DEATHS else 3
DRAINED = ("n0", "n1", "n2")
EMPTY = ("n6", "n7")
GROWTH = actuator_pb2.ScaleUpRequest(
    request_id="grow", splits=[plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=10)]
)


def scenario(stage: Stage) -> None:
    """Make a caller's requests; repeated with the same request ids after each crash, as a caller would do."""
    drains = stage.request("drains", *DRAINED)
    empties = stage.request("empties", *EMPTY, drain=False)
    stage.start(drains)
    stage.start(empties)
    stage.actuator.growths.begin(GROWTH)
    stage.run()


def survive(stage: Stage, moments: list[int]) -> int:
    """Run the scenario and die at the given point of each life; return the number of points of the last life."""
    for moment in moments:
        try:
            stage.boot(die_at=moment)
            scenario(stage)
        except Crash:
            continue
        break
    stage.boot()
    scenario(stage)
    return stage.breaker.count


def check_the_end(stage: Stage) -> None:
    gone = {*DRAINED, *EMPTY}
    assert {node: state for node, (state, _) in stage.finished().items()} == dict.fromkeys(gone, "DELETED")
    assert len(stage.status().finished) == len(gone), "something was deleted twice"
    assert not stage.status().deletions
    assert not gone & set(stage.cluster.state.nodes)
    assert stage.target("g") == 8 - 5 + 2
    assert len(stage.cluster.state.instances) == 8 - 5 + 2
    assert stage.tainted() == set()
    assert stage.violations == []
    assert stage.noted("evicted_twice") == []
    assert stage.noted("pod_lost") == []
    evicted = stage.noted("evicted")
    assert len(evicted) == len(set(evicted)) == 9
    assert {eviction.uid for eviction in stage.status().recent_evictions} == set(evicted), "an eviction was forgotten"
    assert (stage.active_pods("web"), stage.active_pods("db")) == (12, 6)
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def moments_in_one_life() -> int:
    stage = Stage(small_cluster())
    count = survive(stage, [])
    check_the_end(stage)
    return count


def test_a_life_has_enough_points_to_die_at() -> None:
    assert moments_in_one_life() > 200


def test_dying_once_at_any_point_loses_nothing_and_does_nothing_twice() -> None:
    for moment in range(1, moments_in_one_life() + 1, STRIDE):
        stage = Stage(small_cluster())
        survive(stage, [moment])
        try:
            check_the_end(stage)
        except AssertionError as error:
            raise AssertionError(f"died at moment {moment}") from error


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 4))])
def test_dying_repeatedly_loses_nothing_and_does_nothing_twice(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        moments = [chance.randint(1, 120) for _ in range(chance.randint(2, 6))]
        stage = Stage(small_cluster())
        survive(stage, moments)
        try:
            check_the_end(stage)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: died at moments {moments}") from error


def test_dying_with_the_store_on_disk_loses_nothing(tmp_path: Path) -> None:
    for moment in range(5, moments_in_one_life() + 1, 23):
        stage = Stage(small_cluster(), open_store=sql_store(tmp_path / f"{moment}.sqlite"))
        survive(stage, [moment])
        check_the_end(stage)


def test_a_repeated_request_gets_the_answer_it_got_before_the_crash() -> None:
    stage = Stage(small_cluster())
    request = stage.request("r", "n0", "nowhere", "n6", assume=True)
    before = stage.start(request)
    stage.boot()
    assert stage.start(request) == before
    stage.run()
    assert stage.start(request) == before
    assert before == {
        "n0": (True, "UNSPECIFIED"),
        "nowhere": (False, "NODE_NOT_FOUND"),
        "n6": (True, "UNSPECIFIED"),
    }
    assert set(stage.finished()) == {"n0", "n6"}


def test_a_set_that_failed_before_the_crash_is_rolled_back_after_it() -> None:
    from trimtab.actuator.kube.cluster import RefusedError
    from trimtab.clients.simulation.cluster.faults import Fault

    def life(die_at: int | None) -> Stage:
        stage = Stage(small_cluster())
        stage.cluster.faults.add(Fault("add_taint", "n1", RefusedError("forbidden")))
        request = stage.request("r", *DRAINED)
        try:
            stage.boot(die_at)
            stage.start(request)
            stage.run()
        except Crash:
            stage.boot()
            stage.start(request)
            stage.run()
        return stage

    count = life(None).breaker.count
    for moment in range(1, count + 1):
        stage = life(moment)
        assert stage.tainted() == set(), f"moment {moment}"
        assert stage.finished() == {
            "n0": ("FAILED", "SET_ROLLED_BACK"),
            "n1": ("FAILED", "FAILED_TO_MARK_TO_BE_DELETED"),
            "n2": ("FAILED", "SET_ROLLED_BACK"),
        }, f"moment {moment}"
        assert stage.noted("evicted") == []
        assert stage.target("g") == 8


def test_a_cancelled_drain_is_rolled_back_whenever_the_process_dies() -> None:
    def life(die_at: int | None) -> Stage:
        stage = Stage(small_cluster())
        request = stage.request("r", "n0", "n1")
        lives = 0
        while True:
            try:
                stage.boot(die_at if lives == 0 else None)
                stage.start(request)
                stage.run_for(1.5)
                stage.actuator.deletions.begin_cancel(["n0"], "changed my mind")
                stage.run()
                return stage
            except Crash:
                lives += 1

    count = life(None).breaker.count
    for moment in range(1, count + 1, STRIDE):
        stage = life(moment)
        finished = stage.finished()
        assert finished["n1"] == ("DELETED", "UNSPECIFIED"), f"moment {moment}"
        assert finished["n0"] in {("CANCELLED", "CANCELLED"), ("DELETED", "UNSPECIFIED")}, f"moment {moment}"
        assert stage.tainted() == set(), f"moment {moment}"
        assert stage.noted("evicted_twice") == []
        uids = {eviction.uid for eviction in stage.status().recent_evictions}
        assert uids == set(stage.noted("evicted")), f"moment {moment}"


def test_an_eviction_granted_unseen_is_remembered_though_the_drain_is_cancelled_at_once() -> None:
    def life(die_at: int | None) -> Stage:
        stage = Stage(small_cluster())
        request = stage.request("r", "n0", "n1")
        try:
            stage.boot(die_at)
            stage.start(request)
            stage.run_for(1.5)
            stage.breaker.die_at = None
        except Crash:
            stage.boot()
        stage.actuator.deletions.begin_cancel(["n0", "n1"], "changed my mind")
        # Nothing has read the node since: the roll-back is the first to do so.
        stage.boot()
        stage.run()
        return stage

    most = 0
    for moment in range(1, 60, STRIDE):
        stage = life(moment)
        most = max(most, len(stage.noted("evicted")))
        assert stage.tainted() == set(), f"moment {moment}"
        uids = {eviction.uid for eviction in stage.status().recent_evictions}
        assert uids == set(stage.noted("evicted")), f"moment {moment}"
    assert most >= 4, "evictions are under way at the later moments"


def test_an_eviction_granted_unseen_is_remembered_though_the_node_is_gone() -> None:
    stage = Stage(small_cluster())
    moment = 0
    while not stage.noted("evicted") or {one.uid for one in stage.status().recent_evictions}:
        moment += 1
        stage = Stage(small_cluster())
        try:
            stage.boot(die_at=moment)
            stage.start(stage.request("r", "n0"))
            stage.run_for(1.5)
        except Crash:
            stage.boot()
    # Died between the eviction and its record.
    with stage.looking():
        stage.cluster.delete_node("n0", stage.cluster.get_node("n0").uid)
    stage.run()
    assert stage.finished() == {"n0": ("FAILED", "NODE_GONE")}
    # It is unknown which pods were deleted with the node: all that may have been evicted are remembered.
    assert {one.uid for one in stage.status().recent_evictions} > set(stage.noted("evicted"))


def test_an_empty_node_that_is_cancelled_before_its_check_keeps_no_taint() -> None:
    stage = Stage(small_cluster())
    stage.start(stage.request("r", "n6", drain=False))
    stage.actuator.deletions.begin_cancel(["n6"], "changed my mind")
    stage.run()
    assert stage.finished() == {"n6": ("CANCELLED", "CANCELLED")}
    assert stage.tainted() == set()
