"""Balance of similar node groups and zones: what is similar, which group shrinks first, which nodes must stay."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.kubernetes import Json, node, node_affinity, node_group, pod, replica_set, snapshot_of
from tests.builders.scale_down import NOW_S, Outcome, even, plan
from tests.reference.scale_down import order as naive
from trimtab.planner.facts.similarity import Parts, divide
from trimtab.planner.model.settings import SimilaritySettings
from trimtab.planner.scale_down.balance import Balance, level, uneven
from trimtab.planner.snapshot.columns import Int32
from trimtab.planner.snapshot.decode import canonicalize

WEB = replica_set("web", 99)
AT_ONCE: Json = {"unneededTime": "0s", "balance": True}


def of_sizes(sizes: dict[str, int], zones: str = "", **more: Any) -> list[Json]:
    """Return groups of empty nodes; the i-th group is in the i-th zone, if there are zones."""
    built: list[Json] = []
    for i, (group, size) in enumerate(sizes.items()):
        names = [f"{group}{k}" for k in range(size)]
        built += [node(name, zone=zones[i] if zones else "", **more) for name in names]
        built.append(node_group(group, nodes=names, max_size=50))
    return built


def goes(found: Outcome) -> dict[str, int]:
    """Return how many nodes of each group go now; a node's group is its first letter."""
    return dict(Counter(name[0] for name in (*found.decision.delete_empty, *found.decision.drain)))


def kinds(*objects: Json, **more: Any) -> list[int]:
    snapshot = canonicalize(snapshot_of(*objects))
    return divide(snapshot, np.zeros(len(snapshot.nodes.name), bool), SimilaritySettings(**more)).group_kind.tolist()


CPU4 = {"cpu": "4", "memory": "16Gi", "pods": "110"}
CPU2 = {"capacity": {"cpu": "2", "memory": "16Gi", "pods": "110"}}
DIFFERENT: dict[str, tuple[Json, list[int]]] = {
    "the same": ({}, [0, 0]),
    "memory a little less": ({"capacity": {"cpu": "4", "memory": "15900Mi", "pods": "110"}}, [0, 1]),
    "memory within tolerance": ({"capacity": {"cpu": "4", "memory": "16200Mi", "pods": "110"}}, [0, 0]),
    "less allocatable cpu": ({"cpu": "3", "capacity": CPU4}, [0, 1]),
    "allocatable within tolerance": ({"cpu": "3900m", "capacity": CPU4}, [0, 0]),
    "less cpu": (CPU2, [0, 1]),
    "a GPU": ({"extra": {"nvidia.com/gpu": "1"}}, [0, 1]),
    "another zone": ({"zone": "z"}, [0, 0]),
    "a taint": ({"taints": ["team=a:NoSchedule"]}, [0, 1]),
    "a taint of a condition": ({"taints": ["node.kubernetes.io/not-ready:NoExecute"]}, [0, 0]),
    "a soft taint of the autoscaler": ({"taints": ["DeletionCandidateOfClusterAutoscaler=1:PreferNoSchedule"]}, [0, 0]),
    "a label that nobody selects": ({"labels": {"pool": "b"}}, [0, 0]),
    "a label that a pod selects": ({"labels": {"disk": "ssd"}}, [0, 1]),
    "a label that a pod's affinity selects": ({"labels": {"arch": "arm"}}, [0, 1]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_groups_are_similar_when_no_pod_could_tell_their_nodes_apart(name: str) -> None:
    other, wanted = DIFFERENT[name]
    objects = [
        node("a0"), node("b0", **other), node_group("a", nodes=["a0"]), node_group("b", nodes=["b0"]), WEB,
        pod("p", owner=WEB, node_selector={"disk": "ssd", "topology.kubernetes.io/zone": "z"}),
        pod("q", owner=WEB, affinity=node_affinity([("arch", "In", ["arm"])])),
    ]  # fmt: skip
    assert kinds(*objects) == wanted


def test_settings_say_which_labels_count() -> None:
    objects = [
        node("a0", labels={"disk": "ssd", "rack": "1"}), node("b0", labels={"rack": "1"}), node("c0", cpu="8"),
        *(node_group(name, nodes=[f"{name}0"]) for name in "abc"), WEB, pod("p", node_selector={"disk": "ssd"}),
    ]  # fmt: skip
    assert kinds(*objects) == [0, 1, 2]
    assert kinds(*objects, ignored_labels=frozenset({"disk"})) == [0, 0, 1]
    assert kinds(*objects, compared_labels=("rack",)) == [0, 0, -1]


def test_groups_without_nodes_and_whole_groups_take_no_part() -> None:
    objects = [node("a0"), node("b0"), node_group("a", nodes=["a0"]), node_group("b", nodes=["b0"], zero_or_max=True)]
    assert kinds(*objects, node_group("c", nodes=[])) == [0, -1, -1]


NAMES = ("a", "b", "c")
CELLS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(("", "u", "v"))), max_size=14)


