"""Slack on clusters that are unusual in several ways at once: no capacity, no pods, no room to grow, all nodes
cordoned, rates of 0 and above 1.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import event, example, given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.slack import NOW_S, ROOM, cluster, decide, node, pod, spec, where
from tests.builders.snapshots import Cluster
from trimtab.planner.slack.sets import MOST
from trimtab.v1 import plan_pb2 as pb

NOTHING = {"pods": 110}
ZEROS = {"cpu": 0, "memory": 0, "pods": 110}
RATES = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5])
NODES = st.lists(st.tuples(st.sampled_from([ROOM, NOTHING, ZEROS]), st.booleans(), st.integers(0, 9)), max_size=4)
ALL = ("SLACK", "SCALE_UP", "SCALE_DOWN")


def drawn(nodes: list[tuple[Any, bool, int]], all_cordoned: bool, pending: int, at_maximum: bool) -> Cluster:
    """Return a cluster of nodes (allocatable, cordoned, pods of half a core) in one group."""
    rows = {
        f"n{i}": node(f"n{i}", allocatable=room, unschedulable=cordoned or all_cordoned)
        for i, (room, cordoned, _) in enumerate(nodes)
    }
    pods = {
        ("default", f"p{i}-{j}"): pod(f"p{i}-{j}", f"n{i}", spec(500, 1))
        for i, (room, _, count) in enumerate(nodes)
        for j in range(count if room is ROOM else 0)
    }
    pods |= {("default", f"q{j}"): pod(f"q{j}", "", spec(500, 1)) for j in range(pending)}
    base = cluster(0)
    group = base.groups["g"]._replace(max_size=len(rows) if at_maximum else len(rows) + 5, target_size=len(rows))
    return replace(base, nodes=rows, pods=pods, groups={"g": group})


def check(given: Cluster, answer: pb.PlanResponse, rate: float) -> None:
    """Check what holds for every cluster, without planner code."""
    placeholders = answer.slack.placeholders
    assert all(one.cpu_milli >= 0 and one.memory_bytes >= 0 for one in placeholders)
    assert len({one.name for one in placeholders}) == len(placeholders) <= MOST
    assert rate or not placeholders
    held: Counter[str] = Counter()
    for one in placeholders:
        if one.node:
            assert not given.nodes[one.node].unschedulable
            held[one.node] += one.cpu_milli
    used = Counter(row.node for row in given.pods.values())
    for name, amount in held.items():
        assert 500 * used[name] + amount <= given.nodes[name].allocatable["cpu"]


@given(
    NODES, st.booleans(), st.integers(0, 3), st.booleans(), RATES,
    st.sampled_from(["EQUAL", "LARGEST_POD", "LARGEST_BY_RESOURCE"]), st.sampled_from([1, 5]),
)  # fmt: skip
@example([(ROOM, False, 0)] * 2, True, 0, False, 0.5, "EQUAL", 5)
@example([], False, 0, True, 2.5, "LARGEST_POD", 1)
@example([(ZEROS, False, 0)], False, 2, True, 1.0, "LARGEST_BY_RESOURCE", 5)
@examples(60)
def test_odd_clusters_have_an_answer_that_is_possible_and_stays(
    nodes: list[tuple[Any, bool, int]],
    all_cordoned: bool,
    pending: int,
    at_maximum: bool,
    rate: float,
    strategy: str,
    granularity: int,
) -> None:
    given = drawn(nodes, all_cordoned, pending, at_maximum)
    event(f"pods: {bool(given.pods)}, rate {rate}")
    asked = {"slack": {"extraCapacityMinRate": rate, "strategy": strategy, "granularity": granularity}}
    first = decide(given, asked, decisions=ALL)
    check(given, first, rate)
    if at_maximum:
        assert not first.scale_up.splits
    again = decide(given, asked, first.state, NOW_S + 10, ALL)
    check(given, again, rate)
    assert where(again) == where(first)
    assert [one.new_size for one in again.scale_up.splits] == [one.new_size for one in first.scale_up.splits]
