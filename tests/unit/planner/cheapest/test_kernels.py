"""The loops of the cheapest plan agree with their naive twins, bit by bit."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.reference.cheapest.build import Batch, built
from tests.reference.cheapest.dive import dived
from tests.reference.cheapest.fill import Market, filled
from tests.reference.cheapest.generate import Search, added, generated
from tests.reference.cheapest.improve import improved
from tests.reference.cheapest.master import Programme
from tests.unit.planner.cheapest.problems import small_problem
from trimtab.planner.cheapest.kernels.build import Batches, build
from trimtab.planner.cheapest.kernels.dive import dive
from trimtab.planner.cheapest.kernels.fill import (
    FILLS_TRIED,
    consider_remaining,
    fill_node,
)
from trimtab.planner.cheapest.kernels.generate import PricingState, add_fill, generate
from trimtab.planner.cheapest.kernels.improve import RuinRecreateScratch, improve
from trimtab.planner.cheapest.kernels.master import MasterProblem, reset_basis, solve
from trimtab.planner.cheapest.portfolio import batches_for, fill_state_for, master_for, pricing_for
from trimtab.planner.cheapest.problem import Problem
from trimtab.planner.model.tuning import MOST_TAKEN


class Both:
    """A small problem for kernel and twin, the values of pods, and some groups in some order."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.asked: Problem = small_problem(seed)
        asked = self.asked
        self.state = fill_state_for(asked, asked.price)
        self.market = Market(
            asked.demand.tolist(), asked.capacity.tolist(), asked.allowed.tolist(), asked.per_node.tolist(),
            asked.zone.tolist(), asked.price.tolist(), asked.pods.tolist(), asked.max_nodes.tolist(),
            asked.zone_most.tolist(),
        )  # fmt: skip
        self.value = [self.random.choice([0.0, 1.0, self.random.random()]) for _ in asked.pods]
        self.groups = self.random.sample(range(len(asked.capacity)), len(asked.capacity))

    def batches(self, weightings: int) -> Batches:
        """Return the kernel's plan."""
        batches, ratio = batches_for(self.asked), np.zeros(len(self.groups))
        groups = np.array(self.groups, np.int32)
        build(self.state, np.array(self.value), groups, ratio, weightings, batches)
        return batches

    def programme(self) -> tuple[MasterProblem, PricingState, Programme, Search]:
        """Return a linear programme without fills, with rows for the limits of some groups."""
        asked = self.asked
        limited = np.flatnonzero((asked.max_nodes < 40) & [self.random.random() < 0.5 for _ in asked.max_nodes])
        master = master_for(asked, asked.price, limited)
        pricing = pricing_for(asked, np.array(self.groups, np.int32), limited)
        sizes = len(master.offsets), len(master.row)
        programme = Programme(len(asked.pods), master.bound.tolist(), float(master.cost[0]), sizes)
        return master, pricing, programme, Search(self.groups, pricing.limit_row.tolist(), pricing.value.tolist())

    def agree_on_what_is_left(self) -> None:
        assert (self.state.pods.tolist(), self.state.nodes.tolist()) == (self.market.pods, self.market.nodes)
        assert self.state.zone_pods.tolist() == self.market.zone_pods
        assert self.state.numbers[FILLS_TRIED] == self.market.most_fills


def batches_in(batches: Batches) -> list[Batch]:
    rows = []
    for at in range(int(batches.counts[0])):
        entries = slice(batches.offsets[at], batches.offsets[at + 1])
        fill = dict(zip(batches.classes[entries].tolist(), batches.pods[entries].tolist(), strict=True))
        rows.append((int(batches.group[at]), int(batches.nodes[at]), fill))
    return rows


def agree(master: MasterProblem, programme: Programme) -> None:
    assert master.basis.tolist() == programme.basis
    assert master.level.tolist() == programme.level
    assert master.dual.tolist() == programme.dual
    assert np.flatnonzero(master.basic).tolist() == sorted(programme.basis)
    assert int(master.counts[0]) == len(programme.fills)


