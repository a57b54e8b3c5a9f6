"""In no hour are more nodes deleted than the access policy allows, however often it is requested and whenever the
actuator dies.
"""

import random
from dataclasses import replace

import grpc
import pytest

from actuator.service.external.orders import ExternalOrders, NodeOrder
from actuator.tracker.states import HOUR_MS, Retention
from clients.transport.access_policy import DeletionRules
from clients.transport.errors import ServiceError
from tests.builders.actuator import SETTINGS, Crash, Stage, small_cluster

NODES = [f"n{number}" for number in range(14)]


def guarded(**rules: object) -> Stage:
    made = DeletionRules.model_validate(rules)
    # Results expire quickly: the limit must not depend on them.
    settings = replace(SETTINGS, deletion_rules=lambda: made, retention=Retention(finished_s=1, evictions_s=1))
    return Stage(small_cluster(4, spare=10), settings)


def busiest_hour(stage: Stage) -> int:
    """Return the largest number of nodes for which the cloud was called within an hour."""
    times_ms = [entry.time_ms for entry in stage.cluster.journal() if entry.what == "deleted"]
    return max((sum(begin <= one < begin + HOUR_MS for one in times_ms) for begin in times_ms), default=0)


def ask_for_all(stage: Stage, request_id: str) -> set[str]:
    """Request the deletion of every remaining node, drained or not; return the reasons of refusals."""
    left = [name for name in NODES if name in stage.cluster.state.nodes]
    spare = {f"n{number}" for number in range(4, 14)}
    for drain in (False, True):
        nodes = [name for name in left if (name not in spare) == drain]
        if nodes:
            answers = stage.start(stage.request(f"{request_id}-{drain}", *nodes, drain=drain))
            reasons = {reason for _, reason in answers.values()}
    return reasons


def test_repeated_requests_for_all_nodes_remove_a_few_per_hour() -> None:
    stage = guarded(maxNodesPerHour=3)
    reasons: set[str] = set()
    for number in range(16):
        reasons |= ask_for_all(stage, f"r{number}")
        stage.run_for(900)
    assert busiest_hour(stage) == 3
    assert "HOURLY_LIMIT_REACHED" in reasons
    assert len(stage.noted("deleted")) == 12, "the limit lets go on, hour by hour"


@pytest.mark.parametrize("seed", range(4))
def test_dying_at_any_point_removes_no_more_nodes(seed: int) -> None:
    chance = random.Random(seed)
    stage = guarded(maxSharePerHour=0.2)
    deaths = 0
    for number in range(40):
        try:
            stage.boot(die_at=chance.randint(1, 60))
            ask_for_all(stage, f"r{number}")
            stage.run_for(chance.choice((0.5, 5, 60, 900)))
        except Crash:
            deaths += 1
    assert deaths > 10
    stage.boot()
    stage.run()
    assert 1 <= busiest_hour(stage) <= 2, "a fifth of at most 14 nodes"
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_a_policy_that_changes_holds_for_the_next_request() -> None:
    rules = DeletionRules.model_validate({"maxNodesPerHour": 0})
    settings = replace(SETTINGS, deletion_rules=lambda: rules)
    stage = Stage(small_cluster(), settings)
    assert stage.start(stage.request("r", "n6", drain=False)) == {"n6": (False, "HOURLY_LIMIT_REACHED")}
    rules = DeletionRules.model_validate({"maxNodesPerHour": 1})
    assert stage.start(stage.request("s", "n6", drain=False)) == {"n6": (True, "UNSPECIFIED")}


def test_a_cluster_autoscaler_that_deletes_through_us_is_held_to_the_same_hour() -> None:
    stage = guarded(maxNodesPerHour=3)
    actuator = stage.actuator
    orders = ExternalOrders(actuator.processor, stage.cluster, stage.cloud, limits=actuator.settings.present_limits)
    assert stage.start(stage.request("ours", "n4", drain=False)) == {"n4": (True, "UNSPECIFIED")}
    orders.begin_delete("g", [NodeOrder("n5", "test://n5")])
    with pytest.raises(ServiceError, match="maxNodesPerHour 3") as caught:
        orders.begin_delete("g", [NodeOrder("n6", "test://n6"), NodeOrder("n7", "test://n7")])
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    orders.begin_delete("g", [NodeOrder("n6", "test://n6")])
    stage.run()
    assert stage.start(stage.request("more", "n7", drain=False)) == {"n7": (False, "HOURLY_LIMIT_REACHED")}
    stage.boot()
    stage.run_for(3601)
    assert stage.start(stage.request("later", "n7", drain=False)) == {"n7": (True, "UNSPECIFIED")}
