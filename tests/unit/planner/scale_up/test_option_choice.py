"""A choice among options of another autoscaler: by the chain, by health, by the whole plan, and never by accident."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from trimtab.planner.model.settings import SettingsError
from trimtab.planner.scale_up.option_choice import choose_option
from trimtab.v1 import option_choice_pb2 as pb
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

GIB = 1 << 30
NODE = {"cpu": 4000, "memory": 16 * GIB, "pods": 110}


def choice(*expanders: Any, **groups: dict[str, Any]) -> pb.OptionChoice:
    """Return a choice between groups: nodes, pods, price, size, unable, and cpu of a node and of all pods."""
    asked = pb.OptionChoice(seed=7, cluster_node_count=10)
    asked.settings.scale_up.expanders.extend(expanders)
    for name, given_ in sorted(groups.items()):
        group = asked.groups.add(node_group=name, target_size=given_.get("size", 0), unable=given_.get("unable", 0))
        group.capacity.update(NODE | {"cpu": given_.get("node_cpu", 4000)})
        group.allocatable.update(NODE | {"cpu": given_.get("node_cpu", 4000)})
        if "price" in given_:
            group.price_per_hour = given_["price"]
    for name, given_ in groups.items():
        pods = given_.get("pods", 4)
        asked.options.add(
            node_group=name,
            node_count=given_.get("nodes", 1),
            pod_count=pods,
            cpu_milli=given_.get("cpu", 1000 * pods),
            memory_bytes=GIB * pods,
        )
    return asked


def pods(asked: pb.OptionChoice, count: int, cpu: int, *options: int) -> None:
    """Add pods that some of the options serve."""
    row = asked.pods.add(count=count, options=options)
    row.requests.update({"cpu": cpu, "memory": GIB})


@pytest.mark.parametrize(
    ("expander", "better"),
    [
        (Expander.LEAST_WASTE, {"cpu": 4000}),
        (Expander.MOST_PODS, {"pods": 5, "cpu": 2000}),
        (Expander.LEAST_NODES, {"nodes": 1}),
        (Expander.PRICE, {"price": 0.5}),
        (Expander.BALANCED, {"size": 2}),
        (Expander.CHEAPEST_PLAN, {"price": 0.5}),
    ],
    ids=["least-waste", "most-pods", "least-nodes", "price", "balanced", "cheapest-plan"],
)
def test_each_expander_chooses_as_among_our_own_options(expander: int, better: dict[str, Any]) -> None:
    worse = {"nodes": 2, "price": 1.0, "size": 3, "cpu": 2000}
    for first, second in (("a", "b"), ("b", "a")):
        asked = choice(expander, **{first: worse, second: worse | better})
        answer = choose_option(asked)
        assert answer.node_group == second
        verdicts = {one.node_group: one for one in answer.verdicts}
        assert verdicts[second].reason == NodeGroupReason.UNSPECIFIED
        assert (verdicts[first].reason, verdicts[first].decided_by) == (NodeGroupReason.NOT_CHOSEN, expander)


def test_a_group_that_cannot_grow_is_passed_over_while_another_one_can() -> None:
    asked = choice(Expander.PRICE, a={"price": 1.0, "unable": NodeGroupReason.BACKED_OFF}, b={"price": 2.0})
    answer = choose_option(asked)
    assert answer.node_group == "b"
    assert [one.reason for one in answer.verdicts] == [NodeGroupReason.BACKED_OFF, NodeGroupReason.UNSPECIFIED]


def test_if_no_group_can_grow_one_is_chosen_anyway() -> None:
    unable = {"unable": NodeGroupReason.UNHEALTHY}
    answer = choose_option(choice(Expander.PRICE, a={"price": 2.0} | unable, b={"price": 1.0} | unable))
    assert answer.node_group == "b"


def test_where_an_expander_excludes_all_options_none_is_chosen() -> None:
    answer = choose_option(choice(Expander.PRICE, a={}, b={}))
    assert answer.node_group == ""
    assert {one.reason for one in answer.verdicts} == {NodeGroupReason.PRICE_UNKNOWN}


def test_settings_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"priority\.ranks"):
        choose_option(choice(Expander.PRIORITY, a={}))


@pytest.mark.parametrize(
    ("large_nodes", "pods_of_both", "chosen"),
    [
        # `small` is cheap for its pods, but the others then need as many `large` ones as without it.
        pytest.param(2, 7, "large", id="what the pods cost that an option leaves counts"),
        pytest.param(3, 8, "small", id="an option for few pods that are dear elsewhere is taken"),
    ],
)
def test_the_cheapest_plan_compares_what_all_pods_cost(large_nodes: int, pods_of_both: int, chosen: str) -> None:
    asked = choice(
        Expander.CHEAPEST_PLAN,
        small={"nodes": 1, "price": 0.4, "pods": 1},
        large={"nodes": large_nodes, "price": 1.0, "pods": pods_of_both + 1},
    )
    pods(asked, 1, 1000, 0, 1)
    pods(asked, pods_of_both, 1000, 1)
    assert choose_option(asked).node_group == chosen


def test_without_prices_the_cheapest_plan_has_the_fewest_nodes() -> None:
    asked = choice(Expander.CHEAPEST_PLAN, a={"nodes": 3, "price": 0.1}, b={"nodes": 2})
    pods(asked, 4, 1000, 0, 1)
    assert choose_option(asked).node_group == "b"


@examples(60)
@given(st.data())
def test_some_option_is_chosen_whatever_is_asked_and_the_order_of_options_does_not_matter(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True))
    kinds = st.fixed_dictionaries(
        {
            "nodes": st.integers(0, 3),
            "pods": st.integers(1, 3),
            "price": st.sampled_from([0.5, 1.0]),
            "size": st.integers(0, 2),
            "unable": st.sampled_from([0, 0, NodeGroupReason.BACKED_OFF]),
        }
    )
    groups = {name: data.draw(kinds) for name in names}
    codes = [one for one in Expander.Code.values() if one not in (Expander.UNSPECIFIED, Expander.PRIORITY)]
    chain = data.draw(st.permutations(codes))[:3]
    chain.sort(key=lambda code: (code != Expander.CHEAPEST_PLAN, code == Expander.RANDOM))
    asked = choice(*chain, **groups)
    for _ in range(data.draw(st.integers(0, 3))):
        served = sorted(data.draw(st.sets(st.integers(0, len(names) - 1), min_size=1)))
        pods(asked, data.draw(st.integers(1, 5)), 1000, *served)
    before = asked.SerializeToString(deterministic=True)
    answer = choose_option(asked)
    assert answer.node_group in names
    assert asked.SerializeToString(deterministic=True) == before
    verdicts = {one.node_group: one for one in answer.verdicts}
    assert [one.node_group for one in answer.verdicts] == names
    assert [name for name in names if not verdicts[name].reason] == [answer.node_group]
    order = data.draw(st.permutations(range(len(names))))
    turned = pb.OptionChoice()
    turned.CopyFrom(asked)
    del turned.options[:], turned.pods[:]
    turned.options.extend(asked.options[at] for at in order)
    for row in asked.pods:
        turned.pods.add(count=row.count, requests=row.requests, options=sorted(order.index(at) for at in row.options))
    assert choose_option(turned).node_group == answer.node_group
