"""Which nodes of a StartDeletion are accepted."""

from typing import Any

import pytest

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.admission import (
    AdmissionFacts,
    DecisionTime,
    DeletionLimits,
    GroupSizeFacts,
    NodeFacts,
    NodeRequest,
    admit,
    digest_of,
    hourly_limit,
    pending_nodes,
)
from trimtab.actuator.tracker.groups import count_nodes
from trimtab.actuator.tracker.states import HOUR_MS, NodeAnswer, Reason, Retention
from trimtab.actuator.tracker.tracker import Tracker

LIMITS = DeletionLimits(max_parallelism=3, max_drain_parallelism=1, max_plan_age_s=60)
SEEN = NodeFacts("g", ("uid-a", "uid-b"))
EMPTY = NodeFacts("g", ())


def decide(
    *requests: NodeRequest,
    tracker: Tracker | None = None,
    age_s: float | None = None,
    limits: DeletionLimits = LIMITS,
    **facts: Any,
) -> dict[str, str]:
    tracker = tracker or Tracker()
    nodes = {request.node: SEEN if request.drain else EMPTY for request in requests} | facts.get("nodes", {})
    groups = facts.get("groups", {"g": GroupSizeFacts(0, 10)})
    seen = AdmissionFacts(
        {name: node for name, node in nodes.items() if node}, groups, facts.get("pending", frozenset())
    )
    admission = admit(tracker.data, requests, seen, limits, DecisionTime(facts.get("now_ms", 0), age_s))
    assert [answer.node for answer in admission.answers] == [request.node for request in requests]
    assert {planned.node for planned in admission.nodes} == {a.node for a in admission.answers if a.accepted}
    return {a.node: "yes" if a.accepted else Reason.Name(a.reason) for a in admission.answers}


def busy(*nodes: str, drain: bool = False) -> Tracker:
    tracker = Tracker()
    planned = tuple(e.PlannedNode(node, "g", drain) for node in nodes)
    tracker.handle(e.SetAccepted("before", "d", planned, tuple(NodeAnswer(n, True) for n in nodes), 60.0), 0)
    return tracker


@pytest.mark.parametrize(
    ("facts", "answer"),
    [
        pytest.param({}, "yes", id="a node as the plan assumed"),
        pytest.param({"nodes": {"n1": None}}, "NODE_NOT_FOUND", id="no such node"),
        pytest.param({"nodes": {"n1": NodeFacts(None, ())}}, "NODE_GROUP_NOT_FOUND", id="of no group"),
        pytest.param({"groups": {}}, "NODE_GROUP_NOT_FOUND", id="of a group the cloud does not know"),
        pytest.param({"nodes": {"n1": NodeFacts("g", (), True)}}, "ALREADY_IN_PROGRESS", id="somebody's taint"),
        pytest.param({"tracker": busy("n1")}, "ALREADY_IN_PROGRESS", id="in progress"),
        pytest.param({"groups": {"g": GroupSizeFacts(3, 3)}}, "NODE_GROUP_MIN_SIZE_REACHED", id="at the minimum"),
        pytest.param({"age_s": 61.0}, "PLAN_TOO_OLD", id="an old plan"),
        pytest.param({"age_s": 59.0}, "yes", id="a fresh plan"),
        pytest.param({"age_s": -29.0}, "yes", id="a plan ahead of the clock within the skew"),
        pytest.param({"age_s": -31.0}, "PLAN_AHEAD", id="a plan ahead of the clock"),
        pytest.param({"tracker": busy("x", "y", "z")}, "LIMIT_EXCEEDED", id="limit"),
        pytest.param({"tracker": busy("x", drain=True)}, "LIMIT_EXCEEDED", id="drain limit"),
    ],
)
def test_a_node_is_answered_with_the_first_reason_that_holds(facts: dict[str, Any], answer: str) -> None:
    assert decide(NodeRequest("n1", True), **facts) == {"n1": answer}


