"""No plan is worse than one pass over the candidates as listed, whatever the objective: with COUNT it frees no fewer
nodes, nor as many for less money; with MONEY it saves no less, nor as much with fewer nodes."""

import gzip
import json
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, pdb, pod, replica_set
from tests.builders.scale_down import Outcome, plan, plan_message
from tests.reference.scale_down.list_order import ListedNode, free_in_list_order
from trimtab.common.objects import build_snapshot, decode_objects

DOCUMENTS = Path(__file__).parents[4] / "parity" / "data" / "decisions"
CPU_MILLI = 2000
PRICES = (0.05, 0.2, 1.5)
NOISE = 1e-9


def random_nodes(random: Random) -> tuple[list[ListedNode], list[int]]:
    """Draw up to ten nodes, and how many disruptions each budget allows."""
    allowed = [random.randint(0, 4) for _ in range(random.choice((0, 0, 1, 2)))]
    nodes = []
    for _ in range(random.randint(3, 10)):
        amounts = [random.randrange(100, 1100, 50) for _ in range(random.randint(0, 3))]
        amounts = amounts if sum(amounts) <= CPU_MILLI else amounts[:1]
        pods = [(amount, random.randrange(-1, len(allowed))) for amount in amounts]
        nodes.append(ListedNode(CPU_MILLI - sum(amounts), pods, random.random() < 0.15))
    return nodes, allowed


def as_objects(nodes: list[ListedNode], allowed: list[int], group_of: list[int]) -> list[Json]:
    """Return a cluster of these nodes. group_of : the node group of each, which has its price."""
    web = replica_set("web", 99)
    objects: list[Json] = [web]
    objects += [pdb(f"b{number}", count, labels={"budget": f"b{number}"}) for number, count in enumerate(allowed)]
    for number, group in enumerate(PRICES):
        members = [f"n{i:02}" for i, one in enumerate(nodes) if group_of[i] == number and not one.stays]
        objects.append(node_group(f"g{number}", nodes=members, target=len(members), max_size=20, price=group))
    for i, one in enumerate(nodes):
        objects.append(node(f"n{i:02}", f"{CPU_MILLI}m"))
        objects += [
            pod(f"p{i:02}-{k}", f"{amount}m", "1Mi", node=f"n{i:02}", owner=web, labels={"budget": f"b{budget}"})
            for k, (amount, budget) in enumerate(one.pods)
        ]
    return objects


def amounts_of(found: Outcome) -> tuple[int, float]:
    """Return how many nodes go, and what they save."""
    return len(found.unneeded), found.saving_per_hour


def is_as_good(mine: tuple[float, float], its: tuple[float, float]) -> bool:
    """Return whether the first amounts, or at equality the second ones, are at least as large."""
    return mine[0] > its[0] + NOISE or (mine[0] >= its[0] - NOISE and mine[1] >= its[1] - NOISE)


@given(st.integers(0, 2**48))
@examples(300)
def test_no_plan_of_a_random_cluster_is_worse_than_one_pass_in_list_order(seed: int) -> None:
    random = Random(seed)
    nodes, allowed = random_nodes(random)
    group_of = [random.randrange(len(PRICES)) for _ in nodes]
    objects = as_objects(nodes, allowed, group_of)
    going = free_in_list_order(nodes, allowed)
    count, saving = len(going), sum(PRICES[group_of[number]] for number in going)
    settings = {"utilizationThreshold": 1.0}
    freed, saved = amounts_of(plan(objects, settings=settings | {"objective": "COUNT"}))
    assert is_as_good((freed, saved), (count, saving))
    freed, saved = amounts_of(plan(objects, settings=settings))
    assert is_as_good((saved, freed), (saving, count))


def recorded(name: str, **settings: object) -> Outcome:
    """Plan for a recorded cluster."""
    document: dict[str, Any] = json.loads(gzip.decompress((DOCUMENTS / f"{name}.json.gz").read_bytes()))
    message = build_snapshot(decode_objects(document["items"])).snapshot
    now_s = int(datetime.fromisoformat(document["now"]).timestamp())
    return plan_message(message, {**document["settings"]["scaleDown"], **settings}, now_s=now_s)


ONE_PASS = {"candidateOrders": ["NAME"]}
RECORDED = ["default-saves-less-than-list-order-at-equal-count", "saving-before-count-saves-less-than-list-order"]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_plan_frees_as_many_nodes_as_one_pass_in_list_order_for_no_less_money(name: str) -> None:
    count, saving = amounts_of(recorded(name, **ONE_PASS))
    freed, saved = amounts_of(recorded(name, objective="COUNT"))
    assert is_as_good((freed, saved), (count, saving))
    freed, saved = amounts_of(recorded(name))
    assert is_as_good((saved, freed), (saving, count))


def test_the_recorded_plans_save_what_was_measured() -> None:
    one, other = RECORDED
    assert amounts_of(recorded(one, objective="COUNT")) == (3, pytest.approx(3.5224))
    assert amounts_of(recorded(other)) == (3, pytest.approx(0.576))


def test_only_the_named_orders_are_tried() -> None:
    found = recorded(RECORDED[0], **ONE_PASS)
    assert found.counts["plans_tried"] == 1
