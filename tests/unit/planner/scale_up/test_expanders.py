"""Each expander by itself, and the chain."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planner.scale_up.expander_options import Group, chosen_among, ranked
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.scale_up.expanders import EXPANDERS
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason

E = pb.Expander
LABEL = "zalando.org/scaling-priority"
RANKS = {5: [r"t2\.micro"], 10: [r"t2\.large", r"t3\.large"], 50: [r"m4\.4xlarge"]}
SIXTEEN = Group(cores=8, gib=16, pod_cores=0.5, pod_gib=1)


def of_nodes(*counts: int) -> dict[str, Group]:
    """Return groups by their new nodes."""
    return {f"g{i}": Group(nodes=count) for i, count in enumerate(counts)}


def prioritized(**values: str) -> dict[str, Group]:
    """Return groups by the value of their label; "" = without it."""
    return {name: Group(labels={LABEL: value} if value else {}) for name, value in values.items()}


def named(*ids: str) -> dict[str, Group]:
    """Return equal groups."""
    return dict.fromkeys(ids, Group())


def sized(**sizes: tuple[int, int]) -> dict[str, Group]:
    """Return groups by kind and size."""
    return {name: Group(kind=kind, size=size) for name, (kind, size) in sizes.items()}


CASES: dict[str, tuple[int, dict[str, Group], dict[str, Any], str]] = {
    "waste: alone": (E.LEAST_WASTE, {"a": SIXTEEN}, {}, "a"),
    "waste: less memory idle": (E.LEAST_WASTE, {"a": SIXTEEN._replace(gib=32), "b": SIXTEEN}, {}, "b"),
    "waste: less cpu idle": (E.LEAST_WASTE, {"a": SIXTEEN, "b": SIXTEEN._replace(cores=4)}, {}, "b"),
    "waste: fewer nodes": (E.LEAST_WASTE, {"a": SIXTEEN._replace(nodes=2), "b": SIXTEEN}, {}, "b"),
    "waste: a resource that nodes lack is not wasted": (
        E.LEAST_WASTE, {"a": SIXTEEN._replace(gib=0, pod_gib=0), "b": SIXTEEN}, {}, "a"
    ),
    "pods: most": (E.MOST_PODS, {"a": Group(pods=2), "b": Group(pods=5), "c": Group(pods=4)}, {}, "b"),
    "nodes: fewest": (E.LEAST_NODES, of_nodes(2, 1), {}, "g1"),
    "priority: the rank that matches": (E.PRIORITY, named("asg.t2.large"), {"settings": ranked(RANKS)}, "asg.t2.large"),
    "priority: the highest rank": (
        E.PRIORITY, named("asg.t2.large", "asg.m4.4xlarge"), {"settings": ranked(RANKS)}, "asg.m4.4xlarge"
    ),
    "priority: the highest of several that match one group": (
        E.PRIORITY, named("a.t2.micro", "b.t2.large"), {"settings": ranked({5: [".*"], 10: [r".t2\.large"]})},
        "b.t2.large",
    ),
    "priority: without rank behind a rank below zero": (
        E.PRIORITY, named("a.c5", "b.t2.micro"), {"settings": ranked({-7: ["t2"]})}, "b.t2.micro"
    ),
    "label: highest": (E.HIGHEST_PRIORITY, prioritized(a="7", b="30", c="4"), {}, "b"),
    "label: without counts as 0": (E.HIGHEST_PRIORITY, prioritized(a="-1", b="", c="-3"), {}, "b"),
    "label: no number never wins": (E.HIGHEST_PRIORITY, prioritized(a="high", b="-2", c="1e9"), {}, "b"),
    "label: another label": (
        E.HIGHEST_PRIORITY, {"a": Group(labels={LABEL: "9"}), "b": Group(labels={"prio": "1"})},
        {"settings": ScaleUpSettings(priority_label="prio")}, "b",
    ),
    "balanced: smallest of its kind": (E.BALANCED, sized(a=(0, 5), b=(0, 3), c=(0, 4)), {}, "b"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_option_of_the_example_is_chosen(name: str) -> None:
    expander, rows, more, wanted = CASES[name]
    assert chosen_among(rows, expander, **more)[0] == wanted


TIES: dict[str, tuple[int, dict[str, Group], dict[str, Any], list[int]]] = {
    "nodes: two of three": (E.LEAST_NODES, of_nodes(6, 2, 2), {}, [1, 2]),
    "nodes: all": (E.LEAST_NODES, of_nodes(8, 8, 8), {}, [0, 1, 2]),
    "nodes: three of five": (E.LEAST_NODES, of_nodes(23, 5, 8, 5, 5), {}, [1, 3, 4]),
    "pods: two": (E.MOST_PODS, {"a": Group(pods=2), "b": Group(pods=2), "c": Group(pods=1)}, {}, [0, 1]),
    "priority: two of one rank": (
        E.PRIORITY, named("a.t2.large", "b.t3.large", "c.t2.micro"), {"settings": ranked(RANKS)}, [0, 1]
    ),
    "priority: none has a rank": (E.PRIORITY, named("a", "b"), {"settings": ranked(RANKS)}, [0, 1]),
    "label: equal numbers": (E.HIGHEST_PRIORITY, prioritized(a="3", b="3", c="2"), {}, [0, 1]),
    "balanced: the smallest of each kind, and what has none": (
        E.BALANCED, sized(a=(0, 5), b=(0, 3), c=(1, 9), d=(-1, 70)), {}, [1, 2, 3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TIES)
def test_equal_options_continue_to_the_next_expander(name: str) -> None:
    expander, rows, more, tied = TIES[name]
    left_over = set()
    for seed in range(40):
        group, choice = chosen_among(rows, expander, E.RANDOM, seed=seed, **more)
        assert np.flatnonzero(~np.isnan(choice.scores[1])).tolist() == tied
        left_over.add(list(rows).index(group))
    assert left_over == set(tied)


def test_an_option_says_who_preferred_another_and_which_scores_it_got() -> None:
    rows = {"a": Group(nodes=3, pods=9), "b": Group(nodes=2, pods=1), "c": Group(nodes=2, pods=4), "d": Group(nodes=5)}
    group, choice = chosen_among(rows, E.LEAST_NODES, E.MOST_PODS, E.LEAST_WASTE)
    assert group == "c"
    assert choice.expanders == (E.LEAST_NODES, E.MOST_PODS)
    assert choice.decided_by.tolist() == [E.LEAST_NODES, E.MOST_PODS, E.UNSPECIFIED, E.LEAST_NODES]
    assert choice.order.tolist() == [2, 1, 0, 3]
    not_chosen = NodeGroupReason.NOT_CHOSEN
    assert choice.reason.tolist() == [not_chosen, not_chosen, NodeGroupReason.UNSPECIFIED, not_chosen]
    assert np.nan_to_num(choice.scores, nan=99).tolist() == [[-3, -2, -2, -5], [99, 1, 4, 99]]


def test_what_is_excluded_is_named_so_and_comes_last_of_its_expander() -> None:
    rows = prioritized(a="x", b="2", c="3", d="y")
    group, choice = chosen_among(rows, E.HIGHEST_PRIORITY)
    assert (group, choice.order.tolist()) == ("c", [2, 1, 0, 3])
    invalid = NodeGroupReason.PRIORITY_INVALID
    assert choice.reason.tolist() == [invalid, NodeGroupReason.NOT_CHOSEN, NodeGroupReason.UNSPECIFIED, invalid]


def test_where_all_that_is_left_is_excluded_the_others_are_chosen_among() -> None:
    rows = {"a": Group(nodes=1), "b": Group(nodes=1), "c": Group(nodes=2, price=3), "d": Group(nodes=3, price=1)}
    group, choice = chosen_among(rows, E.LEAST_NODES, E.PRICE)
    assert (group, choice.order.tolist()) == ("c", [2, 3, 0, 1])
    unknown = NodeGroupReason.PRICE_UNKNOWN
    assert choice.reason.tolist() == [unknown, unknown, NodeGroupReason.UNSPECIFIED, NodeGroupReason.NOT_CHOSEN]


def test_without_options_nothing_is_chosen() -> None:
    group, choice = chosen_among({}, E.LEAST_WASTE, E.RANDOM)
    assert (group, choice.expanders, choice.order.tolist()) == ("", (), [])


def test_without_a_last_word_the_first_group_is_taken() -> None:
    group, choice = chosen_among(dict.fromkeys("cab", Group()), E.LEAST_NODES)
    assert (group, choice.order.tolist()) == ("a", [1, 2, 0])
    assert choice.decided_by.tolist() == [E.LEAST_NODES, E.UNSPECIFIED, E.LEAST_NODES]


def test_chance_is_the_seeds_and_fair() -> None:
    rows = named(*"abcd")
    picked = [chosen_among(rows, E.RANDOM, seed=seed)[0] for seed in range(400)]
    assert picked == [chosen_among(rows, E.RANDOM, seed=seed)[0] for seed in range(400)]
    assert all(picked.count(name) > 60 for name in rows)
    assert len({chosen_among(rows, E.RANDOM, choice=choice)[0] for choice in range(60)}) == 4


def test_of_equal_options_the_cheapest_is_chosen_before_chance_decides() -> None:
    rows = {"a": Group(price=3), "b": Group(price=1), "c": Group(price=2), "d": Group(price=1), "e": Group(nodes=2)}
    picked = {
        chosen_among(rows | {"e": Group(nodes=2, price=0)}, E.LEAST_NODES, E.RANDOM, seed=n)[0] for n in range(40)
    }
    assert picked == {"b", "d"}
    choice = chosen_among(rows, E.LEAST_NODES, E.RANDOM)[1]
    assert choice.expanders == (E.LEAST_NODES, E.PRICE, E.RANDOM)
    assert choice.decided_by.tolist()[0::2] == [E.PRICE, E.PRICE, E.LEAST_NODES]


def test_the_cheaper_of_equal_options_is_chosen_even_if_its_nodes_are_far_from_the_preferred_size() -> None:
    rows = {"small": Group(cores=1, gib=4, nodes=4, price=1), "large": Group(cores=32, gib=128, nodes=1, price=3)}
    for expander, cheapest in ((E.PRICE, "small"), (E.MOST_PODS, "large")):
        assert chosen_among(rows, expander, E.RANDOM, node_count=1)[0] == cheapest


def test_chance_decides_without_the_price_if_one_is_unknown_or_it_is_the_only_expander() -> None:
    rows = {"a": Group(price=3), "b": Group(price=1), "c": Group()}
    assert {chosen_among(rows, E.LEAST_NODES, E.RANDOM, seed=seed)[0] for seed in range(40)} == set(rows)
    priced = {"a": Group(price=3), "b": Group(price=1)}
    assert {chosen_among(priced, E.RANDOM, seed=seed)[0] for seed in range(40)} == set(priced)


ROWS = st.fixed_dictionaries({
    "cores": st.sampled_from([0, 2, 4]), "gib": st.sampled_from([4, 8]), "price": st.sampled_from([np.nan, 0, 1, 2]),
    "nodes": st.integers(1, 3), "pods": st.integers(1, 3), "pod_cores": st.integers(0, 2), "gpu": st.booleans(),
    "labels": st.sampled_from([{}, {LABEL: "1"}, {LABEL: "x"}]), "kind": st.integers(-1, 1), "size": st.integers(0, 3),
}).map(lambda row: Group(**row))  # fmt: skip
CHAINS = st.lists(st.sampled_from(sorted(EXPANDERS)), min_size=1, unique=True)


@given(st.lists(ROWS, min_size=1, max_size=6), CHAINS, st.integers(0, 2**64 - 1), st.randoms())
def test_the_order_of_options_changes_nothing_and_the_chosen_one_is_beaten_by_none(
    rows: list[Group], chain: list[int], seed: int, random: Random
) -> None:
    given_ = {f"g{i}": row for i, row in enumerate(rows)}
    more: dict[str, Any] = {"settings": ranked({1: ["g[02]"]}), "seed": seed}
    group, choice = chosen_among(given_, *chain, **more)
    names = list(given_)
    random.shuffle(names)
    again, other = chosen_among({name: given_[name] for name in names}, *chain, **more)
    assert again == group
    assert [names[i] for i in other.order] == [f"g{i}" for i in choice.order]
    assert sorted(choice.order.tolist()) == list(range(len(rows)))
    excluded = {NodeGroupReason.PRICE_UNKNOWN, NodeGroupReason.PRIORITY_INVALID}
    if not group:
        assert set(choice.reason.tolist()) <= excluded
        return
    for scores in choice.scores:
        assert scores[choice.chosen] == np.nanmax(scores)
    assert choice.reason.tolist().count(NodeGroupReason.UNSPECIFIED) == 1
