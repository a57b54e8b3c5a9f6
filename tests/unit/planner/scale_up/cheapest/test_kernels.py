"""The loops of the cheapest plan agree with their naive twins, bit by bit."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.small_problems import small_problem
from tests.reference.scale_up.cheapest.build import Batch, built
from tests.reference.scale_up.cheapest.dive import dived
from tests.reference.scale_up.cheapest.fill import Market, filled
from tests.reference.scale_up.cheapest.generate import Search, added, generated
from tests.reference.scale_up.cheapest.improve import improved
from tests.reference.scale_up.cheapest.master import Programme
from trimtab.planner.scale_up.cheapest.kernels.build import Batches, build
from trimtab.planner.scale_up.cheapest.kernels.dive import dive
from trimtab.planner.scale_up.cheapest.kernels.fill import POURS, Bench, Rest, Shapes, fill_node, look_at_left
from trimtab.planner.scale_up.cheapest.kernels.generate import Watch, add_fill, generate
from trimtab.planner.scale_up.cheapest.kernels.improve import MANY, Trial, improve
from trimtab.planner.scale_up.cheapest.kernels.master import Master, begin, improve_levels
from trimtab.planner.scale_up.cheapest.problem import Problem
from trimtab.planner.scale_up.cheapest.work import batches_for, bench_for, master_for, shapes_of, watch_for


class Both:
    """A small problem for kernel and twin, the values of pods, and some groups in some order."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.asked: Problem = small_problem(seed)
        asked = self.asked
        self.shapes: Shapes = shapes_of(asked, asked.price)
        self.rest = Rest(asked.pods.copy(), asked.most.copy(), asked.zone_most.copy())
        self.bench: Bench = bench_for(asked)
        self.market = Market(
            asked.demand.tolist(), asked.capacity.tolist(), asked.allowed.tolist(), asked.per_node.tolist(),
            asked.zone.tolist(), asked.price.tolist(), asked.pods.tolist(), asked.most.tolist(),
            asked.zone_most.tolist(),
        )  # fmt: skip
        self.value = [self.random.choice([0.0, 1.0, self.random.random()]) for _ in asked.pods]
        self.groups = self.random.sample(range(len(asked.capacity)), len(asked.capacity))

    def made(self, ways: int) -> Batches:
        """Return the kernel's plan."""
        made, ratio = batches_for(self.asked), np.zeros(len(self.groups))
        groups = np.array(self.groups, np.int32)
        build(self.shapes, self.rest, np.array(self.value), self.bench, groups, ratio, ways, made)
        return made

    def programme(self) -> tuple[Master, Watch, Programme, Search]:
        """Return a linear programme without fills, with rows for the limits of some groups."""
        asked = self.asked
        limited = np.flatnonzero((asked.most < 40) & [self.random.random() < 0.5 for _ in asked.most])
        master = master_for(asked, asked.price, limited)
        watch = watch_for(asked, np.array(self.groups, np.int32), limited)
        sizes = len(master.offsets), len(master.row)
        programme = Programme(len(asked.pods), master.bound.tolist(), float(master.cost[0]), sizes)
        return master, watch, programme, Search(self.groups, watch.limit_row.tolist(), watch.value.tolist())

    def agree_on_what_is_left(self) -> None:
        assert (self.rest.pods.tolist(), self.rest.nodes.tolist()) == (self.market.pods, self.market.nodes)
        assert self.rest.zone_pods.tolist() == self.market.zone_pods
        assert self.bench.numbers[POURS] == self.market.pours


def batches_in(made: Batches) -> list[Batch]:
    rows = []
    for at in range(int(made.counts[0])):
        entries = slice(made.offsets[at], made.offsets[at + 1])
        fill = dict(zip(made.classes[entries].tolist(), made.pods[entries].tolist(), strict=True))
        rows.append((int(made.group[at]), int(made.nodes[at]), fill))
    return rows


def agree(master: Master, programme: Programme) -> None:
    assert master.basis.tolist() == programme.basis
    assert master.level.tolist() == programme.level
    assert master.dual.tolist() == programme.dual
    assert np.flatnonzero(master.basic).tolist() == sorted(programme.basis)
    assert int(master.counts[0]) == len(programme.fills)


