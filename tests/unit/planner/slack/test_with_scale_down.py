"""Scale-down never removes slack, and keeps no node for it unnecessarily; scale-up adds missing slack."""

from collections import Counter
from dataclasses import replace
from random import Random

from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import snapshot_of
from tests.builders.priced_clusters import mixed_pools
from tests.builders.slack import (
    BOTH,
    NOW_S,
    asking,
    cluster,
    decide,
    dependent_count,
    five_nodes,
    node,
    owned,
    pod,
    spec,
    where,
)
from tests.certificates import scale_down
from tests.certificates.slack import offences
from trimtab.clients import verdicts
from trimtab.clients.verdicts import going
from trimtab.places import destinations, moves_by_node, on_existing, on_new_nodes
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2


def staying(answer: pb.PlanResponse) -> Counter[str]:
    name = reason_pb2.UnremovableReason.Code.Name
    return Counter(name(one.reason) for one in verdicts.staying(answer))


def test_r3_scale_down_leaves_the_nodes_that_slack_needs_and_says_so() -> None:
    given = owned(cluster(10, {f"p{i}": "n00" for i in range(8)}))
    answer = decide(given, asking(0.3), decisions=BOTH)
    # 12 cores and 48 GiB are requested: 15 placeholders, five per empty node; "n00" is full. With two nodes 2.4 cores
    # and 9.6 GiB are requested: three placeholders, for which one empty node is enough.
    assert len(where(answer)) == 15
    assert offences(given, answer, 0.3) == []
    assert len(answer.scale_down.unneeded) == 8
    assert staying(answer)["NEEDED_FOR_SLACK"] == 1


def test_r3_without_slack_all_empty_nodes_go() -> None:
    given = owned(cluster(10, {f"p{i}": "n00" for i in range(8)}))
    assert len(decide(given, asking(0.0), decisions=BOTH).scale_down.unneeded) == 9


def test_r3_a_pod_that_would_take_the_place_of_slack_keeps_its_node_for_slack() -> None:
    given = owned(cluster(2, {"a": "n00"}))
    answer = decide(given, asking(0.5, granularity=1), decisions=BOTH)
    assert offences(given, answer, 0.5, 1) == []
    # The placeholder is as large as "n01" and fits nowhere else; the pod would fit there without it.
    assert where(answer) == {"standard-0": "n01"}
    assert staying(answer) == {"NEEDED_FOR_SLACK": 2}


def test_s6_placeholders_move_with_their_nodes_and_are_not_pods_of_the_answer() -> None:
    given = owned(cluster(4, {"a": "n00", "b": "n01", "c": "n02", "d": "n03"}))
    answer = decide(given, asking(0.1), decisions=BOTH)
    assert offences(given, answer, 0.1) == []
    assert len(answer.scale_down.unneeded) == 3
    moved = set(answer.scale_down.places.pods)
    assert moved <= {f"default/{name}" for name in "abcd"}
    assert len(moved) == 3


def test_s6_the_same_nodes_stay_unneeded_loop_after_loop() -> None:
    given = owned(cluster(10, {f"p{i}": f"n0{i}" for i in range(8)}))
    first = decide(given, asking(0.2), decisions=BOTH)
    second = decide(given, asking(0.2), first.state, NOW_S + 10, BOTH)
    assert [one.node for one in second.scale_down.unneeded] == [one.node for one in first.scale_down.unneeded]
    assert second.slack == first.slack


def test_s6_an_empty_node_with_placeholders_goes_empty() -> None:
    given = owned(cluster(3, {"a": "n00"}))
    answer = decide(given, asking(0.1), decisions=BOTH)
    assert offences(given, answer, 0.1) == []
    assert set(answer.scale_down.delete_empty) == {"n01", "n02"}


def test_r3_nodes_go_for_which_only_the_slack_without_them_has_room() -> None:
    answer = decide(five_nodes(), asking(0.3), decisions=BOTH)
    assert len(where(answer)) == 8
    assert offences(five_nodes(), answer, 0.3) == []
    assert len(answer.scale_down.drain) == len(answer.scale_down.unneeded) == 2
    assert dependent_count(answer.state) == 1


