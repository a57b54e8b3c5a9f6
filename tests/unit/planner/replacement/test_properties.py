"""What holds for every plan of replacement, whatever the cluster. Each plan is checked by the certificate."""

from collections.abc import Mapping
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json
from tests.builders.replacement import SIZES, Outcome, SmallCluster, plan, small_cluster
from trimtab.places import destinations
from trimtab.planner.replacement.settings import ReplacementSettings
from trimtab.v1 import plan_pb2


def with_prices(objects: list[Json], prices: Mapping[str, float | None]) -> list[Json]:
    """Return objects in which node groups have these prices, None = unknown."""
    return [_with_spec(one, price=prices[one["metadata"]["name"]]) if _is_group(one) else one for one in objects]


def at_their_maximum(objects: list[Json]) -> list[Json]:
    """Return objects in which no node group may have more nodes than it has."""
    return [_with_spec(one, maxSize=one["spec"]["targetSize"]) if _is_group(one) else one for one in objects]


def varied_prices(random: Random, share: float) -> dict[str, float]:
    """Return the usual prices, each up to this share lower or higher."""
    return {name: size.price * random.uniform(1 - share, 1 + share) for name, size in SIZES.items()}


def replaced(cluster: SmallCluster, decision: plan_pb2.ReplacementDecision) -> SmallCluster:
    """Return a cluster after all waves of a plan."""
    group_of = {f"n{i}": name for i, name in enumerate(cluster.nodes)}
    at = {f"default/p{i}-{j}": f"n{i}" for i, pods in enumerate(cluster.pods) for j in range(len(pods))}
    for wave in decision.waves:
        group_of |= {one.name: one.node_group for one in wave.new_nodes}
        at |= destinations(wave.places)
        for gone in wave.leaving:
            del group_of[gone.node]
    pods: dict[str, list[tuple[int, int]]] = {name: [] for name in group_of}
    for i, there in enumerate(cluster.pods):
        for j, amounts in enumerate(there):
            pods[at[f"default/p{i}-{j}"]].append(amounts)
    return SmallCluster(list(group_of.values()), list(pods.values()))


def _is_group(one: Json) -> bool:
    return bool(one["kind"] == "NodeGroup")


def _with_spec(one: Json, **fields: object) -> Json:
    spec = {key: value for key, value in (one["spec"] | fields).items() if value is not None}
    return one | {"spec": spec}


SEEDS = st.integers(0, 2**32)
HUGE = 2**31 - 1
MARGIN = ReplacementSettings().stability_margin


def made(seed: int) -> tuple[SmallCluster, Random]:
    random = Random(seed)
    return small_cluster(random), random


def bytes_of(found: Outcome) -> bytes:
    return found.decision.SerializeToString(deterministic=True)


@given(SEEDS)
@examples(60, 4)
def test_without_prices_there_is_no_plan(seed: int) -> None:
    found = plan(with_prices(made(seed)[0].objects(), dict.fromkeys(SIZES)))
    assert (found.result, found.waves) == ("NO_PRICES", [])


@given(SEEDS, st.sampled_from(sorted(SIZES)))
@examples(60, 4)
def test_without_the_price_of_one_group_its_nodes_neither_go_nor_come(seed: int, unknown: str) -> None:
    prices = {name: None if name == unknown else size.price for name, size in SIZES.items()}
    found = plan(with_prices(made(seed)[0].objects(), prices))
    waves = found.decision.waves
    assert not any(one.node_group == unknown for wave in waves for one in (*wave.leaving, *wave.new_nodes))


@given(SEEDS)
@examples(60, 4)
def test_at_equal_prices_plans_bring_fewer_nodes_than_they_take(seed: int) -> None:
    found = plan(with_prices(made(seed)[0].objects(), dict.fromkeys(SIZES, 0.4)))
    assert all(len(came) < len(went) for went, came in found.waves)


@given(SEEDS)
@examples(60, 4)
def test_while_all_groups_are_at_their_maximum_none_gets_a_node(seed: int) -> None:
    found = plan(at_their_maximum(made(seed)[0].objects()))
    assert all(not came for _, came in found.waves[:1])


@given(SEEDS, st.sampled_from(sorted(SIZES)))
@examples(60, 4)
def test_nodes_that_cost_nothing_stay(seed: int, free: str) -> None:
    prices = {name: 0.0 if name == free else size.price for name, size in SIZES.items()}
    found = plan(with_prices(made(seed)[0].objects(), prices))
    assert not any(one.node_group == free for wave in found.decision.waves for one in wave.leaving)


@given(SEEDS)
@examples(60, 4)
def test_limits_far_above_the_size_of_the_cluster_change_nothing(seed: int) -> None:
    objects = made(seed)[0].objects()
    huge = plan(objects, settings={"maxSurgeNodes": HUGE, "maxLeavingNodes": HUGE})
    assert bytes_of(huge) == bytes_of(plan(objects))


@given(SEEDS)
@examples(60, 4)
def test_a_plan_that_is_carried_out_leaves_nothing_to_plan(seed: int) -> None:
    cluster, _ = made(seed)
    found = plan(cluster.objects())
    assert plan(replaced(cluster, found.decision).objects()).waves == []


@given(SEEDS)
@examples(60, 4)
def test_no_prices_within_the_margin_undo_a_plan(seed: int) -> None:
    """No node that came is replaced by one of a group that lost nodes."""
    cluster, random = made(seed)
    first = plan(cluster.objects()).decision
    after = replaced(cluster, first).objects()
    second = plan(with_prices(after, dict(varied_prices(random, MARGIN)))).decision
    went = {one.node_group for wave in first.waves for one in wave.leaving}
    came = {one.node_group for wave in first.waves for one in wave.new_nodes}
    undone = {one.node_group for wave in second.waves for one in wave.leaving} & (came - went)
    again = {one.node_group for wave in second.waves for one in wave.new_nodes} & (went - came)
    assert not (undone and again)


@given(SEEDS, st.randoms(use_true_random=False))
@examples(60, 4)
def test_other_names_of_nodes_lead_to_the_same_price(seed: int, random: Random) -> None:
    cluster, _ = made(seed)
    order = random.sample(range(len(cluster.nodes)), len(cluster.nodes))
    renamed = SmallCluster([cluster.nodes[i] for i in order], [cluster.pods[i] for i in order])
    one, other = plan(cluster.objects()).cost, plan(renamed.objects()).cost
    assert abs(one.after_per_hour - other.after_per_hour) <= 1e-9


@given(SEEDS, st.integers(0, 80))
@examples(100, 12)
def test_wherever_the_time_ends_the_plan_is_valid_and_says_so(seed: int, checks: int) -> None:
    objects = made(seed)[0].objects()
    left = iter([True] * checks)
    cut, whole = plan(objects, time_left=lambda: next(left, False)), plan(objects)
    assert cut.decision.incomplete or bytes_of(cut) == bytes_of(whole)
    assert cut.cost.after_per_hour <= cut.cost.now_per_hour
