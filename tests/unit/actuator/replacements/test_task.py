"""A replacement is carried out on a simulated cluster: what stops it, and what it leaves then."""

import dataclasses
from typing import Any

import pytest

from tests.builders.actuator import DELAYS, SETTINGS, Stage
from tests.builders.kubernetes import pod
from tests.builders.replacements import (
    BIG,
    leaving,
    new_nodes,
    nodes_of,
    replacement_request,
    result,
    soft_tainted,
    started,
    the_replacement,
    wasteful_cluster,
)
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.actuator.kube.cluster import ClusterError, RefusedError
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.common.rpc.access_policy import DeletionRules
from trimtab.places import each_place, places_of
from trimtab.v1 import actuator_pb2, plan_pb2

NEVER_S = 1e6


def stage_with(settings: ActuatorSettings = SETTINGS, delays: Delays = DELAYS, **sizes: int) -> Stage:
    return Stage(wasteful_cluster(**sizes), settings, delays)


def out_of_stock(stage: Stage, *groups: str) -> None:
    for group in groups:
        stage.cluster.faults.add(Fault("set_size", group, CloudRefusedError("no capacity"), times=100))


def arrive(stage: Stage, name: str, node: str) -> None:
    """Let a pod come to a node, whatever its taints."""
    with stage.looking(), stage.cluster.transaction() as state:
        state.put_pod(SimulatedPod(pod(name, node=node, cpu="100m")))


def sizes(stage: Stage) -> dict[str, int]:
    """Return the nodes of each group once the cloud has ended what it was asked to; the target sizes are the same."""
    stage.run_for(10.0)
    with stage.cluster.transaction():
        pass
    found = {group: len(nodes_of(stage, group)) for group in ("big", "small", "spare", "dear")}
    assert {group: stage.target(group) for group in found} == found
    return {group: size for group, size in found.items() if size}


class SlowGroups(Delays):
    """Nodes of "small" take very long."""

    def node_start_of(self, name: str, group: str) -> float:
        return NEVER_S if group == "small" else super().node_start_of(name, group)


class SomeSlow(Delays):
    """The second node of "small" takes very long."""

    def __init__(self, **delays: float) -> None:
        super().__init__(**delays)
        object.__setattr__(self, "seen", [])

    def node_start_of(self, name: str, group: str) -> float:
        if group == "small" and name not in self.seen:  # type: ignore[attr-defined]
            self.seen.append(name)  # type: ignore[attr-defined]
        is_late = group == "small" and self.seen.index(name) == 1  # type: ignore[attr-defined]
        return NEVER_S if is_late else super().node_start_of(name, group)


def test_large_nodes_are_replaced_once_the_small_ones_are_ready() -> None:
    stage = stage_with()
    assert started(stage, replacement_request(stage)) == (True, "UNSPECIFIED")
    stage.run_for(2.0)
    assert soft_tainted(stage) == set(BIG)
    assert stage.noted("evicted") == []
    stage.run()
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert sizes(stage) == {"small": 2}
    assert the_replacement(stage).achieved_saving_per_hour == pytest.approx(0.8)
    assert soft_tainted(stage) == stage.tainted() == set()
    assert (stage.active_pods("web"), stage.violations) == (6, [])


def test_without_a_node_or_an_alternative_everything_is_as_before() -> None:
    stage = stage_with()
    out_of_stock(stage, "small", "spare")
    started(stage, replacement_request(stage, alternatives=("spare",)))
    stage.run()
    assert result(stage) == ("FAILED", "NEW_NODES_MISSING")
    assert "no capacity" in the_replacement(stage).detail
    assert (sizes(stage), soft_tainted(stage), stage.noted("evicted")) == ({"big": 3}, set(), [])
    assert list(the_replacement(stage).new_nodes[0].failed_node_groups) == ["small", "spare"]


def test_an_alternative_that_costs_too_much_is_given_back_before_the_first_drain() -> None:
    stage = stage_with()
    out_of_stock(stage, "small")
    started(stage, replacement_request(stage, alternatives=("dear",)))
    stage.run()
    assert result(stage) == ("FAILED", "SAVING_NOT_ACHIEVED")
    assert new_nodes(stage) == {name: ("dear", "GIVEN_BACK") for name in ("small#0", "small#1")}
    assert (sizes(stage), soft_tainted(stage), stage.noted("evicted")) == ({"big": 3}, set(), [])


