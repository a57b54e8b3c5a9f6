"""Requirements (R) and specifications (S) of resource slack, each with a test named after it.

R1 slack is cheap and stable; R2 it is available; R3 scale-down keeps it; R4 pods come before placeholders; R5 to R9
sizes, the largest pod, medium pods, anti-affinity, selectors; R10 all kinds of slack at once. S1 to S7 are the steps of
a loop: keep, desired capacity, desired number and size, difference, places, other decisions, state.
"""

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.slack import GIB, NOW_S, cluster, decide, node, pod, sizes, spec, total, where
from tests.builders.snapshots import Cluster, write
from trimtab.planner.model.values import AffinityTerm, LabelRequirement, SlackRequest
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.virtual_rows import NO_KINDS, VirtualPod, VirtualRows
from trimtab.planner.slack.placeholder_sets import PlaceholderSet, size_columns
from trimtab.planner.slack.places import arrange, placeholder_table
from trimtab.planner.slack.state import NO_PREVIOUS_SETS
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator

STANDARD = (800, 3435973836)


def test_r1_1_equal_placeholders_are_tried_with_one_scan_over_the_nodes() -> None:
    busy = {f"p{i:03}": f"n{i % 20:02}" for i in range(100)}
    snapshot = canonicalize(write(cluster(20, busy)))
    one = PlaceholderSet("standard", pb.PlaceholderKind.STANDARD, VirtualPod("default", spec(700, 1)), 50, {"cpu": 700})
    simulation = build_simulation(snapshot, VirtualRows((one.pod,) * 50))
    wanted = placeholder_table((one,), size_columns((one,)), NO_PREVIOUS_SETS, snapshot)
    placed = arrange(simulation, wanted, simulation.pod_count, np.ones(20, np.bool_))
    assert (placed.node >= 0).sum() == 40
    # Each node is passed once, and each placeholder is tried where it is placed; the last one ends the search.
    assert placed.tried.tolist() == [20 + 40]


def test_r1_2_an_unchanged_cluster_has_the_same_placement_in_every_loop() -> None:
    given = cluster(10, {f"p{i:02}": f"n{i % 7:02}" for i in range(30)})
    answer = decide(given)
    for loop in range(5):
        following = decide(given, state=answer.state, now_s=NOW_S + 10 * loop)
        assert following.slack == answer.slack
        assert following.state == answer.state
        answer = following


def test_r1_2_after_50_loops_of_churn_only_what_had_to_move_has_moved() -> None:
    random, pods = Random(7), {f"p{i:03}": f"n{i % 20:02}" for i in range(60)}
    answer = decide(cluster(20, pods))
    for loop in range(50):
        del pods[random.choice(sorted(pods))]
        used = Counter(pods.values())
        held = Counter(where(answer).values())
        free = [n for n in (f"n{i:02}" for i in range(20)) if 500 * used[n] + 800 * held[n] + 500 <= 4000]
        pods[f"q{loop:03}"] = random.choice(free)
        following = decide(cluster(20, pods), state=answer.state)
        assert where(following) == where(answer)
        assert not following.slack.pushed_out
        answer = following


def test_r1_2_of_the_placeholders_on_a_node_as_few_are_pushed_out_as_make_room() -> None:
    given = cluster(10, {"a": "n00"})
    first = decide(given)
    on_node = sorted(name for name, at in where(first).items() if at == "n00")
    assert len(on_node) == 4
    # 4000m less 500m and 4 times 800m leave 300m: each two pods more take the room of one or two placeholders.
    more = decide(cluster(10, {"a": "n00", "b": "n00", "c": "n00"}), state=first.state)
    assert list(more.slack.pushed_out) == on_node[3:]
    assert {name for name, at in where(more).items() if at == "n00"} == set(on_node[:3])
    assert all(where(more).values())


