"""Room for gangs: placeholders that fit together on existing and new nodes, or none of them is served."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.rows import NodeRow
from tests.builders.slack import GIB, ROOM, cluster, decide, node, pod, spec, where
from tests.builders.snapshots import Cluster, Group, pairs
from tests.certificates.slack_gangs import offences
from tests.reference.scale_up.whole_gang import GrowingGroup, cheapest_whole
from trimtab.places import on_existing, on_new_nodes
from trimtab.planner.model.values import AffinityTerm, PodGroup, SlackRequest, TemplatePod
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
UP = ("SLACK", "SCALE_UP")
DOWN = ("SLACK", "SCALE_UP", "SCALE_DOWN")
AT_ONCE = {"scaleDown": {"unneededTime": "0s", "maxScaleDownParallelism": 100}}
SEEDS = st.integers(0, 2**48)


def gang(count: int, cpu_milli: int = 3000, key: str = "", name: str = "g", **more: Any) -> SlackRequest:
    """A CapacityBuffer for a gang of so many pods, one of which leaves no room for another on a node by default."""
    of = spec(cpu_milli, **more)
    name = f"CapacityBuffer/default/{name}"
    return SlackRequest(name, "", "default", of, pairs({"app": "g"}), replicas=count, is_gang=True, topology_key=key)


def at_most(given: Cluster, most: int) -> Cluster:
    """Let the group have at most so many nodes."""
    return replace(given, groups={"g": given.groups["g"]._replace(max_size=most)})


def zoned(zones: str, *requests: SlackRequest, **groups: Group) -> Cluster:
    """A cluster with a node in each of these zones, each a letter. groups : in place of the usual one."""
    nodes = {f"n{i:02}": node(f"n{i:02}", labels={ZONE: zone}) for i, zone in enumerate(zones)}
    made = replace(cluster(len(zones)), nodes=nodes, slack=requests)
    return replace(made, groups=groups or made.groups)


def group(zone: str, most: int = 10, price: float = 1.0) -> Group:
    """A group whose new nodes come up in a zone."""
    return Group(0, most, 0, NodeRow(allocatable=ROOM, labels={ZONE: zone}), price)


def on_new(answer: pb.PlanResponse) -> dict[str, str]:
    """Return the node group of each placeholder on a new node."""
    return {one: group for group, pods in on_new_nodes(answer.scale_up).items() for one in pods}


def names(count: int, first: int = 0, of: str = "CapacityBuffer/default/g:1") -> list[str]:
    return [f"{of}-{number}" for number in range(first, count)]


def test_a_gang_with_room_for_all_of_it_is_on_nodes() -> None:
    answer = decide(cluster(3, slack=(gang(3),)), {}, decisions=UP)
    assert where(answer) == dict(zip(names(3), ["n00", "n01", "n02"], strict=True))
    assert answer.slack.result == reason_pb2.SlackResult.SLACK_PRESENT
    (found,) = answer.slack.objects
    assert (found.asked_count, found.present_count) == (3, 3)
    assert (found.asked_gang_count, found.present_gang_count) == (1, 1)
    assert all(one.is_in_gang for one in answer.slack.placeholders)


def test_a_gang_gets_new_nodes_for_what_existing_ones_lack() -> None:
    answer = decide(cluster(3, slack=(gang(5),)), {}, decisions=UP)
    assert where(answer) == dict.fromkeys(names(5), "")
    assert list(on_new(answer)) == names(5, 3)
    assert (answer.slack.objects[0].present_count, dict(answer.slack.present)) == (0, {})
    assert not answer.scale_up.waiting_placeholders


def test_a_gang_that_cannot_be_whole_gets_no_node_and_the_reason_names_the_limit() -> None:
    answer = decide(at_most(cluster(3, slack=(gang(5),)), 4), {}, decisions=UP)
    assert where(answer) == dict.fromkeys(names(5), "")
    assert not answer.scale_up.splits
    (waiting,) = answer.scale_up.waiting_placeholders
    assert list(waiting.pods) == names(5)
    assert waiting.detail == (
        "its gang CapacityBuffer/default/g:1 waits: 1 of 5 pods that it needs have no place: g would help and is at "
        "the maximum size"
    )
    assert not answer.scale_up.gangs
    assert not answer.scale_up.unschedulable


def test_the_nodes_of_a_gang_that_cannot_be_whole_are_free_to_go() -> None:
    short = at_most(cluster(3, slack=(gang(5),)), 4)
    assert list(decide(short, AT_ONCE, decisions=DOWN).scale_down.delete_empty) == ["n00", "n01", "n02"]
    whole = cluster(3, slack=(gang(3),))
    assert list(decide(whole, AT_ONCE, decisions=DOWN).scale_down.delete_empty) == []


def test_pods_that_wait_come_before_gangs_of_placeholders() -> None:
    waiting = {"a": ""}
    given = cluster(3, slack=(gang(3),))
    given = at_most(replace(given, pods={("default", "a"): pod("a", "", spec(3000))}), 3)
    answer = decide(given, {}, decisions=UP)
    assert set(on_existing(answer.scale_up)) == {f"default/{name}" for name in waiting}
    assert where(answer) == dict.fromkeys(names(3), "")
    grown = decide(at_most(given, 4), {}, decisions=UP)
    assert list(on_new(grown).values()) == ["g"]


def test_another_set_gets_the_room_that_a_gang_leaves_that_cannot_be_whole() -> None:
    alone = SlackRequest("Deployment/default/web", "", "default", spec(3000), (), 9, "2")
    answer = decide(at_most(cluster(2, slack=(gang(3), alone)), 2), {}, decisions=UP)
    assert {name: bool(node) for name, node in where(answer).items()} == dict.fromkeys(names(3), False) | {
        "Deployment/default/web-0": True,
        "Deployment/default/web-1": True,
    }


def test_a_gang_in_one_domain_takes_the_one_with_room_for_all_of_it() -> None:
    answer = decide(zoned("abb", gang(2, key=ZONE)), {}, decisions=UP)
    assert set(where(answer).values()) == {"n01", "n02"}
    assert answer.slack.objects[0].topology_key == ZONE


def test_a_gang_in_one_domain_does_not_use_the_room_of_another() -> None:
    given = at_most(zoned("ab", gang(2, key=ZONE)), 2)
    answer = decide(given, {}, decisions=UP)
    assert where(answer) == dict.fromkeys(names(2), "")
    assert "in no domain of topology.kubernetes.io/zone" in answer.scale_up.waiting_placeholders[0].detail


def test_a_gang_in_one_domain_grows_where_it_is_cheapest() -> None:
    given = zoned("aab", gang(3, key=ZONE), a=group("a", price=2.0), b=group("b", price=1.5))
    assert on_new(decide(given, {}, decisions=UP)) == {names(3)[2]: "a"}
    dear = replace(given, groups=dict(given.groups) | {"a": group("a", price=4.0)})
    assert on_new(decide(dear, {}, decisions=UP)) == dict.fromkeys(names(3, 1), "b")


@pytest.mark.parametrize("together", [True, False])
def test_room_gets_the_cheapest_nodes_of_several_groups_together(together: bool) -> None:
    """Two large nodes, which suffice, cost more than one of each."""

    def grows(cpu_milli: int, price: float) -> Group:
        return Group(0, 2, 0, NodeRow(allocatable=ROOM | {"cpu": cpu_milli}), price)

    groups = {"small": grows(2000, 1.0), "large": grows(4000, 2.0)}
    given = replace(cluster(0, slack=(gang(3, 2000)._replace(is_gang=together),)), groups=groups)
    answer = decide(given, {}, decisions=UP)
    assert sorted(on_new(answer).values()) == ["large", "large", "small"]
    assert answer.scale_up.price_per_hour == 3


def test_a_gang_on_one_node_takes_a_node_with_room_for_all_of_it() -> None:
    busy = cluster(2, {"a": "n00", "b": "n00"}, slack=(gang(2, 2000, HOST),))
    assert set(where(decide(busy, {}, decisions=UP)).values()) == {"n01"}


def test_scale_down_keeps_a_gang_in_its_domain() -> None:
    given = zoned("aabb", gang(2, key=ZONE))
    down = decide(given, AT_ONCE, decisions=DOWN).scale_down
    assert set(down.delete_empty) in ({"n00", "n01"}, {"n02", "n03"})


def test_a_gang_that_loses_a_place_gets_a_new_node_for_it_and_is_whole_again() -> None:
    given = cluster(3, slack=(gang(3),))
    first = decide(given, {}, decisions=UP)
    taken = replace(given, pods={("default", "a"): pod("a", "n01", spec(3000))})
    second = decide(taken, {}, first.state, decisions=UP)
    assert where(second) == dict.fromkeys(names(3), "")
    assert list(second.slack.pushed_out) == names(3)
    assert len(on_new(second)) == 1
    grown = replace(taken, nodes={**taken.nodes, "n03": node("n03")})
    grown = replace(grown, groups={"g": grown.groups["g"]._replace(target_size=4)})
    third = decide(grown, {}, second.state, decisions=UP)
    assert set(where(third).values()) == {"n00", "n02", "n03"}
    assert not third.scale_up.splits
    # It stays where it is.
    assert where(decide(grown, {}, third.state, decisions=UP)) == where(third)


def test_while_nodes_are_on_their_way_a_gang_has_no_nodes_and_orders_none_again() -> None:
    given = cluster(2, slack=(gang(3),))
    given = replace(given, groups={"g": given.groups["g"]._replace(target_size=3)})
    answer = decide(given, {}, decisions=UP)
    assert where(answer) == dict.fromkeys(names(3), "")
    assert not answer.scale_up.splits
    assert not answer.scale_up.waiting_placeholders
    # Its nodes are remembered.
    there = replace(given, nodes={**given.nodes, "n02": node("n02")})
    assert set(where(decide(there, {}, answer.state, decisions=UP)).values()) == {"n00", "n01", "n02"}


def pod_group(slack: str, *, template: bool = True, **more: Any) -> PodGroup:
    like = TemplatePod("default", spec(3000), pairs({"app": "g"})) if template else None
    return PodGroup("default", "train", "PodGroup/default/train", min_count=2, pod_template=like, slack=slack, **more)


def asking(one: PodGroup, nodes: int = 4, **more: Any) -> Cluster:
    return cluster(nodes, pod_groups={("default", "train"): one}, **more)


def test_a_pod_group_asks_for_room_for_more_gangs_like_it() -> None:
    answer = decide(at_most(asking(pod_group("3"), 5), 5), {}, decisions=UP)
    (found,) = answer.slack.objects
    assert (found.object, found.asked_count, found.present_count) == ("PodGroup/default/train", 6, 4)
    assert (found.asked_gang_count, found.present_gang_count) == (3, 2)
    assert [name for name, node in where(answer).items() if not node] == names(2, of="PodGroup/default/train:3")


def test_a_pod_group_without_a_template_asks_for_pods_like_its_own() -> None:
    member = pod("train-0", "n00", spec(2500))._replace(pod_group="train")
    given = replace(asking(pod_group("1", template=False)), pods={("default", "train-0"): member})
    answer = decide(given, {}, decisions=UP)
    assert {one.cpu_milli for one in answer.slack.placeholders} == {2500}
    assert all(where(answer).values())


def test_the_topology_key_of_a_pod_group_binds_its_placeholders() -> None:
    nodes = {name: node(name, labels={ZONE: zone}) for name, zone in (("n00", "a"), ("n01", "b"), ("n02", "b"))}
    given = replace(asking(pod_group("1", topology_key=ZONE), 3), nodes=nodes)
    assert set(where(decide(given, {}, decisions=UP)).values()) == {"n01", "n02"}


@pytest.mark.parametrize(
    ("one", "problem"),
    [
        (pod_group("20%"), "PodGroup/default/train: '20%' is a percentage of an unknown number of pods; give a count"),
        (pod_group("many"), "PodGroup/default/train: 'many' is neither a count"),
        (pod_group("1", template=False), "PodGroup/default/train: it has no pods, and no Workload names a controller"),
    ],
)
def test_a_pod_group_whose_request_cannot_be_read_is_named(one: PodGroup, problem: str) -> None:
    slack = decide(asking(one), {}).slack
    assert not slack.placeholders
    assert slack.problems[0].startswith(problem)
    assert slack.objects[0].problem


def test_a_gang_with_a_topology_key_whose_pods_have_an_affinity_is_named() -> None:
    affine = gang(2, key=ZONE, pod_affinity=(AffinityTerm((), (), None, ZONE),))
    (problem,) = decide(cluster(2, slack=(affine,)), {}).slack.problems
    assert "its pods have an affinity to other pods" in problem


def test_gangs_beyond_the_most_placeholders_are_left_out_whole() -> None:
    slack = decide(asking(pod_group("999999999")._replace(min_count=30_000)), {}).slack
    assert len(slack.placeholders) == 30_000
    assert "PodGroup/default/train:2: 30000 placeholders are requested, of which 0 are kept" in list(slack.problems)


def drawn_cluster(random: Random) -> Cluster:
    """Return a small cluster in three zones, some nodes in none, with pods, one or two gangs, and limited groups."""
    zones = {name: random.choice((*"ab", "")) for name in (f"n{i:02}" for i in range(random.randint(0, 6)))}
    nodes = {name: node(name, labels={ZONE: zone} if zone else {}, group="g0") for name, zone in zones.items()}
    sizes = (500, 1000, 1500, 2500)
    pods = {}
    for i in range(random.randint(0, 8)):
        on = random.choice([*nodes, ""])
        used = sum(dict(row.spec.requests)["cpu"] for row in pods.values() if row.node == on)
        size = random.choice(sizes)
        if not on or used + size <= ROOM["cpu"]:
            pods["default", f"p{i}"] = pod(f"p{i}", on, spec(size))
    groups = {}
    for i in range(random.randint(1, 3)):
        labels = {ZONE: zone} if (zone := random.choice((*"abc", ""))) else {}
        room = {"cpu": random.choice((2000, 4000, 8000)), "memory": 16 * GIB, "pods": 110}
        size = len(nodes) if i == 0 else 0
        price = random.choice((1.0, 2.0, 3.0))
        groups[f"g{i}"] = Group(0, size + random.randint(0, 3), size, NodeRow(allocatable=room, labels=labels), price)
    requests = tuple(
        gang(random.randint(1, 6), random.choice(sizes), random.choice(("", ZONE)), name=f"g{i}")
        for i in range(random.choice((1, 1, 2)))
    )
    return Cluster(nodes=nodes, pods=pods, groups=groups, slack=requests)


@given(SEEDS)
@examples(3000)
def test_no_part_of_a_gang_of_placeholders_is_served(seed: int) -> None:
    drawn = drawn_cluster(Random(seed))
    answer = decide(drawn, {}, decisions=UP)
    assert not offences(drawn, answer)
    assert not offences(drawn, decide(drawn, {}, answer.state, decisions=UP))


@given(SEEDS)
@examples(1000)
def test_one_gang_is_served_exactly_if_some_new_nodes_make_it_whole_at_the_least_price(seed: int) -> None:
    random = Random(seed)
    size, count = random.choice((1, 2, 3)), random.randint(1, 6)
    free = [random.randint(1, 4) for _ in range(random.randint(0, 2))]
    groups = [
        GrowingGroup(random.randint(1, 5), random.randint(0, 2), random.randint(1, 4))
        for _ in range(random.randint(1, 3))
    ]

    def amounts(cores: int) -> dict[str, int]:
        return {"cpu": 1000 * cores, "memory": 64 * GIB, "pods": 110}

    drawn = Cluster(
        nodes={f"n{i}": node(f"n{i}", group="", allocatable=amounts(cores)) for i, cores in enumerate(free)},
        groups={
            f"a{i}": Group(0, one.most, 0, NodeRow(allocatable=amounts(one.size)), float(one.price))
            for i, one in enumerate(groups)
        },
        slack=(gang(count, 1000 * size),),
    )
    answer = decide(drawn, {}, decisions=UP)
    least = cheapest_whole([size] * count, count, free, groups)
    assert bool(answer.scale_up.waiting_placeholders) == (least is None)
    assert answer.scale_up.price_per_hour == (least or 0)
