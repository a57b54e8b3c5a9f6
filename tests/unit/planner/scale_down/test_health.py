"""While too many nodes are unready none is removed; nodes with startup or status taints count as unready."""

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_down import NOW_S, plan

AT_ONCE: Json = {"unneededTime": "0s"}
CHECKS = "startup-taint.cluster-autoscaler.kubernetes.io/checks:NoSchedule"
STATUS = "status-taint.cluster-autoscaler.kubernetes.io/full:NoSchedule"


def cluster(unready: int, ready: int, how: Json | None = None) -> list[Json]:
    bad = [node(f"bad-{number}", **(how or {"ready": False})) for number in range(unready)]
    good = [node(f"good-{number}") for number in range(ready)]
    return [*bad, *good, node_group("g", nodes=[item["metadata"]["name"] for item in (*bad, *good)])]


@pytest.mark.parametrize(
    "how", [{"ready": False}, {"ready": True, "taints": [CHECKS]}, {"ready": True, "taints": [STATUS]}]
)
def test_nothing_goes_while_too_many_nodes_are_unready_but_timers_run(how: Json) -> None:
    found = plan(cluster(4, 4, how), settings=AT_ONCE)
    assert found.result == "CLUSTER_UNHEALTHY"
    assert found.decision.detail == "4 of 8 nodes are unready; no node is removed while more than 45% are"
    assert set(found.not_now.values()) == {"CLUSTER_UNHEALTHY", "NOT_UNREADY_LONG_ENOUGH"}
    assert not found.decision.delete_empty
    later = plan(cluster(3, 5, how), settings=AT_ONCE, state=found.state, now_s=NOW_S + 1)
    assert later.result == "NODE_DELETE_STARTED"


@pytest.mark.parametrize(
    ("settings", "result"),
    [
        ({"maxTotalUnreadyPercentage": 60}, "NODE_DELETE_STARTED"),
        ({"okTotalUnreadyCount": 4}, "NODE_DELETE_STARTED"),
        ({"okTotalUnreadyCount": 0}, "CLUSTER_UNHEALTHY"),
    ],
)
def test_the_limits_can_be_set(settings: Json, result: str) -> None:
    assert plan(cluster(4, 4), settings=AT_ONCE | settings).result == result


def test_nodes_that_may_still_be_starting_do_not_count() -> None:
    young = cluster(4, 4, {"ready": False, "created": "2027-01-15T07:50:00Z"})
    assert plan(young, settings=AT_ONCE).result == "NODE_DELETE_STARTED"


def test_a_node_with_such_a_taint_counts_as_unready_and_offers_no_room() -> None:
    tolerant = pod("p", cpu="1", node="good-0", tolerations=[{"operator": "Exists"}])
    tolerant["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    objects = [*cluster(1, 1, {"taints": [CHECKS]}), tolerant]
    found = plan(objects, settings=AT_ONCE | {"unreadyTime": "0s"})
    assert found.result == "NODE_DELETE_STARTED"
    assert found.unneeded == ["bad-0"]
    assert found.reasons == {"good-0": "NO_PLACE_TO_MOVE_PODS"}
    waits = plan(objects, settings=AT_ONCE)
    assert waits.not_now == {"bad-0": "NOT_UNREADY_LONG_ENOUGH"}