@given(st.integers(0, 2**32), st.sampled_from([0.05, 0.1, 0.3, 0.9]), st.integers(1, 8))
@examples(40)
def test_r2_the_sum_is_at_least_the_asked_rate_in_cpu_and_memory(seed: int, rate: float, granularity: int) -> None:
    random = Random(seed)
    nodes = {
        f"n{i:02}": node(
            f"n{i:02}",
            allocatable={"cpu": random.randint(1, 64) * 500, "memory": random.randint(1, 9**11), "pods": 110},
            ready=random.random() < 0.9,
        )
        for i in range(random.randint(1, 12))
    }
    answer = decide(
        replace(cluster(0), nodes=nodes), {"slack": {"extraCapacityMinRate": rate, "granularity": granularity}}
    )
    room = [one.allocatable for one in nodes.values() if one.ready]
    for held, name in zip(total(answer), ("cpu", "memory"), strict=True):
        lost = len(answer.slack.placeholders)
        assert held >= rate * sum(one[name] for one in room) - 1e-3 - lost or answer.slack.problems
    assert all(one.cpu_milli >= 0 and one.memory_bytes >= 0 for one in answer.slack.placeholders)


def test_r4_pending_pods_win_over_placeholders() -> None:
    full = cluster(2, {f"p{i:02}": f"n{i % 2:02}" for i in range(12)})
    first = decide(full, {"slack": {"extraCapacityMinRate": 0.2}})
    assert all(where(first).values())
    pending = cluster(2, {f"p{i:02}": f"n{i % 2:02}" if i < 12 else "" for i in range(14)})
    second = decide(pending, {"slack": {"extraCapacityMinRate": 0.2}}, first.state)
    # A core is free on each node: two pods of half a core on one leave room for one placeholder of 800m.
    assert sorted(where(second).values()) == ["", "n01"]
    assert len(second.slack.pushed_out) == 1


def test_r5_placeholders_are_equal_parts_of_an_average_node() -> None:
    for granularity, size in ((1, (4000, 16 * GIB)), (2, (2000, 8 * GIB)), (4, (1000, 4 * GIB))):
        answer = decide(cluster(10), {"slack": {"extraCapacityMinRate": 0.2, "granularity": granularity}})
        assert sizes(answer) == {size: 2 * granularity}


def test_r6_there_is_room_for_the_largest_pod() -> None:
    given = replace(cluster(10), pods={("default", "big"): pod("big", "n00", spec(3500, 12))})
    answer = decide(given, {"slack": {"extraCapacityMinRate": 0.1, "strategy": "LARGEST_POD"}})
    assert (3500, 12 * GIB) in sizes(answer)
    assert all(where(answer).values())


def test_r7_medium_pods_are_mirrored_larger_than_standard_placeholders() -> None:
    medium = SlackRequest("StatefulSet/default/db", "", "default", spec(2500, 10), (), 4, "50%")
    answer = decide(replace(cluster(10), slack=(medium,)))
    assert sizes(answer) == {(2500, 10 * GIB): 2, STANDARD: 5}


def test_r8_mirrored_pods_keep_apart_from_the_pods_that_they_stand_for_and_from_each_other() -> None:
    app = LabelRequirement("app", LabelOperator.IN, ("web",))
    apart = spec(pod_anti_affinity=(AffinityTerm((app,), (), None, "kubernetes.io/hostname"),))
    asked = SlackRequest("Deployment/default/web", "", "default", apart, (("app", "web"),), 4, "4")
    running = {("default", "w"): pod("w", "n01", apart, labels={"app": "web"})}
    answer = decide(replace(cluster(4), pods=running, slack=(asked,)), {})
    assert sorted(where(answer).values()) == ["", "n00", "n02", "n03"]


def test_r9_slack_of_a_selector_stays_on_its_nodes() -> None:
    nodes = {f"n{i:02}": node(f"n{i:02}", labels={"tier": "ab"[i % 2]}) for i in range(10)}
    pool = {"name": "b", "nodes": {"matchLabels": {"tier": "b"}}, "extraCapacityMinRate": 0.2}
    answer = decide(replace(cluster(0), nodes=nodes), {"slack": {"pools": [pool]}})
    assert {nodes[at].labels["tier"] for at in where(answer).values()} == {"b"}
    assert len(where(answer)) == 5