@pytest.mark.parametrize(
    ("count", "uids", "answer"),
    [
        pytest.param(2, ("uid-a", "uid-b"), "yes", id="the pods of the plan"),
        pytest.param(2, ("uid-b", "uid-a"), "yes", id="in any order"),
        pytest.param(1, ("uid-a",), "NODE_CHANGED", id="a pod more than planned"),
        pytest.param(2, ("uid-a", "uid-c"), "NODE_CHANGED", id="another pod than planned"),
        pytest.param(3, ("uid-a", "uid-b"), "NODE_CHANGED", id="another count than planned"),
    ],
)
def test_the_pods_must_be_those_the_plan_assumed(count: int, uids: tuple[str, ...], answer: str) -> None:
    assert decide(NodeRequest("n1", True, count, digest_of(uids))) == {"n1": answer}


def test_a_node_with_pods_is_refused_without_drain() -> None:
    assert decide(NodeRequest("n1", False), nodes={"n1": SEEN}) == {"n1": "NODE_CHANGED"}


def test_refused_nodes_do_not_stop_the_others() -> None:
    requests = [NodeRequest("gone", False), NodeRequest("n1", False)]
    assert decide(*requests, nodes={"gone": None}) == {"gone": "NODE_NOT_FOUND", "n1": "yes"}


def test_empty_nodes_are_accepted_before_drains_in_any_order() -> None:
    requests = [NodeRequest("d1", True), NodeRequest("e1", False), NodeRequest("e2", False), NodeRequest("e3", False)]
    assert decide(*requests) == {"d1": "LIMIT_EXCEEDED", "e1": "yes", "e2": "yes", "e3": "yes"}


def test_a_group_is_never_taken_below_its_minimum_by_one_request() -> None:
    requests = [NodeRequest(name, False) for name in ("e1", "e2", "e3")]
    answers = decide(*requests, groups={"g": GroupSizeFacts(3, 5)})
    assert answers == {"e1": "yes", "e2": "yes", "e3": "NODE_GROUP_MIN_SIZE_REACHED"}


def test_leaving_nodes_count_until_the_target_size_excludes_them() -> None:
    tracker = busy("x")
    groups = {"g": GroupSizeFacts(3, 4)}
    assert decide(NodeRequest("n1", False), tracker=tracker, groups=groups) == {"n1": "NODE_GROUP_MIN_SIZE_REACHED"}
    for event in (e.SetTainted("before"), e.NodeEmpty("x"), e.DeleteBegun("x"), e.DeleteAccepted("x")):
        tracker.handle(event, 0)
    assert pending_nodes(tracker.data) == frozenset()
    assert decide(NodeRequest("n1", False), tracker=tracker, groups=groups) == {"n1": "yes"}


def test_a_node_excluded_while_sizes_were_read_still_counts() -> None:
    tracker = busy("x")
    for event in (e.SetTainted("before"), e.NodeEmpty("x"), e.DeleteBegun("x"), e.DeleteAccepted("x")):
        tracker.handle(event, 0)
    answers = decide(
        NodeRequest("n1", False), tracker=tracker, groups={"g": GroupSizeFacts(3, 4)}, pending=frozenset({"x"})
    )
    assert answers == {"n1": "NODE_GROUP_MIN_SIZE_REACHED"}


def test_the_digest_is_the_contracts() -> None:
    # SHA-256 of "a\nb\n", the first 16 hex digits.
    assert digest_of(["b", "a"]) == "911169ddaaf146af"
    assert digest_of([]) == "e3b0c44298fc1c14"


def removed(*times_ms: int) -> Tracker:
    """Return a tracker that has called the cloud for a node at each of these times."""
    tracker = Tracker()
    for number, time_ms in enumerate(times_ms):
        node = f"gone-{number}"
        answers = (NodeAnswer(node, True),)
        tracker.handle(e.SetAccepted(node, "d", (e.PlannedNode(node, "g", False),), answers, 60.0), time_ms)
        for event in (e.SetTainted(node), e.NodeEmpty(node), e.DeleteBegun(node), e.DeleteAccepted(node)):
            tracker.handle(event, time_ms)
        tracker.handle(e.InstanceGone(node), time_ms + 1)
    return tracker


NOW = 10 * HOUR_MS
HOURLY = LIMITS._replace(max_parallelism=100, max_drain_parallelism=100, max_nodes_per_hour=3)