def test_the_least_saving_decides_about_an_alternative() -> None:
    def ended(least: float) -> tuple[str, str]:
        stage = stage_with()
        out_of_stock(stage, "small")
        started(stage, replacement_request(stage, alternatives=("spare",), min_saving_per_hour=least))
        stage.run()
        return result(stage)

    assert ended(0.7) == ("DONE", "UNSPECIFIED")
    assert ended(0.71) == ("FAILED", "SAVING_NOT_ACHIEVED")


def test_an_alternative_without_a_price_is_not_tried() -> None:
    objects = wasteful_cluster()
    del next(one for one in objects if one["metadata"]["name"] == "spare")["spec"]["price"]
    stage = Stage(objects)
    out_of_stock(stage, "small")
    started(stage, replacement_request(stage, alternatives=("spare",)))
    stage.run()
    assert result(stage) == ("FAILED", "NEW_NODES_MISSING")
    priced = Stage(objects)
    out_of_stock(priced, "small")
    started(priced, replacement_request(priced, alternatives=("spare",), prices_per_hour={"spare": 0.3}))
    priced.run()
    assert result(priced) == ("DONE", "UNSPECIFIED")
    assert the_replacement(priced).achieved_saving_per_hour == pytest.approx(0.6)


def test_nodes_that_do_not_start_in_time_are_given_up_and_an_alternative_serves() -> None:
    stage = stage_with(delays=SlowGroups(**dataclasses.asdict(DELAYS)))
    request = replacement_request(stage, alternatives=("spare",))
    request.ready_timeout.FromSeconds(60)
    started(stage, request)
    stage.run()
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert sizes(stage) == {"spare": 2}
    assert new_nodes(stage)["small#0@small"] == ("small", "MISSING")


def test_a_node_whose_pods_need_a_node_that_did_not_come_stays() -> None:
    stage = stage_with(delays=SomeSlow(**dataclasses.asdict(DELAYS)))
    request = replacement_request(stage)
    request.ready_timeout.FromSeconds(60)
    started(stage, request)
    stage.run()
    assert result(stage) == ("DONE", "NEW_NODES_MISSING")
    assert leaving(stage) == {"big-0": "GONE", "big-1": "STAYS", "big-2": "STAYS"}
    assert sizes(stage) == {"big": 2, "small": 1}
    assert the_replacement(stage).achieved_saving_per_hour == pytest.approx(0.2)


def test_a_pod_that_arrives_keeps_its_node_and_a_new_node_not_needed_then_goes_again() -> None:
    stage = stage_with()
    started(stage, replacement_request(stage))
    stage.run_for(1.0)
    for node in ("big-1", "big-2"):
        arrive(stage, f"late-{node}", node)
    stage.run()
    assert result(stage) == ("DONE", "LEAVING_NODES_STAY")
    assert leaving(stage) == {"big-0": "GONE", "big-1": "STAYS", "big-2": "STAYS"}
    assert new_nodes(stage) == {"small#0": ("small", "READY"), "small#1": ("small", "GIVEN_BACK")}
    assert sizes(stage) == {"big": 2, "small": 1}
    assert soft_tainted(stage) == set()


def test_a_new_node_that_has_got_pods_meanwhile_stays_after_a_roll_back() -> None:
    stage = stage_with()
    started(stage, replacement_request(stage))
    stage.run_for(4.5)
    (first, second) = nodes_of(stage, "small")
    arrive(stage, "newcomer", first)
    order = actuator_pb2.CancelReplacementRequest(request_ids=["w1"], reason="an operator")
    assert stage.actuator.replacements.cancel(order) == (["w1"], [])
    stage.run()
    assert result(stage) == ("CANCELLED", "REPLACEMENT_CANCELLED")
    assert sorted(new_nodes(stage).values()) == [("small", "GIVEN_BACK"), ("small", "STAYS")]
    assert nodes_of(stage, "small") == [first]
    assert second not in stage.cluster.state.nodes
    assert stage.actuator.replacements.cancel(order) == (["w1"], []), "idempotent"


def test_a_cancelled_replacement_keeps_the_nodes_that_the_cloud_was_not_asked_to_delete() -> None:
    stage = stage_with()
    started(stage, replacement_request(stage))
    while not any(one == "GONE" for one in leaving(stage).values()):
        stage.time.step()
    stage.actuator.replacements.cancel(actuator_pb2.CancelReplacementRequest(request_ids=["w1"]))
    stage.run()
    assert result(stage) == ("DONE", "REPLACEMENT_CANCELLED")
    assert "STAYS" in leaving(stage).values()
    assert stage.tainted() == soft_tainted(stage) == set()
    assert (stage.active_pods("web"), stage.violations) == (6, [])


