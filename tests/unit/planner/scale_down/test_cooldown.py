"""Cool-downs after a scale-up, a deletion, a failure: for the cluster, or for each node group separately."""

import pytest

from tests.builders.kubernetes import Json, node, node_group
from tests.builders.scale_down import NOW_S, Outcome, plan

CLOCK = "2027-01-15T08:00:00Z"
"""NOW_S as Kubernetes writes it."""
AT_ONCE: Json = {"unneededTime": "0s"}


def clusters(**status: str) -> list[Json]:
    """Return two groups of two empty nodes; `status` is that of the first."""
    return [
        *(node(name) for name in ("a1", "a2", "b1", "b2")),
        node_group("a", nodes=["a1", "a2"], status=dict(status)),
        node_group("b", nodes=["b1", "b2"]),
    ]


def ago(seconds: int) -> str:
    minutes, rest = divmod(8 * 3600 - seconds, 60)
    return f"2027-01-15T{minutes // 60:02}:{minutes % 60:02}:{rest:02}Z"


def decided(settings: Json, **seconds_ago: int) -> Outcome:
    status = {name: ago(value) for name, value in seconds_ago.items()}
    return plan(clusters(**status), settings=AT_ONCE | settings)


def test_the_clock_of_these_cases_is_that_of_the_builders() -> None:
    assert ago(0) == CLOCK
    assert plan(clusters(lastScaleUpTime=CLOCK), settings={"delayAfterAdd": "1s"}, now_s=NOW_S + 1).result != "ERROR"


CASES = {
    "nothing is known": ({}, {}, ""),
    "within ten minutes of a scale-up, by default": ({}, {"lastScaleUpTime": 599}, "was made larger 599 s ago"),
    "ten minutes after a scale-up": ({}, {"lastScaleUpTime": 600}, ""),
    "a scale-up in the future": ({}, {"lastScaleUpTime": -5}, "was made larger 0 s ago"),
    "no wait after a deletion, by default": ({}, {"lastDeletionTime": 0}, ""),
    "within the delay after a deletion": ({"delayAfterDelete": "60s"}, {"lastDeletionTime": 59}, "lost a node 59 s"),
    "three minutes after a failure, by default": ({}, {"lastFailureTime": 180}, ""),
    "within three minutes of a failure": ({}, {"lastFailureTime": 179}, "failed to lose a node 179 s ago"),
    "switched off": ({"delayAfterAdd": "0s", "delayAfterFailure": "0s"}, {"lastScaleUpTime": 1}, ""),
    "the longest wait is told": (
        {"delayAfterDelete": "900s"}, {"lastScaleUpTime": 10, "lastDeletionTime": 10}, "lost a node 10 s ago"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cool_down_of_any_group_stops_all_deletions(name: str) -> None:
    settings, seconds_ago, told = CASES[name]
    found = decided(settings, **seconds_ago)
    assert found.unneeded == ["a1", "a2", "b1", "b2"], "timers run all the same"
    if not told:
        assert found.result == "NODE_DELETE_STARTED"
        assert not found.decision.detail
        return
    assert found.result == "IN_COOLDOWN"
    assert told in found.decision.detail
    assert set(found.not_now.values()) == {"IN_COOLDOWN"}
    assert {entry.detail for entry in found.going} == {found.decision.detail}


@pytest.mark.parametrize("name", CASES)
def test_with_local_delays_each_group_waits_separately(name: str) -> None:
    settings, seconds_ago, told = CASES[name]
    found = decided(settings | {"delayTypeLocal": True}, **seconds_ago)
    assert found.result == "NODE_DELETE_STARTED"
    assert found.unneeded == (["b1", "b2"] if told else ["a1", "a2", "b1", "b2"])
    assert found.reasons == (dict.fromkeys(("a1", "a2"), "IN_COOLDOWN") if told else {})
    assert all(told in entry.detail for entry in found.staying)


def test_a_wait_is_not_a_reason_for_nodes_whose_time_has_not_come() -> None:
    found = plan(clusters(lastScaleUpTime=ago(5)), settings={"unneededTime": "600s"})
    assert set(found.not_now.values()) == {"NOT_UNNEEDED_LONG_ENOUGH"}
    assert found.result == "IN_COOLDOWN"


def test_timers_run_during_a_cool_down_so_that_nodes_go_right_after() -> None:
    objects = clusters(lastScaleUpTime=ago(0))
    first = plan(objects, settings={"unneededTime": "300s"})
    last = plan(objects, settings={"unneededTime": "300s"}, state=first.state, now_s=NOW_S + 600)
    assert (first.result, last.result) == ("IN_COOLDOWN", "NODE_DELETE_STARTED")
    assert list(last.decision.delete_empty) == ["a1", "a2", "b1", "b2"]