@pytest.mark.parametrize(
    ("tracker", "left"),
    [
        pytest.param(Tracker(), 3, id="nothing went"),
        pytest.param(removed(NOW - 5), 2, id="one went"),
        pytest.param(removed(NOW - HOUR_MS + 1, NOW - 5, NOW - 5), 0, id="three went within the hour"),
        pytest.param(removed(NOW - HOUR_MS, NOW - 5, NOW - 5), 1, id="one of them an hour ago"),
        pytest.param(busy("x", "y", drain=True), 1, id="two in progress"),
    ],
)
def test_no_more_nodes_go_in_an_hour_than_the_policy_allows(tracker: Tracker, left: int) -> None:
    requests = [NodeRequest(f"n{number}", False) for number in range(5)]
    groups = {"g": GroupSizeFacts(0, 100)}
    answers = decide(*requests, tracker=tracker, limits=HOURLY, groups=groups, now_ms=NOW)
    assert list(answers.values()) == ["yes"] * left + ["HOURLY_LIMIT_REACHED"] * (5 - left)


def test_a_node_whose_cloud_call_failed_counts_and_one_rolled_back_before_it_does_not() -> None:
    tracker = busy("a", "b")
    tracker.handle(e.SetTainted("before"), 1)
    for event in (e.NodeEmpty("a"), e.DeleteBegun("a"), e.DeletionFailed("a", 10, "no answer")):
        tracker.handle(event, NOW - 10)
    tracker.handle(e.CancelRequested("b", "a caller"), NOW - 10)
    counted = hourly_limit(tracker.data, {}, HOURLY, NOW).counted
    for node in "ab":
        tracker.handle(e.RolledBack(node), NOW - 5)
    assert counted == hourly_limit(tracker.data, {}, HOURLY, NOW).counted == 1


@pytest.mark.parametrize(
    ("share", "most"),
    [
        pytest.param(0.1, 2, id="a tenth of 29 nodes, rounded down"),
        pytest.param(0.01, 1, id="at least one"),
        pytest.param(0.0, 0, id="none"),
        pytest.param(0.5, 3, id="the lower of both limits"),
    ],
)
def test_the_limit_may_be_a_share_of_all_nodes_those_that_went_included(share: float, most: int) -> None:
    groups = {"g": GroupSizeFacts(0, 20), "h": GroupSizeFacts(5, 8)}
    limits = HOURLY._replace(max_share_per_hour=share)
    assert hourly_limit(removed(NOW - 5).data, groups, limits, NOW)[:2] == (1, most)


def test_the_hour_is_remembered_however_short_results_are_kept_and_over_jumps_of_the_clock() -> None:
    tracker = removed(NOW - 30 * 60_000)
    tracker.retention = Retention(finished_s=0.0, evictions_s=0.0)
    tracker.handle(e.ClockJumped(-7 * HOUR_MS), NOW - 7 * HOUR_MS)
    assert tracker.data.finished == []
    loaded = Tracker.load(tracker.dump())
    for minutes, count in ((0, 1), (29, 1), (30, 0)):
        assert hourly_limit(loaded.data, {}, HOURLY, NOW - 7 * HOUR_MS + minutes * 60_000).counted == count
    assert loaded.latest_ms() == NOW - 30 * 60_000 - 7 * HOUR_MS


def gang(*nodes: str, of: str = "ns/g") -> list[NodeRequest]:
    return [NodeRequest(node, True, gang=of) for node in nodes]


DRAINS = LIMITS._replace(max_parallelism=5, max_drain_parallelism=3)