def test_a_group_that_grows_for_others_meanwhile_gives_each_its_nodes() -> None:
    from trimtab.v1 import plan_pb2

    stage = stage_with()
    started(stage, replacement_request(stage))
    split = plan_pb2.ScaleUpSplit(node_group="small", current_size=0, new_size=3)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id="grow", splits=[split]))
    stage.run()
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert sizes(stage) == {"small": 5}


def test_a_new_node_that_is_lost_before_the_drains_is_not_drained_for() -> None:
    stage = stage_with()
    started(stage, replacement_request(stage))
    while "READY" not in {state for _, state in new_nodes(stage).values()}:
        stage.time.step()
    lost = the_replacement(stage).new_nodes[1].node
    with stage.looking():
        stage.cluster.delete_node(lost, stage.cluster.get_node(lost).uid)
    stage.run()
    assert leaving(stage) == {"big-0": "GONE", "big-1": "STAYS", "big-2": "STAYS"}
    assert (stage.active_pods("web"), stage.violations) == (6, [])


@pytest.mark.parametrize(
    "fault",
    [
        Fault("add_taint", error=ClusterError("conflict"), times=3),
        Fault("remove_taint", error=ClusterError("conflict"), times=3),
        Fault("set_size", error=CloudError("throttled"), times=3),
        Fault("instances", error=CloudError("throttled"), times=3),
        Fault("node_groups", error=CloudError("throttled"), times=1),
        Fault("list_nodes", error=ClusterError("timeout"), times=3),
        Fault("evict", error=ClusterError("timeout"), times=5),
        Fault("delete_instances", error=CloudError("throttled"), times=3),
    ],
    ids=lambda fault: str(fault.operation),
)
def test_a_call_that_fails_for_a_while_only_delays(fault: Fault) -> None:
    stage = stage_with()
    request = replacement_request(stage)
    started(stage, request)
    stage.cluster.faults.add(fault)
    stage.run()
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert sizes(stage) == {"small": 2}
    assert stage.noted("evicted_twice") == []


def test_a_refused_soft_taint_ends_it_before_anything_is_ordered() -> None:
    stage = stage_with()
    stage.cluster.faults.add(Fault("add_taint", "big-1", RefusedError("forbidden")))
    started(stage, replacement_request(stage))
    stage.run()
    assert result(stage) == ("FAILED", "FAILED_TO_MARK_LEAVING")
    assert (sizes(stage), soft_tainted(stage), stage.noted("grown")) == ({"big": 3}, set(), [])


def test_drains_begin_only_as_far_as_the_limits_allow() -> None:
    limits = DeletionLimits(max_parallelism=1, max_drain_parallelism=1, max_plan_age_s=300)
    stage = stage_with(dataclasses.replace(SETTINGS, limits=limits))
    started(stage, replacement_request(stage))
    most = 0
    while stage.time.step():
        most = max(most, len(stage.status().deletions))
    assert (result(stage), most) == (("DONE", "UNSPECIFIED"), 1)


def test_a_node_that_waits_for_drains_of_its_own_wave_has_time_however_long_these_take() -> None:
    limits = DeletionLimits(max_parallelism=1, max_drain_parallelism=1, max_plan_age_s=300)
    slow = dataclasses.replace(DELAYS, pod_stop_s=25.0)
    stage = stage_with(dataclasses.replace(SETTINGS, limits=limits), slow)
    request = replacement_request(stage)
    request.ready_timeout.FromSeconds(20)
    started(stage, request)
    stage.run()
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert the_replacement(stage).stage_time.seconds - the_replacement(stage).start_time.seconds > 60


def test_a_node_for_which_others_leave_no_room_in_the_limits_stays() -> None:
    limits = DeletionLimits(max_parallelism=1, max_drain_parallelism=1, max_plan_age_s=300)
    stage = stage_with(dataclasses.replace(SETTINGS, limits=limits))
    with stage.looking(), stage.cluster.transaction() as state:
        state.put_pod(SimulatedPod(pod("alone", node="big-0", cpu="100m", grace=3600)))
    request = replacement_request(stage)
    request.wave.leaving.pop(0)
    request.ready_timeout.FromSeconds(20)
    stage.cluster.faults.add(Fault("evict", "default/alone", ClusterError("timeout"), times=1000))
    stage.start(stage.request("other", "big-0"))
    assert started(stage, request)[0]
    stage.run()
    assert result(stage) == ("FAILED", "LEAVING_NODES_STAY")
    assert leaving(stage) == {"big-1": "STAYS", "big-2": "STAYS"}
    assert soft_tainted(stage) == set()


