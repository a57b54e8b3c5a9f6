"""Nodes that need not wait for the waves before theirs are in an earlier one. Every plan is verified by the
certificate."""

from collections.abc import Iterator

import pytest

from tests.builders.kubernetes import Json, pdb
from tests.builders.mid_size_clusters import mid_size
from tests.builders.replacement import WEB, group, plan, web
from trimtab.places import moves_by_node
from trimtab.v1 import plan_pb2

ANY_SAVING: Json = {"stabilityMargin": 0, "minSavingShare": 0}


def parts_of(wave: plan_pb2.ReplacementWave) -> Iterator[tuple[set[str], set[str], set[str]]]:
    """Yield the nodes that leave together, their new nodes, and where else their pods go."""
    new, moves = {one.name for one in wave.new_nodes}, moves_by_node(wave.places)
    left = {one.node: set(moves.get(one.node, {}).values()) for one in wave.leaving}
    while left:
        first, places = left.popitem()
        leaving = {first}
        while more := {name for name, to in left.items() if to & places & new}:
            leaving |= more
            places |= set().union(*(left.pop(name) for name in more))
        yield leaving, places & new, places - new


def parts_that_wait_in_vain(decision: plan_pb2.ReplacementDecision, most_leaving: int, most_new: int) -> list[set[str]]:
    """Return the nodes that leave together and for which an earlier wave has room, by these limits alone."""
    opened_in = {one.name: number for number, wave in enumerate(decision.waves) for one in wave.new_nodes}
    found = []
    for number, wave in enumerate(decision.waves):
        for leaving, new, places in parts_of(wave):
            first = max((opened_in.get(name, 0) for name in places), default=0)
            found += [
                leaving
                for earlier in decision.waves[first:number]
                if len(earlier.leaving) + len(leaving) <= most_leaving and len(earlier.new_nodes) + len(new) <= most_new
            ]
    return found


@pytest.mark.parametrize(
    ("seed", "most_leaving", "most_new"), [(202, 4, 3), (206, 10, 10), (209, 10, 10), (211, 4, 3), (211, 10, 10)]
)
def test_no_wave_has_room_for_nodes_of_a_later_one(seed: int, most_leaving: int, most_new: int) -> None:
    """Before, the last node of cluster 209 and two nodes of cluster 211 had waves of their own."""
    limits = {"maxLeavingNodes": most_leaving, "maxSurgeNodes": most_new}
    found = plan(mid_size(seed, spread=seed % 2 == 1).objects(), settings=ANY_SAVING | limits)
    assert parts_that_wait_in_vain(found.decision, most_leaving, most_new) == []


def test_nodes_leave_in_as_few_waves_as_their_number_needs() -> None:
    found = plan(mid_size(209, spread=True).objects(), settings=ANY_SAVING)
    assert [len(leaving) for leaving, _ in found.waves] == [10, 1]


def test_nodes_whose_pods_share_a_budget_stay_in_waves_of_their_own() -> None:
    nodes = [f"l{number}" for number in range(4)]
    pods = [web(f"p{name}", name, "3", labels={"app": "web" if name < "l2" else name}) for name in nodes]
    budget = pdb("web", 1, selector={"matchLabels": {"app": "web"}})
    found = plan([WEB, *group("large", "16", "64Gi", 1.0, nodes), *group("small", "4", "16Gi", 0.2), *pods], budget)
    first, *others = [set(leaving) for leaving, _ in found.waves]
    assert {"l2", "l3"} < first
    assert others == [{"l0", "l1"} - first]