@pytest.mark.parametrize(
    ("requests", "facts", "answers"),
    [
        pytest.param(gang("a", "b", "c"), {}, "yes yes yes", id="as many as the limit allows"),
        pytest.param(gang("a", "b", "c", "d"), {}, "stays stays stays LIMIT_EXCEEDED", id="one above the limit"),
        pytest.param(
            [*gang("a", "b", "c", "d"), NodeRequest("e", True)],
            {},
            "stays stays stays LIMIT_EXCEEDED yes",
            id="a refused gang takes nothing of the limit from others",
        ),
        pytest.param(
            [NodeRequest("e", True), *gang("a", "b", "c")], {}, "yes stays stays LIMIT_EXCEEDED", id="in turn"
        ),
        pytest.param(
            [*gang("a", "b"), NodeRequest("e", True), *gang("c")],
            {},
            "yes yes LIMIT_EXCEEDED yes",
            id="where the first of its nodes stands",
        ),
        pytest.param(
            [*gang("a", "b", "c", of="ns/h"), *gang("d", "e")],
            {"nodes": {"c": None}},
            "stays stays NODE_NOT_FOUND yes yes",
            id="two gangs",
        ),
        pytest.param(
            gang("a", "b"), {"groups": {"g": GroupSizeFacts(1, 2)}}, "stays NODE_GROUP_MIN_SIZE_REACHED", id="minimum"
        ),
        pytest.param(
            gang("a", "b"), {"tracker": busy("b")}, "stays ALREADY_IN_PROGRESS", id="one is being deleted already"
        ),
    ],
)
def test_the_nodes_of_a_gang_are_all_accepted_or_none(
    requests: list[NodeRequest], facts: dict[str, Any], answers: str
) -> None:
    found = decide(*requests, limits=DRAINS, **facts)
    assert [found[one.node] for one in requests] == answers.replace("stays", "GANG_STAYS").split()


def test_the_hourly_limit_refuses_a_gang_whole() -> None:
    limits = DRAINS._replace(max_nodes_per_hour=2)
    assert decide(*gang("a", "b", "c"), NodeRequest("e", True), limits=limits) == {
        "a": "GANG_STAYS",
        "b": "GANG_STAYS",
        "c": "HOURLY_LIMIT_REACHED",
        "e": "yes",
    }


def test_what_the_policy_requires_of_a_request_is_named_where_it_is_missing() -> None:
    strict = LIMITS._replace(requires_assumption=True, requires_plan_time=True)
    assumed, bare = NodeRequest("n1", True, 2, digest_of(("uid-a", "uid-b"))), NodeRequest("n2", True)
    assert decide(assumed, limits=strict) == {"n1": "PLAN_TIME_REQUIRED"}
    assert decide(assumed, bare, limits=strict, age_s=1.0) == {"n1": "yes", "n2": "ASSUMPTION_REQUIRED"}


def test_the_share_is_of_the_least_number_of_nodes_within_the_hour() -> None:
    tracker = Tracker()
    minute_ms = 60_000
    for minutes, count in ((0, 20), (5, 60), (10, 40), (15, 50)):
        tracker.handle(e.NodesCounted(count), minutes * minute_ms)
    groups, limits = {"g": GroupSizeFacts(0, 1_000)}, HOURLY._replace(max_nodes_per_hour=None, max_share_per_hour=0.5)
    loaded = Tracker.load(tracker.dump())
    # The count of 60 is not kept, so that of 20 is taken to be in force until the next one that is.
    for minutes, most in ((15, 10), (69, 10), (71, 20), (76, 25), (600, 25)):
        assert hourly_limit(loaded.data, groups, limits, minutes * minute_ms).most == most
    tracker.handle(e.NodesCounted(10), 601 * minute_ms)
    assert hourly_limit(tracker.data, groups, limits, 601 * minute_ms).most == 5
    assert len(tracker.data.node_counts) == 1


def test_nodes_deleted_within_the_hour_are_counted_whether_their_nodes_still_exist_or_not() -> None:
    data = removed(NOW - 5, NOW - 4).data
    assert count_nodes(data, {"gone-0", "a", "b"}, NOW) == 4
    assert count_nodes(data, {"a", "b"}, NOW) == 4
    assert count_nodes(data, {"a", "b"}, NOW + HOUR_MS) == 2


def test_time_without_an_actuator_makes_no_deletion_older() -> None:
    tracker = removed(NOW)
    tracker.handle(e.NodesCounted(9), NOW + 1)
    tracker.handle(e.AbsenceEnded(5 * HOUR_MS), NOW + 5 * HOUR_MS + 1)
    assert [one.time_ms for one in tracker.data.cloud_deletion_calls] == [NOW + 5 * HOUR_MS]
    assert [one.time_ms for one in tracker.data.node_counts] == [NOW + 5 * HOUR_MS + 1]
    assert tracker.data.time_ms == NOW + 5 * HOUR_MS + 1