def parts_of(cells: list[naive.Cell]) -> Parts:
    """Return one kind of groups; node i is in cell i."""
    zones = sorted({zone for _, zone in cells if zone})
    group = np.array([NAMES.index(name) for name, _ in cells], np.int32)
    zone = np.array([zones.index(name) if name else -1 for _, name in cells], np.int32)
    return Parts(
        group, zone, np.zeros(len(NAMES), np.int32), np.zeros(len(zones), np.int32),
        np.bincount(group, minlength=len(NAMES)), np.bincount(zone[zone >= 0], minlength=len(zones)),
    )  # fmt: skip


@given(CELLS, st.data())
def test_turns_are_those_of_the_twin(cells: list[naive.Cell], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(range(len(cells))), unique=True) if cells else st.just([]))
    found = level(Balance(parts_of(cells), 0), np.array(wanted, np.int32), np.zeros(0, np.int32))
    turns = naive.level_order([cells[i] for i in wanted], dict(Counter(cells)))
    assert found.tolist() == [wanted[position] for position in turns]


@given(CELLS, st.integers(1, 4), st.data())
def test_a_node_that_must_stay_keeps_the_others_balanced(
    cells: list[naive.Cell], most: int, data: st.DataObject
) -> None:
    wanted: list[int] = data.draw(st.lists(st.sampled_from(range(len(cells))), unique=True) if cells else st.just([]))
    nodes: Int32 = np.array(wanted, np.int32)
    stays = uneven(Balance(parts_of(cells), most), nodes)
    going = nodes[~stays].tolist()
    for side in (0, 1):
        before = Counter(cell[side] for cell in cells if cell[side])
        after = {part: count - sum(cells[i][side] == part for i in going) for part, count in before.items()}
        assert not before or naive.is_even(before, after, most)
    assert not uneven(Balance(parts_of(cells), most), nodes[~stays]).any()


@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_what_is_taken_by_turns_from_an_even_cluster_is_even(least: int, most: int, data: st.DataObject) -> None:
    """Without zones: the first nodes in turn never require others to stay if sizes differ by no more before."""
    sizes = [data.draw(st.integers(least, least + most)) for _ in NAMES]
    names = [name for name, size in zip(NAMES, sizes, strict=True) for _ in range(size)]
    alone = [(name, "") for name in data.draw(st.permutations(names))]
    balance = Balance(parts_of(alone), most)
    turns = level(balance, np.arange(len(alone), dtype=np.int32), np.zeros(0, np.int32))
    for count in range(len(turns) + 1):
        assert not uneven(balance, turns[:count]).any()


def test_the_largest_group_gives_first_when_a_limit_crops_the_set() -> None:
    settings = AT_ONCE | {"maxScaleDownParallelism": 4}
    assert goes(plan(of_sizes({"a": 3, "b": 6, "c": 5}), settings=settings)) == {"b": 3, "c": 1}
    plain = settings | {"balance": False}
    assert goes(plan(of_sizes({"a": 3, "b": 6, "c": 5}), settings=plain)) == {"a": 3, "b": 1}


def test_deletions_in_progress_count_as_gone() -> None:
    gone = ["ToBeDeletedByClusterAutoscaler=1799999990:NoSchedule"]
    objects = of_sizes({"a": 4, "b": 6})
    objects = [node(one["metadata"]["name"], taints=gone) if one["metadata"]["name"] in {"b0", "b1", "b2"} else one
               for one in objects]  # fmt: skip
    found = plan(objects, settings=AT_ONCE | {"maxScaleDownParallelism": 4})
    assert goes(found) == {"a": 1}