def test_r10_rates_workloads_and_buffers_are_kept_side_by_side() -> None:
    requests = (
        SlackRequest("Deployment/default/web", "", "default", spec(), (), 4, "2"),
        SlackRequest("CapacityBuffer/default/spare", "", "default", spec(), (), replicas=3),
    )
    answer = decide(replace(cluster(10), slack=requests))
    assert Counter(one.kind for one in answer.slack.placeholders) == {
        pb.PlaceholderKind.STANDARD: 5,
        pb.PlaceholderKind.WORKLOAD: 2,
        pb.PlaceholderKind.CAPACITY_BUFFER: 3,
    }
    assert dict(answer.slack.desired) == {"cpu": 4000 + 2500, "memory": 21 * GIB}


def test_s1_placeholders_keep_their_nodes_and_leave_where_pods_or_deletions_take_them() -> None:
    given = cluster(10, {"a": "n03"})
    first = decide(given)
    assert set(where(first).values()) == {"n00", "n03"}
    cordoned = {"n03": node("n03", unschedulable=True)}
    second = decide(replace(given, nodes={**given.nodes, **cordoned}), state=first.state)
    assert set(second.slack.pushed_out) == {name for name, at in where(first).items() if at == "n03"}


def test_s2_the_desired_capacity_is_a_share_of_what_nodes_offer() -> None:
    assert dict(decide(cluster(7)).slack.desired) == {"cpu": 2800, "memory": 12025908429}


def test_s3_the_number_makes_the_total_at_least_the_extra_capacity() -> None:
    assert [len(where(decide(cluster(n)))) for n in (1, 2, 3, 10, 11)] == [1, 1, 2, 5, 6]


def test_s4_only_the_difference_is_added_or_removed() -> None:
    first = decide(cluster(10))
    second = decide(cluster(14), state=first.state)
    assert where(first).items() <= where(second).items()
    assert len(where(second)) == 7
    third = decide(cluster(10), state=second.state)
    assert where(third).items() <= where(second).items()
    assert len(where(third)) == 5


def test_s5_new_placeholders_are_put_on_free_room() -> None:
    answer = decide(cluster(3, {f"p{i}": "n00" for i in range(8)}), {"slack": {"extraCapacityMinRate": 0.5}})
    # Sizes are rounded down, so five fit on an empty node although 16 GiB is not a multiple of 5.
    assert Counter(where(answer).values()) == {"n01": 5, "n02": 3}


def test_s7_the_state_holds_all_that_the_next_loop_needs() -> None:
    answer = decide(cluster(10))
    again = pb.PlanState.FromString(answer.state.SerializeToString())
    assert decide(cluster(10), state=again).slack == answer.slack
    assert [(one.name, dict(one.size)) for one in again.slack.sets] == [
        ("standard", {"cpu": STANDARD[0], "memory": STANDARD[1]})
    ]


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        pytest.param(cluster(3), 0.0, id="rate 0"),
        pytest.param(cluster(3), 2.5, id="rate above 1"),
        pytest.param(cluster(0), 0.5, id="no nodes"),
        pytest.param(replace(cluster(0), nodes={"a": node("a", allocatable={"pods": 110})}), 0.5, id="no capacity"),
        pytest.param(
            replace(cluster(0), nodes={n: node(n, unschedulable=True) for n in "abc"}), 0.5, id="all nodes cordoned"
        ),
        pytest.param(replace(cluster(0), groups={}, nodes={"a": node("a", group="")}), 0.5, id="no node groups"),
    ],
)
@pytest.mark.parametrize("strategy", ["EQUAL", "LARGEST_POD", "LARGEST_BY_RESOURCE"])
def test_odd_clusters_have_an_answer_that_stays(given: Cluster, rate: float, strategy: str) -> None:
    asked = {"slack": {"extraCapacityMinRate": rate, "strategy": strategy}}
    answer = decide(given, asked)
    assert decide(given, asked, answer.state).slack == answer.slack
    assert all(one.cpu_milli >= 0 and one.memory_bytes >= 0 for one in answer.slack.placeholders)


def test_placeholders_are_there_before_anything_is_simulated() -> None:
    snapshot = canonicalize(write(cluster(1)))
    this = Round(snapshot, lambda pods, kinds=(): build_simulation(snapshot, VirtualRows(pods)), NOW_S * 10**9)
    assert this.simulation.pod_count == 0
    with pytest.raises(RuntimeError, match="before everything"):
        this.hold_room(this.room, (), NO_KINDS)