@given(st.integers(0, 2**40), st.integers(1, 4))
@examples(200)
def test_a_node_is_filled_as_by_the_twin(seed: int, ways: int) -> None:
    both = Both(seed)
    for group in both.groups:
        worth = fill_node(both.shapes, both.rest, np.array(both.value), both.bench, group, ways)
        expected, fill = filled(both.market, both.value, group, ways)
        assert worth == expected
        assert {at: int(pods) for at, pods in enumerate(both.bench.best) if pods} == fill
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.integers(1, 4))
@examples(200)
def test_nodes_are_planned_as_by_the_twin(seed: int, ways: int) -> None:
    both = Both(seed)
    assert batches_in(both.made(ways)) == built(both.market, both.value, both.groups, ways)
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.integers(0, 30))
@examples(200)
def test_the_programme_is_solved_as_by_the_twin(seed: int, fills: int) -> None:
    both = Both(seed)
    master, watch, programme, search = both.programme()
    for turn in range(fills):
        group = both.random.choice(both.groups)
        both.bench.best[:] = [both.random.choice([0, 0, 1, 2, 5]) for _ in both.bench.best]
        fill = dict(enumerate(both.bench.best.tolist()))
        assert add_fill(both.shapes, both.bench, watch, group, master) == added(
            both.market, programme, search, group, fill
        )
        if turn in (fills // 2, fills - 1):
            most = both.random.choice([1, 1000])
            assert improve_levels(master, most) == programme.improve(most)
            agree(master, programme)
    begin(master)
    programme.begin()
    agree(master, programme)


@given(st.integers(0, 2**40), st.integers(1, 60))
@examples(100)
def test_fills_are_generated_as_by_the_twin(seed: int, pours: int) -> None:
    both = Both(seed)
    master, watch, programme, search = both.programme()
    assert generate(both.shapes, both.rest, master, both.bench, watch, pours) == generated(
        both.market, programme, search, pours
    )
    agree(master, programme)
    assert (watch.value.tolist(), watch.turn.tolist()) == (search.value, [search.lane, search.way, search.helped])
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.sampled_from([0.5, 0.9]), st.integers(1, 4))
@examples(100)
def test_whole_nodes_are_made_of_fractions_as_by_the_twin(seed: int, nearly: float, solutions: int) -> None:
    both = Both(seed)
    master, watch, programme, search = both.programme()
    generate(both.shapes, both.rest, master, both.bench, watch, 100)
    generated(both.market, programme, search, 100)
    made = batches_for(both.asked)
    dive(both.shapes, both.rest, master, both.bench, watch, nearly, solutions, made)
    assert batches_in(made) == dived(both.market, programme, search, nearly, solutions)
    both.agree_on_what_is_left()


@given(st.integers(0, 2**40), st.integers(1, 300), st.sampled_from([0, 1, 3, 1000]))
@examples(100)
def test_a_plan_is_improved_as_by_the_twin(seed: int, pours: int, tries: int) -> None:
    both = Both(seed)
    made, batches = both.made(1), built(both.market, both.value, both.groups, 1)
    both.rest.pods[:] = 0
    both.market.pods = [0] * len(both.market.pods)
    watch = watch_for(both.asked, np.array(both.groups, np.int32), np.zeros(0, np.int64))
    watch.value[:] = both.value
    trial = Trial(
        np.zeros(len(both.value)), *np.zeros((2, len(both.groups))), np.zeros(MANY, np.int64), np.array([1, tries])
    )
    improve(both.shapes, both.rest, both.bench, watch, watch.groups, trial, pours, made)
    assert batches_in(made) == improved(both.market, both.value, both.groups, (pours, tries), batches)
    both.agree_on_what_is_left()


def test_classes_without_pods_are_not_checked() -> None:
    both = Both(1)
    both.rest.pods[0] = 0
    look_at_left(both.rest, both.bench)
    assert both.bench.live[: both.bench.numbers[0]].tolist() == np.flatnonzero(both.rest.pods).tolist()
