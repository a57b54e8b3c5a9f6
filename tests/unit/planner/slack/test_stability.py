"""Slack is cheap, stable, available and gives way to pods, on whole decisions; sizes are in `test_sizes.py`."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.slack import GIB, NOW_S, cluster, decide, node, spec, total, where
from tests.builders.snapshots import write
from trimtab.planner.model.values import SlackRequest
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.simulation.virtual_rows import NO_KINDS, VirtualRows
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

STANDARD = (800, 3435973836)


def test_after_50_loops_of_churn_only_what_had_to_move_has_moved() -> None:
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


@given(st.integers(0, 2**32), st.sampled_from([0.05, 0.1, 0.3, 0.9]), st.integers(1, 8))
@examples(40)
def test_the_sum_is_at_least_the_asked_rate_in_cpu_and_memory(seed: int, rate: float, granularity: int) -> None:
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


def test_pending_pods_win_over_placeholders() -> None:
    full = cluster(2, {f"p{i:02}": f"n{i % 2:02}" for i in range(12)})
    first = decide(full, {"slack": {"extraCapacityMinRate": 0.2}})
    assert all(where(first).values())
    pending = cluster(2, {f"p{i:02}": f"n{i % 2:02}" if i < 12 else "" for i in range(14)})
    second = decide(pending, {"slack": {"extraCapacityMinRate": 0.2}}, first.state)
    # A core is free on each node: two pods of half a core on one leave room for one placeholder of 800m.
    assert sorted(where(second).values()) == ["", "n01"]
    assert len(second.slack.pushed_out) == 1


def test_rates_workloads_and_buffers_are_kept_side_by_side() -> None:
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


def test_placeholders_are_there_before_anything_is_simulated() -> None:
    snapshot = canonicalize(write(cluster(1)))
    this = Round(snapshot, lambda pods, kinds=(): build_simulation(snapshot, VirtualRows(pods)), NOW_S * 10**9)
    assert this.simulation.pod_count == 0
    with pytest.raises(RuntimeError, match="before everything"):
        this.hold_room(this.room, (), NO_KINDS)
