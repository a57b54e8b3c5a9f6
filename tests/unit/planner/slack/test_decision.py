"""The loop of slack: which placeholders are kept, displaced, added and removed, and where. Sizes by hand: 4 cores and
16 GiB by 5.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.rows import NodeRow
from tests.builders.slack import GIB, NOW_S, RATE, ROOM, cluster, decide, node, pod, sizes, spec, total, where
from tests.builders.snapshots import Cluster, Group, pairs
from trimtab.planner.model.values import (
    AffinityTerm,
    DeletionInProgress,
    LabelRequirement,
    Owner,
    PodRequirements,
    SlackRequest,
    SpreadConstraint,
    TaintSpec,
    TemplatePod,
)
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2
from trimtab.v1.snapshot_pb2 import LabelOperator, TaintEffect

STANDARD = (800, 3435973836)
HOST = "kubernetes.io/hostname"
APP = {"app": "web"}


def requirement(key: str, *values: str) -> LabelRequirement:
    return LabelRequirement(key, LabelOperator.IN, values)


def workload(amount: str = "2", scale: int = 10, of: PodRequirements | None = None, name: str = "web") -> SlackRequest:
    return SlackRequest(f"Deployment/default/{name}", "", "default", of or spec(), pairs(APP), scale, amount)


def buffer(name: str = "spare", **counts: Any) -> SlackRequest:
    return SlackRequest(f"CapacityBuffer/default/{name}", "", "default", spec(), pairs(APP), **counts)


def test_without_settings_nothing_is_kept() -> None:
    answer = decide(cluster(), {})
    assert answer.slack.result == reason_pb2.SlackResult.SLACK_NOT_ASKED
    assert not answer.slack.placeholders
    assert not answer.slack.desired


def test_the_price_of_room_is_absent_if_no_price_of_its_nodes_is_known_and_zero_if_no_room_is_kept() -> None:
    unpriced = {"g": Group(0, 1000, 10, NodeRow(allocatable=ROOM), None)}
    assert not decide(cluster(10, groups=unpriced)).slack.HasField("price_per_hour")
    without = decide(cluster(10), {}).slack
    assert (without.HasField("price_per_hour"), without.price_per_hour) == (True, 0.0)


def test_a_rate_becomes_standard_placeholders_on_nodes_and_is_explained() -> None:
    answer = decide(cluster(10))
    assert sizes(answer) == {STANDARD: 5}
    assert dict(answer.slack.desired) == {"cpu": 4000, "memory": 16 * GIB}
    assert dict(answer.slack.present) == {"cpu": 4000, "memory": 5 * STANDARD[1]}
    assert all(where(answer).values())
    assert answer.slack.price_per_hour == pytest.approx(1.0)
    assert answer.slack.result == reason_pb2.SlackResult.SLACK_PRESENT
    assert list(where(answer)) == [f"standard-{i}" for i in range(5)]
    assert {one.pool for one in answer.slack.placeholders} == {""}
    first = answer.slack.placeholders[0]
    requests = answer.slack.dictionary.pod_specs[first.spec].requests
    names = answer.slack.dictionary.resources
    assert {names[one.resource]: one.amount for one in requests} == {"cpu": 800, "memory": STANDARD[1]}


def test_what_finds_no_place_waits() -> None:
    full = cluster(2, {f"p{i:02}": f"n{i % 2:02}" for i in range(16)})
    answer = decide(full)
    assert where(answer) == {"standard-0": ""}
    assert answer.slack.result == reason_pb2.SlackResult.SLACK_LACKING
    assert dict(answer.slack.present) == {}
    assert {one.decision: dict(one.counts)["waiting"] for one in answer.diagnostics.decisions} == {pb.Decision.SLACK: 1}


def test_fuller_nodes_get_placeholders_first() -> None:
    answer = decide(cluster(10, {"a": "n07", "b": "n07", "c": "n03"}))
    assert where(answer) == dict.fromkeys(["standard-0", "standard-1", "standard-2"], "n07") | {
        "standard-3": "n03",
        "standard-4": "n03",
    }


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"unschedulable": True}, id="cordoned"),
        pytest.param({"ready": False}, id="not ready"),
        pytest.param({"taints": (TaintSpec("gpu", "", TaintEffect.NO_SCHEDULE),)}, id="tainted"),
    ],
)
def test_nodes_that_take_no_pods_do_not_count(change: dict[str, Any]) -> None:
    given = cluster(10)
    odd = {f"n{i:02}": node(f"n{i:02}", **change) for i in range(5)}
    answer = decide(replace(given, nodes={**given.nodes, **odd}))
    assert dict(answer.slack.desired)["cpu"] == 2000
    assert len(answer.slack.placeholders) == 3
    assert not set(where(answer).values()) & set(odd)


def test_a_node_that_only_prefers_no_pods_counts() -> None:
    given = cluster(2)
    odd = {"n00": node("n00", taints=(TaintSpec("busy", "", TaintEffect.PREFER_NO_SCHEDULE),))}
    assert dict(decide(replace(given, nodes={**given.nodes, **odd})).slack.desired)["cpu"] == 800


def test_placeholders_on_nodes_that_go_are_pushed_out_and_move() -> None:
    given = cluster(10, {"a": "n00", "b": "n01"})
    first = decide(given)
    at = {name: node for name, node in where(first).items() if node == "n00"}
    assert at
    going = {"n00": DeletionInProgress("n00", "g", True, (NOW_S - 5) * 10**9)}
    drained = decide(replace(given, deletions=going), state=first.state)
    assert list(drained.slack.pushed_out) == sorted(at)
    stay = {name: node for name, node in where(first).items() if node != "n00"}
    kept = {name: node for name, node in where(drained).items() if name in stay}
    assert kept == stay
    assert "n00" not in where(drained).values()
    gone = decide(replace(given, nodes={n: row for n, row in given.nodes.items() if n != "n00"}), state=first.state)
    assert list(gone.slack.pushed_out) == sorted(at)
    cordoned = decide(replace(given, nodes=given.nodes | {"n00": node("n00", unschedulable=True)}), state=first.state)
    assert list(cordoned.slack.pushed_out) == sorted(at)


def test_counts_change_by_the_difference_only() -> None:
    given = cluster(10)
    first = decide(given)
    more = decide(given, {"slack": {"extraCapacityMinRate": 0.2}}, first.state)
    assert where(first).items() <= where(more).items()
    assert len(where(more)) == 10
    fewer = decide(given, {"slack": {"extraCapacityMinRate": 0.05}}, more.state)
    assert where(fewer).items() <= where(first).items()
    assert len(where(fewer)) == 3
    assert not more.slack.pushed_out
    assert not fewer.slack.pushed_out


def test_a_new_node_of_another_size_changes_no_placeholder_until_the_difference_is_large() -> None:
    given = cluster(10)
    first = decide(given)
    larger = node("big", allocatable={"cpu": 6000, "memory": 24 * GIB, "pods": 110})
    second = decide(replace(given, nodes={**given.nodes, "big": larger}), state=first.state)
    assert set(sizes(second)) == {STANDARD}
    assert where(first).items() <= where(second).items()
    eager = {"slack": RATE["slack"] | {"resizeThreshold": 0}}
    assert set(sizes(decide(replace(given, nodes={**given.nodes, "big": larger}), eager, first.state))) != {STANDARD}


def test_a_placeholder_larger_than_every_node_is_made_smaller_and_said_so() -> None:
    large = node("a", allocatable={"cpu": 8000, "memory": 8 * GIB, "pods": 110})
    roomy = node("b", allocatable={"cpu": 1000, "memory": 32 * GIB, "pods": 110})
    given = replace(cluster(0), nodes={"a": large, "b": roomy}, groups={"g": Group(0, 9, 2)})
    answer = decide(given, {"slack": {"extraCapacityMinRate": 0.5, "granularity": 1}})
    # On average 4.5 cores and 20 GiB; "a" has 8 GiB, 40 % of that, and "b" 1 core, 22 %.
    assert set(sizes(answer)) == {(4500, 8 * GIB)}
    assert total(answer) == (13500, 24 * GIB)
    assert [text for text in answer.slack.problems if text.startswith("standard: no node has room for 4500m cpu")]


def test_a_daemon_set_without_pods_takes_its_room_on_the_new_nodes_for_which_sizes_are_chosen() -> None:
    agent = Owner("a", "DaemonSet", "agent", "kube-system", -1, -1, "apps/v1")
    group = Group(0, 9, 0, NodeRow(allocatable=ROOM, labels={"pool": "a"}), 1.0)
    pending = {("default", "large"): pod("large", "", spec(3000, 1))}
    asked = {"slack": {"strategy": "LARGEST_POD", "resources": {"cpu": {"floor": 3000}}}}
    for template, cpu in ((None, 3000), (TemplatePod("kube-system", spec(1500, 1), ()), 2500)):
        given = Cluster(pods=pending, groups={"g": group}, owners={"a": agent._replace(pod_template=template)})
        answer = decide(given, asked, decisions=("SLACK", "SCALE_UP"))
        largest = next(one for one in answer.slack.placeholders if one.name == "largest-0")
        assert largest.cpu_milli == cpu
        assert not answer.scale_up.waiting_placeholders


def test_pods_of_daemon_sets_offer_no_room() -> None:
    daemons = {("kube-system", f"d{i}"): pod(f"d{i}", f"n{i:02}", spec(1000, 1), flags=4) for i in range(2)}
    given = replace(cluster(2), pods=daemons, groups={"g": Group(0, 9, 2)})
    answer = decide(given, {"slack": {"extraCapacityMinRate": 0.5, "granularity": 1}})
    assert set(sizes(answer)) == {(3000, 15 * GIB)}


def test_one_placeholder_has_room_for_the_largest_pod() -> None:
    given = replace(
        cluster(10),
        pods={
            ("default", "cpu"): pod("cpu", "n00", spec(3000, 1)),
            ("default", "memory"): pod("memory", "n01", spec(200, 8)),
            ("default", "daemon"): pod("daemon", "n02", spec(4000, 16), flags=4),
        },
    )
    answer = decide(given, {"slack": {"extraCapacityMinRate": 0.2, "strategy": "LARGEST_POD"}})
    # 8 cores and 32 GiB, less 3 cores and 8 GiB, leave 5 cores and 24 GiB: 7 of 800m, 8 of 3.2 GiB.
    assert sizes(answer) == {(3000, 8 * GIB): 1, STANDARD: 8}
    assert "largest-0" in where(answer)
    kinds = {one.name: one.kind for one in answer.slack.placeholders}
    assert kinds["largest-0"] == pb.PlaceholderKind.LARGEST


def test_two_placeholders_have_room_for_the_pods_with_most_cpu_and_most_memory() -> None:
    given = replace(
        cluster(10),
        pods={
            ("default", "cpu"): pod("cpu", "n00", spec(3000, 1)),
            ("default", "memory"): pod("memory", "n01", spec(200, 8)),
        },
    )
    answer = decide(given, {"slack": {"extraCapacityMinRate": 0.2, "strategy": "LARGEST_BY_RESOURCE"}})
    # 8 cores and 32 GiB, less 3.2 cores and 9 GiB, leave 4.8 cores and 23 GiB: 6 of 800m, 8 of 3.2 GiB.
    assert sizes(answer) == {(3000, GIB): 1, (200, 8 * GIB): 1, STANDARD: 8}


@pytest.mark.parametrize("strategy", ["LARGEST_POD", "LARGEST_BY_RESOURCE"])
def test_no_placeholder_is_larger_than_the_largest_pod(strategy: str) -> None:
    given = cluster(10, {"a": "n00"})
    answer = decide(given, {"slack": {"extraCapacityMinRate": 0.1, "strategy": strategy}})
    assert set(sizes(answer)) == {(500, GIB)}
    assert total(answer) >= (4000, 16 * GIB)


def test_without_pods_all_placeholders_are_equal() -> None:
    answer = decide(cluster(10), {"slack": {"extraCapacityMinRate": 0.1, "strategy": "LARGEST_POD"}})
    assert sizes(answer) == {STANDARD: 5}


@pytest.mark.parametrize(
    "ignored",
    [
        pytest.param({"namespaces": ["db"]}, id="namespace"),
        pytest.param({"labels": {"matchLabels": {"app": "web"}}}, id="labels"),
    ],
)
def test_pods_can_be_left_out_by_selector(ignored: dict[str, Any]) -> None:
    given = replace(
        cluster(10),
        pods={
            ("db", "big"): pod("big", "n00", spec(3500, 14), labels=APP),
            ("default", "small"): pod("small", "n01", spec(1000, 4)),
        },
    )
    slack = {"extraCapacityMinRate": 0.1, "strategy": "LARGEST_POD"}
    assert (1000, 4 * GIB) in sizes(decide(given, {"slack": slack | {"ignoredPods": [ignored]}}))
    assert (3500, 14 * GIB) in sizes(decide(given, {"slack": slack}))


def test_pods_can_be_left_out_by_annotation() -> None:
    given = replace(
        cluster(10),
        pods={
            ("db", "big"): pod("big", "n00", spec(3500, 14)),
            ("default", "small"): pod("small", "n01", spec(1000, 4)),
        },
    )
    message = decide(given, {"slack": {"extraCapacityMinRate": 0.1, "strategy": "LARGEST_POD"}})
    assert (3500, 14 * GIB) in sizes(message)
    marked = replace(
        given, pods={**given.pods, ("db", "big"): pod("big", "n00", spec(3500, 14, ignored_by_slack=True))}
    )
    left_out = decide(marked, {"slack": {"extraCapacityMinRate": 0.1, "strategy": "LARGEST_POD"}})
    assert (1000, 4 * GIB) in sizes(left_out)


def test_workloads_are_mirrored_with_all_that_scheduling_sees() -> None:
    apart = AffinityTerm((requirement("app", "web"),), (), None, HOST)
    asked = workload("30%", 10, spec(3000, 8, pod_anti_affinity=(apart,)))
    running = {("default", "web-1"): pod("web-1", "n00", asked.spec, labels=APP)}
    answer = decide(replace(cluster(4), pods=running, slack=(asked,)), {})
    assert sizes(answer) == {(3000, 8 * GIB): 3}
    # One on each node, and none beside the pod that is there.
    assert sorted(where(answer).values()) == ["n01", "n02", "n03"]
    assert {one.for_object for one in answer.slack.placeholders} == {"Deployment/default/web"}
    assert {one.kind for one in answer.slack.placeholders} == {pb.PlaceholderKind.WORKLOAD}
    assert dict(answer.slack.desired) == {"cpu": 9000, "memory": 24 * GIB}


def test_copies_of_a_workload_without_pods_spread_as_its_pods_would() -> None:
    even = SpreadConstraint(1, "zone", (requirement("app", "web"),), 1, True, False, ())
    asked = workload("4", 0, spec(topology_spread=(even,)))
    nodes = {f"n{i:02}": node(f"n{i:02}", labels={"zone": "ab"[i % 2]}) for i in range(6)}
    answer = decide(replace(cluster(6), nodes=nodes, slack=(asked,)), {})
    zones = sorted(nodes[at].labels["zone"] for at in where(answer).values())
    assert zones == ["a", "a", "b", "b"]


def test_copies_of_a_workload_go_only_where_its_pods_may() -> None:
    asked = workload("3", 0, spec(node_selector=(("disk", "ssd"),)))
    nodes = {f"n{i:02}": node(f"n{i:02}", labels={"disk": "ssd"} if i == 4 else {}) for i in range(6)}
    assert set(where(decide(replace(cluster(6), nodes=nodes, slack=(asked,)), {})).values()) == {"n04"}


def test_capacity_buffers_ask_for_room_in_both_readings() -> None:
    given = replace(cluster(10), slack=(buffer(replicas=1, percentage=25, scale=10),))
    assert len(where(decide(given, {}))) == 3
    assert len(where(decide(given, {"slack": {"capacityBufferReading": "SMALLER"}}))) == 1
    limited = replace(given, slack=(buffer(replicas=9, limits=(("cpu", 1200),)),))
    assert list(where(decide(limited, {}))) == [f"CapacityBuffer/default/spare-{i}" for i in range(2)]


def test_what_cannot_be_read_is_named_and_the_others_continue() -> None:
    bad = (
        workload("lots", name="bad"),
        SlackRequest("CapacityBuffer/default/dangling", "scalableRef names no Deployment default/x"),
        buffer("empty"),
    )
    answer = decide(replace(cluster(10), slack=(*bad, workload("1"))), {})
    assert list(where(answer)) == ["Deployment/default/web-0"]
    assert [text.split(":")[0] for text in answer.slack.problems] == [
        "CapacityBuffer/default/dangling",
        "CapacityBuffer/default/empty",
        "Deployment/default/bad",
    ]


def test_a_pool_keeps_its_placeholders_on_its_nodes_and_tolerates_their_taints() -> None:
    gpu = TaintSpec("gpu", "yes", TaintEffect.NO_SCHEDULE)
    given = cluster(4)
    nodes = {f"g{i}": node(f"g{i}", labels={"kind": "gpu"}, taints=(gpu,)) for i in range(5)}
    settings = {
        "slack": {
            "pools": [
                {"name": "gpu", "nodes": {"matchLabels": {"kind": "gpu"}}, "extraCapacityMinRate": 0.2},
            ]
        }
    }
    answer = decide(replace(given, nodes={**given.nodes, **nodes}), settings)
    assert sizes(answer) == {STANDARD: 5}
    assert set(where(answer)) == {f"gpu:standard-{i}" for i in range(5)}
    assert set(where(answer).values()) <= set(nodes)
    assert {one.pool for one in answer.slack.placeholders} == {"gpu"}


def test_a_pool_may_be_a_node_group() -> None:
    nodes = {f"{g}{i}": node(f"{g}{i}", group=g, labels={"group": g}) for g in "ab" for i in range(5)}
    groups = {g: Group(0, 9, 5, NodeRow(allocatable=ROOM, labels={"group": g})) for g in "ab"}
    settings = {"slack": {"pools": [{"name": "p", "nodeGroups": ["b"], "extraCapacityMinRate": 0.2}]}}
    answer = decide(replace(cluster(0), nodes=nodes, groups=groups), settings)
    assert {at[0] for at in where(answer).values()} == {"b"}
    term = answer.slack.dictionary.pod_specs[0].node_affinity.terms[0].match_expressions[0]
    strings = answer.slack.dictionary.strings
    assert (strings[term.key], [strings[value] for value in term.values]) == ("group", ["b"])


def test_a_node_group_without_a_label_of_its_own_is_named_and_keeps_slack_on_its_nodes() -> None:
    nodes = {f"{g}{i}": node(f"{g}{i}", group=g) for g in "ab" for i in range(5)}
    groups = {g: Group(0, 9, 5) for g in "ab"}
    settings = {"slack": {"pools": [{"name": "p", "nodeGroups": ["b", "x"], "extraCapacityMinRate": 0.2}]}}
    answer = decide(replace(cluster(0), nodes=nodes, groups=groups), settings)
    assert {at[0] for at in where(answer).values()} == {"b"}
    assert answer.slack.problems


def test_a_pool_by_zone_keeps_slack_in_each_zone() -> None:
    nodes = {f"n{i:02}": node(f"n{i:02}", labels={"zone": "abc"[i % 3]}) for i in range(15)}
    pool = {"name": "z", "topologyKey": "zone", "extraCapacityMinRate": 0.2}
    answer = decide(replace(cluster(0), nodes=nodes), {"slack": {"pools": [pool]}})
    by_zone = {zone: [at for name, at in where(answer).items() if name.startswith(f"z:{zone}:")] for zone in "abc"}
    assert {zone: len(rows) for zone, rows in by_zone.items()} == {"a": 5, "b": 5, "c": 5}
    assert all(nodes[at].labels["zone"] == zone for zone, rows in by_zone.items() for at in rows)


def test_other_resources_are_held_whole_with_their_share_of_cpu_and_memory() -> None:
    room = ROOM | {"nvidia.com/gpu": 8}
    nodes = {f"g{i}": node(f"g{i}", allocatable=room) for i in range(2)}
    given = cluster(8)
    settings = {"slack": {"resources": {"nvidia.com/gpu": {"rate": 0.25}}}}
    answer = decide(replace(given, nodes={**given.nodes, **nodes}), settings)
    # 8 / 5 makes 2 GPUs, a quarter of a node; 4 GPUs are asked for.
    assert sizes(answer) == {(1000, 4 * GIB): 2}
    assert dict(answer.slack.present)["nvidia.com/gpu"] == 4
    assert set(where(answer).values()) <= set(nodes)


def test_a_resource_that_no_node_has_is_named() -> None:
    answer = decide(cluster(2), {"slack": {"resources": {"example.com/licence": {"floor": 2}}}})
    assert [text for text in answer.slack.problems if "example.com/licence" in text]
    assert not answer.slack.placeholders


def test_schedules_change_rate_and_number() -> None:
    hour = {"cron": "0 * * * *", "duration": "3600s"}
    rate = {"slack": {"extraCapacityMinRate": 0.1, "schedules": [hour | {"extraCapacityMinRate": 0.2}]}}
    assert len(where(decide(cluster(10), rate))) == 10
    number = {"slack": {"extraCapacityMinRate": 0.1, "schedules": [hour | {"replicas": 2}]}}
    answer = decide(cluster(10), number)
    assert len(where(answer)) == 2
    assert dict(answer.slack.desired)["cpu"] == 1600
    none = {"slack": {"extraCapacityMinRate": 0.1, "schedules": [hour | {"replicas": 0}]}}
    assert not where(decide(cluster(10), none))


def test_a_cluster_without_nodes_asks_for_its_floor_in_sizes_of_new_nodes() -> None:
    answer = decide(cluster(0), {"slack": {"resources": {"cpu": {"floor": 2000}}}})
    assert [(one.cpu_milli, one.node) for one in answer.slack.placeholders] == [(800, "")] * 3


def test_an_absurd_number_is_bounded_and_said_so() -> None:
    answer = decide(cluster(2), {"slack": {"extraCapacityMinRate": 1e6}})
    assert len(answer.slack.placeholders) == 50_000
    assert [text for text in answer.slack.problems if "of which 50000 are kept" in text]


def test_what_objects_ask_for_is_bounded_together_with_the_rest() -> None:
    asking = (workload("40000", name="a"), workload("40000", name="b"))
    answer = decide(replace(cluster(0), slack=asking), {})
    assert Counter(one.for_object for one in answer.slack.placeholders) == {
        asking[0].object: 40_000,
        asking[1].object: 10_000,
    }
    assert list(answer.slack.problems) == [
        "Deployment/default/b: 40000 placeholders are requested, of which 10000 are kept"
    ]
    assert answer.slack.desired["cpu"] == 80_000 * 500


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda state: setattr(state.sets[0], "node", b"x"), id="a column that is cut off"),
        pytest.param(lambda state: setattr(state.sets[0], "node", b"\x63\x00\x00\x00" * 5), id="a string that lacks"),
        pytest.param(lambda state: setattr(state.sets[0], "number", b"\x01\x00\x00\x00" * 5), id="a number twice"),
    ],
)
def test_an_unreadable_state_is_noted_and_slack_starts_with_empty_state(spoil: Any) -> None:
    first = decide(cluster(10))
    spoil(first.state.slack)
    again = decide(cluster(10), state=first.state)
    assert any("slack state" in note for note in again.summary.notes)
    assert again.slack == decide(cluster(10)).slack


def test_each_object_that_asks_tells_how_many_pods_have_room() -> None:
    broken = SlackRequest("CapacityBuffer/default/broken", "it refers to nothing")
    wide = buffer("wide", replicas=3)._replace(spec=spec(99_000))
    asking = (workload("4"), buffer("spare", replicas=2), broken, wide, buffer("none"))
    answer = decide(replace(cluster(), slack=asking), {})
    assert [(one.object, one.asked_count, one.present_count, bool(one.problem)) for one in answer.slack.objects] == [
        ("CapacityBuffer/default/broken", 0, 0, True),
        ("CapacityBuffer/default/none", 0, 0, True),
        ("CapacityBuffer/default/spare", 2, 2, False),
        ("CapacityBuffer/default/wide", 3, 0, False),
        ("Deployment/default/web", 4, 4, False),
    ]
    assert not decide(cluster()).slack.objects