@given(st.integers(0, 2**40), st.integers(1, 4))
@examples(200)
def test_a_node_is_filled_as_by_the_twin(seed: int, weightings: int) -> None:
    both = Both(seed)
    for group in both.groups:
        worth = fill_node(both.state, np.array(both.value), group, weightings)
        expected, fill = filled(both.market, both.value, group, weightings)
        assert worth == expected
        assert {at: int(pods) for at, pods in enumerate(both.state.best) if pods} == fill
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.integers(1, 4))
@examples(200)
def test_nodes_are_planned_as_by_the_twin(seed: int, weightings: int) -> None:
    both = Both(seed)
    assert batches_in(both.batches(weightings)) == built(both.market, both.value, both.groups, weightings)
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.integers(0, 30))
@examples(200)
def test_the_programme_is_solved_as_by_the_twin(seed: int, fills: int) -> None:
    both = Both(seed)
    master, pricing, programme, search = both.programme()
    for number in range(fills):
        group = both.random.choice(both.groups)
        both.state.best[:] = [both.random.choice([0, 0, 1, 2, 5]) for _ in both.state.best]
        fill = dict(enumerate(both.state.best.tolist()))
        assert add_fill(both.state, pricing, group, master) == added(both.market, programme, search, group, fill)
        if number in (fills // 2, fills - 1):
            most = both.random.choice([1, 1000])
            assert solve(master, most) == programme.improve(most)
            agree(master, programme)
    reset_basis(master)
    programme.reset_basis()
    agree(master, programme)


@given(st.integers(0, 2**40), st.integers(1, 60))
@examples(100)
def test_fills_are_generated_as_by_the_twin(seed: int, most_fills: int) -> None:
    both = Both(seed)
    master, pricing, programme, search = both.programme()
    assert generate(both.state, master, pricing, most_fills) == generated(both.market, programme, search, most_fills)
    agree(master, programme)
    assert (pricing.value.tolist(), pricing.schedule.tolist()) == (
        search.value,
        [search.lane, search.weighting, search.helped],
    )
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.sampled_from([0.5, 0.9]), st.integers(1, 4))
@examples(100)
def test_whole_nodes_are_made_of_fractions_as_by_the_twin(seed: int, round_up_from: float, solutions: int) -> None:
    both = Both(seed)
    master, pricing, programme, search = both.programme()
    generate(both.state, master, pricing, 100)
    generated(both.market, programme, search, 100)
    batches = batches_for(both.asked)
    dive(both.state, master, pricing, round_up_from, solutions, batches)
    assert batches_in(batches) == dived(both.market, programme, search, round_up_from, solutions)
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.integers(1, 300), st.sampled_from([0, 1, 3, 1000]))
@examples(100)
def test_a_plan_is_improved_as_by_the_twin(seed: int, most_fills: int, tries: int) -> None:
    both = Both(seed)
    batches, nodes = both.batches(1), built(both.market, both.value, both.groups, 1)
    both.state.pods[:] = 0
    both.market.pods = [0] * len(both.market.pods)
    pricing = pricing_for(both.asked, np.array(both.groups, np.int32), np.zeros(0, np.int64))
    pricing.value[:] = both.value
    ruin = RuinRecreateScratch(
        np.zeros(len(both.value)),
        *np.zeros((2, len(both.groups))),
        np.zeros(MOST_TAKEN, np.int64),
        np.array([1, tries]),
    )
    improve(both.state, pricing, pricing.groups, ruin, most_fills, batches)
    assert batches_in(batches) == improved(both.market, both.value, both.groups, (most_fills, tries), nodes)
    both.agree_on_what_is_left()


def test_classes_without_pods_are_not_checked() -> None:
    both = Both(1)
    both.state.pods[0] = 0
    consider_remaining(both.state)
    assert both.state.considered[: both.state.numbers[0]].tolist() == np.flatnonzero(both.state.pods).tolist()