def test_the_hourly_limit_holds_for_replacements() -> None:
    rules = DeletionRules(maxNodesPerHour=1)
    stage = stage_with(dataclasses.replace(SETTINGS, deletion_rules=lambda: rules))
    request = replacement_request(stage)
    request.ready_timeout.FromSeconds(60)
    assert started(stage, request) == (False, "LEAVING_NODE_REFUSED")


def leave_from(wave: plan_pb2.ReplacementWave, node: str) -> None:
    """Give the first node that leaves another name."""
    before = wave.leaving[0].node
    wave.leaving[0].node = node
    rows = [(pod, node if source == before else source, to) for pod, source, to in each_place(wave.places)]
    wave.places.CopyFrom(places_of(rows))


REFUSED: dict[str, tuple[str, Any]] = {
    "an old plan": ("REPLACEMENT_PLAN_TOO_OLD", lambda stage, request: request.plan_time.FromSeconds(1)),
    "a plan from the future": (
        "REPLACEMENT_PLAN_AHEAD",
        lambda stage, request: request.plan_time.FromSeconds(int(stage.time.now_s) + 3600),
    ),
    "another pod": ("LEAVING_NODE_REFUSED", lambda stage, request: arrive(stage, "late", "big-0")),
    "a node that does not exist": (
        "LEAVING_NODE_REFUSED",
        lambda stage, request: leave_from(request.wave, "nowhere"),
    ),
    "an unknown group": (
        "NEW_NODE_GROUP_FULL",
        lambda stage, request: setattr(request.wave.new_nodes[0], "node_group", "nowhere"),
    ),
    "too little to save": (
        "PLANNED_SAVING_TOO_SMALL",
        lambda stage, request: setattr(request, "min_saving_per_hour", 0.81),
    ),
    "a node that is being deleted": (
        "LEAVING_NODE_REFUSED",
        lambda stage, request: stage.start(stage.request("other", "big-0")),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_stands_against_a_plan_is_a_refusal_and_changes_nothing(case: str) -> None:
    reason, change = REFUSED[case]
    stage = stage_with()
    request = replacement_request(stage)
    change(stage, request)
    assert started(stage, request) == (False, reason)
    assert not stage.status().replacements
    assert soft_tainted(stage) == set()


def test_a_full_group_is_refused_unless_there_is_an_alternative() -> None:
    stage = stage_with(small_max=1)
    assert started(stage, replacement_request(stage)) == (False, "NEW_NODE_GROUP_FULL")
    assert started(stage, replacement_request(stage, alternatives=("spare",)))[0]
    stage.run()
    assert sizes(stage) == {"small": 1, "spare": 1}
    assert the_replacement(stage).achieved_saving_per_hour == pytest.approx(0.75)


def test_one_replacement_is_in_progress_at_a_time() -> None:
    stage = stage_with()
    request = replacement_request(stage)
    assert started(stage, request)[0]
    assert started(stage, request) == (True, "UNSPECIFIED"), "the same request starts nothing twice"
    assert started(stage, replacement_request(stage, "w2")) == (False, "REPLACEMENT_IN_PROGRESS")
    stage.run()
    assert started(stage, request) == (True, "UNSPECIFIED")
    assert stage.noted("grown") == ["small 2"]


def test_a_new_node_that_was_taken_for_an_unneeded_one_loses_its_soft_taint_before_pods_come() -> None:
    from trimtab.actuator.kube.cluster import PREFER_NO_SCHEDULE, TaintView
    from trimtab.common.kubernetes.names import SOFT_TAINT_KEY

    stage = stage_with()
    started(stage, replacement_request(stage))
    stage.run_for(4.0)
    for name in nodes_of(stage, "small"):
        stage.cluster.add_taint(name, TaintView(SOFT_TAINT_KEY, "1", PREFER_NO_SCHEDULE))
    stage.run()
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert soft_tainted(stage) == set()


def test_nodes_that_take_part_keep_their_soft_taints_whatever_is_unneeded() -> None:
    from trimtab.actuator.service.soft_taints import apply_soft_taints
    from trimtab.actuator.tracker.replacements import participants

    stage = stage_with()
    started(stage, replacement_request(stage))
    while "READY" not in {state for _, state in new_nodes(stage).values()}:
        stage.time.step()
    taking_part = set(stage.actuator.processor.read(lambda tracker, _: participants(tracker.data)))
    new = set(nodes_of(stage, "small"))
    assert taking_part == {*BIG, *new}
    apply_soft_taints(stage.cluster, new, taking_part, stage.settings.soft_taints, 1)
    assert soft_tainted(stage) == set(BIG)