def test_the_fullest_zone_of_a_group_gives_first() -> None:
    zones = {"g0": "u", "g1": "v", "g2": "v", "g3": "v", "g4": "w"}
    objects = [*(node(name, zone=zone) for name, zone in zones.items()), node_group("g", nodes=list(zones))]
    found = plan(objects, settings=AT_ONCE | {"maxScaleDownParallelism": 2})
    assert list(found.decision.delete_empty) == ["g1", "g2"]


def test_within_a_similar_kind_only_and_in_its_own_places() -> None:
    # x is the only one of its kind; it keeps its place in front, which follows from its name.
    objects = [*of_sizes({"b": 3, "c": 5}), node("a0", cpu="8"), node_group("x", nodes=["a0"])]
    assert goes(plan(objects, settings=AT_ONCE | {"maxScaleDownParallelism": 2})) == {"a": 1, "c": 1}


def busy(group: str, size: int) -> list[Json]:
    """Return pods that keep every node of a group above the threshold."""
    return [WEB, *(pod(f"p-{group}{k}", "3", node=f"{group}{k}", owner=WEB) for k in range(size))]


def test_a_limit_of_difference_holds_for_the_whole_plan() -> None:
    objects = [*of_sizes({"a": 5, "b": 5}), *busy("b", 5)]
    found = plan(objects, settings=AT_ONCE | even(2))
    assert goes(found) == {"a": 2}
    assert Counter(found.reasons.values()) == {"BALANCE": 3, "NOT_UNDERUTILIZED": 5}
    assert goes(plan(objects, settings=AT_ONCE)) == {"a": 5}


def test_a_limit_of_difference_holds_for_zones() -> None:
    zones = {f"g{i}": "uv"[i % 2] for i in range(8)}
    objects = [*(node(name, zone=zone) for name, zone in zones.items()), node_group("g", nodes=list(zones))]
    hold = [WEB, *(pod(f"p{n}", "3", node=n, owner=WEB) for n, zone in zones.items() if zone == "v")]
    found = plan(objects, hold, settings={"unneededTime": "0s", **even(1)})
    assert len(found.unneeded) == 1


def test_a_difference_that_is_there_already_only_shrinks() -> None:
    found = plan(
        of_sizes({"a": 1, "b": 9}),
        settings=AT_ONCE | {**even(3), "maxScaleDownParallelism": 3},
    )
    assert goes(found) == {"b": 3}


def test_what_goes_now_keeps_the_difference_while_others_wait_for_their_time() -> None:
    objects = of_sizes({"a": 4, "b": 4})
    settings = AT_ONCE | {**even(1), "nodeGroups": {"b": {"unneededTime": "600s"}}}
    found = plan(objects, settings=settings)
    assert len(found.unneeded) == 8
    assert goes(found) == {"a": 1}
    assert Counter(found.not_now.values()) == {"": 1, "BALANCE": 3, "NOT_UNNEEDED_LONG_ENOUGH": 4}


def test_who_has_to_stay_for_balance_costs_nothing_in_the_next_loop() -> None:
    objects = [*of_sizes({"a": 5, "b": 5}), *busy("b", 5), pod("mover", "1", node="a0", owner=WEB)]
    settings = AT_ONCE | {**even(2), "unneededTime": "600s"}
    first = plan(objects, settings=settings)
    again = plan(objects, settings=settings, state=first.state, now_s=NOW_S + 10)
    assert (again.unneeded, again.counts["searched_places"]) == (first.unneeded, 0)
    assert "RECENTLY_UNREMOVABLE" in again.reasons.values()


def test_pods_with_a_selector_keep_their_groups_apart() -> None:
    # No other group takes the pods of b; with the label in use, a is no longer similar to b and may shrink alone.
    objects = [*of_sizes({"a": 4}), *of_sizes({"b": 4}, labels={"team": "b"}), *busy("b", 4)]
    asking = pod("q", owner=WEB, node_selector={"team": "b"})
    assert goes(plan(objects, settings=AT_ONCE | even(1))) == {"a": 1}
    assert goes(plan(objects, asking, settings=AT_ONCE | even(1))) == {"a": 4}