def test_r3_of_nodes_that_slack_spares_only_together_none_goes_that_leaves_too_little() -> None:
    asked = asking(0.3)
    asked["scaleDown"] |= {"maxScaleDownParallelism": 1}
    answer = decide(five_nodes(), asked, decisions=BOTH)
    assert len(answer.scale_down.unneeded) == 2
    (goes,) = answer.scale_down.drain
    moves = moves_by_node(answer.scale_down.places)[goes]
    used = Counter(moves.get(f"default/{name}", row.node) for (_, name), row in five_nodes().pods.items())
    assert sum(5 - used[f"n{i:02}"] for i in range(5) if f"n{i:02}" != goes) >= 6
    assert {one.reason for one in going(answer)} <= {
        reason_pb2.UnremovableReason.UNSPECIFIED,
        reason_pb2.UnremovableReason.NEEDED_FOR_SLACK,
        reason_pb2.UnremovableReason.NOT_UNNEEDED_OTHER_REASON,
    }


def test_r3_what_slack_spares_only_with_another_node_waits_for_that_node() -> None:
    given = five_nodes()
    slow = given.groups["g"]._replace(target_size=1)
    given = replace(
        given,
        nodes=given.nodes | {"n00": node("n00", group="slow")},
        groups={"g": given.groups["g"]._replace(target_size=4), "slow": slow},
    )
    asked = asking(0.3) | {"nodeGroups": {"slow": {"unneededTime": "600s"}}}
    state = None
    for now_s, goes in ((NOW_S, set()), (NOW_S + 300, set()), (NOW_S + 600, {"n00", "n01"})):
        answer = decide(given, asked, state, now_s, BOTH)
        state = answer.state
        assert [one.node for one in answer.scale_down.unneeded] == ["n00", "n01"]
        assert set(answer.scale_down.drain) == goes
        waits = [reason_pb2.UnremovableReason.NOT_UNNEEDED_LONG_ENOUGH, reason_pb2.UnremovableReason.NEEDED_FOR_SLACK]
        assert [one.reason for one in going(answer)] == ([0, 0] if goes else waits)
        assert goes or "slack shrinks only once" in list(going(answer))[1].detail


def test_r3_what_goes_for_less_slack_is_the_same_loop_after_loop_until_its_time_has_come() -> None:
    given, asked = five_nodes(), asking(0.3)
    asked["scaleDown"] |= {"unneededTime": "600s"}
    first = decide(given, asked, decisions=BOTH)
    unneeded, state = {one.node for one in first.scale_down.unneeded}, first.state
    assert len(unneeded) == 2
    for loop in range(1, 4):
        answer = decide(given, asked, state, NOW_S + 100 * loop, BOTH)
        state = answer.state
        assert {one.node for one in answer.scale_down.unneeded} == unneeded
        assert {one.since.seconds for one in going(answer)} == {NOW_S}
        (summary,) = [one for one in answer.diagnostics.decisions if one.decision == pb.Decision.SCALE_DOWN]
        assert summary.counts["plans_tried"] == 1, "the last plan goes on without a comparison of orders"
        assert not answer.scale_down.drain
    assert set(decide(given, asked, state, NOW_S + 600, BOTH).scale_down.drain) == unneeded


def test_r3_once_they_are_gone_slack_is_there_and_nothing_comes_or_goes() -> None:
    given, state = five_nodes(), None
    for loop in range(6):
        answer = decide(given, asking(0.3), state, NOW_S + 60 * loop, ("SLACK", "SCALE_UP", "SCALE_DOWN"))
        state = answer.state
        gone = {*answer.scale_down.drain, *answer.scale_down.delete_empty}
        assert bool(gone) == (loop == 0)
        assert all(where(answer).values())
        assert not answer.scale_up.splits
        moves = destinations(answer.scale_down.places)
        pods = {key: row._replace(node=moves.get("/".join(key), row.node)) for key, row in given.pods.items()}
        nodes = {name: row for name, row in given.nodes.items() if name not in gone}
        given = replace(given, nodes=nodes, pods=pods, groups={"g": given.groups["g"]._replace(target_size=len(nodes))})
    assert len(given.nodes) == 3


def test_r3_what_goes_for_less_slack_goes_within_the_budgets_of_the_first_wave() -> None:
    """A later wave was sought in vain, with budgets that allow evictions again."""
    message = snapshot_of(*mixed_pools(7040).objects())
    request = ParseDict({"decisions": BOTH, "settings": {"slack": {"extraCapacityMinRate": 0.1}}}, pb.PlanRequest())
    request.now.seconds = NOW_S
    answer = plan(canonicalize(message), request, None, Work())
    assert len(answer.scale_down.unneeded) > 1
    assert scale_down.offences(message, request.settings, answer, NOW_S) == []


def test_r3_a_count_of_placeholders_does_not_fall_with_the_nodes() -> None:
    now = "* * * * *"
    schedule = {"cron": now, "timeZone": "UTC", "duration": "3600s", "replicas": 8}
    answer = decide(five_nodes(), asking(0.3, schedules=[schedule]), decisions=BOTH)
    assert len(where(answer)) == 8
    assert len(answer.scale_down.unneeded) == 1
    assert dependent_count(answer.state) == 0


@given(st.integers(0, 2**32), st.sampled_from([0.05, 0.2, 0.5]), st.integers(1, 6))
@examples(40)
def test_r3_random_clusters_keep_their_slack(seed: int, rate: float, granularity: int) -> None:
    random, count = Random(seed), Random(seed).randint(1, 12)
    rows = {f"n{i:02}": node(f"n{i:02}") for i in range(count)}
    pods = {}
    for name, row in rows.items():
        left = row.allocatable["cpu"]
        while random.random() < 0.6:
            size = random.choice([250, 500, 1000])
            left -= size
            if left >= 0:
                pods["default", f"p{len(pods):03}"] = pod(f"p{len(pods):03}", name, spec(size, 1))
    given = owned(replace(cluster(count), nodes=rows, pods=pods))
    asked = asking(rate, granularity=granularity)
    first = decide(given, asked, decisions=BOTH)
    assert offences(given, first, rate, granularity) == []
    again = decide(given, asked, first.state, NOW_S + 10, BOTH)
    assert offences(given, again, rate, granularity) == []
    assert where(again) == where(first)


def test_s6_scale_up_adds_nodes_for_placeholders_without_place() -> None:
    full = owned(cluster(2, {f"p{i:02}": f"n{i % 2:02}" for i in range(16)}))
    answer = decide(full, asking(0.1), decisions=("SLACK", "SCALE_UP"))
    assert where(answer) == {"standard-0": ""}
    assert [(one.node_group, one.new_size) for one in answer.scale_up.splits] == [("g", 3)]
    assert on_new_nodes(answer.scale_up) == {"g": ["standard-0"]}


def test_s6_pending_pods_come_before_placeholders_where_a_group_can_hardly_grow() -> None:
    pods = {f"p{i:02}": f"n{i % 2:02}" if i < 16 else "" for i in range(24)}
    full = owned(cluster(2, pods))
    full = replace(full, groups={"g": full.groups["g"]._replace(max_size=3)})
    answer = decide(full, asking(0.5), decisions=("SLACK", "SCALE_UP"))
    assert on_new_nodes(answer.scale_up) == {"g": [f"default/p{i}" for i in range(16, 24)]}
    assert not answer.scale_up.unschedulable


def test_s6_all_three_decisions_agree() -> None:
    pods = {f"p{i:02}": f"n{i % 2:02}" for i in range(16)}
    given = owned(cluster(2, pods))
    answer = decide(given, asking(0.1), decisions=("SLACK", "SCALE_UP", "SCALE_DOWN"))
    assert [one.new_size for one in answer.scale_up.splits] == [3]
    assert not answer.scale_down.unneeded


def test_s6_a_group_at_its_maximum_leaves_placeholders_waiting_loop_after_loop() -> None:
    full = owned(cluster(2, {f"p{i:02}": f"n{i % 2:02}" for i in range(16)}))
    full = replace(full, groups={"g": full.groups["g"]._replace(max_size=2)})
    state = None
    for loop in range(3):
        answer = decide(full, asking(0.1), state, NOW_S + loop, ("SLACK", "SCALE_UP", "SCALE_DOWN"))
        assert where(answer) == {"standard-0": ""}
        assert not answer.scale_up.splits
        assert not answer.scale_up.unschedulable
        assert answer.slack.result == reason_pb2.SlackResult.SLACK_LACKING
        state = answer.state


def test_s6_a_burst_starts_in_slack_which_then_asks_for_nodes_again() -> None:
    busy = {f"p{i:02}": f"n{i % 4:02}" for i in range(20)}
    before = decide(owned(cluster(4, busy)), asking(0.2), decisions=("SLACK", "SCALE_UP"))
    assert all(where(before).values())
    assert not before.scale_up.splits
    # As many pods as fit into slack: each of its four placeholders has room for one pod of half a core.
    held = [node for node in where(before).values()]
    burst = busy | {f"q{i:02}": "" for i in range(len(held))}
    during = decide(owned(cluster(4, burst)), asking(0.2), before.state, NOW_S + 10, ("SLACK", "SCALE_UP"))
    assert set(on_existing(during.scale_up)) == {f"default/q{i:02}" for i in range(len(held))}
    assert not during.scale_up.unschedulable
    assert {pod for pods in on_new_nodes(during.scale_up).values() for pod in pods} <= set(where(during))
