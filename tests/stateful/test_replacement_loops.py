"""Loops of a changing random cluster in which nodes are replaced: settings, prices and requests change; waves are
carried out, in part, or not at all, and the planner is told what became of them as `trimtab run` does.

The certificate verifies every plan. Changes are sent as deltas.
"""

from random import Random

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.differences import difference
from tests.builders.examples import ALL, examples
from tests.builders.kubernetes import Json
from tests.certificates.replacement import offences
from tests.stateful.replaced_loops import ReplacedCluster, leaving_of
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.replacing import note_outcomes
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2

LOOPS = 10
PAYBACK_S, AVOID_S = 900, 500
USUAL: Json = {"maxPaybackTime": f"{PAYBACK_S}s", "avoidTime": f"{AVOID_S}s"}
OTHERS: dict[str, list[Json]] = {
    "waves": [{}, {}, {"maxLeavingNodes": 2, "maxSurgeNodes": 1}, {"maxWaves": 1}],
    "choice": [{}, {"choice": "CAREFUL"}, {"choice": "MOST_SAVED_PER_EVICTION"}],
    "least": [{}, {}, {"minSavingShare": 0, "stabilityMargin": 0}, {"minSavingPerEviction": 0.05}],
    "stable": [{}, {}, {"stableTime": "240s"}],
    "budgets": [{}, {}, {"disruptionBudgets": [{"maxNodes": "1"}]}],
}
"""One of these is drawn for each concern."""


def some_settings(random: Random) -> Json:
    """Draw settings that differ from the usual ones in some concerns."""
    chosen = dict(USUAL)
    for ways in OTHERS.values():
        chosen |= random.choice(ways)
    return chosen


class Loops:
    """One planner that gets changes; what the loop remembers of nodes that came and of groups without stock."""

    def __init__(self, world: ReplacedCluster) -> None:
        self.world = world
        self.settings = some_settings(world.random)
        self.session = PlannerSession(InProcessLink())
        self.deltas = 0
        self._before: snapshot_pb2.ClusterSnapshot | None = None
        self.stays_until: dict[str, int] = {}
        self.avoided_until: dict[str, int] = {}

    def request(self) -> plan_pb2.PlanRequest:
        made = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.REPLACEMENT], seed=self.world.loop)
        made.now.seconds = self.world.now_s
        budgets = {name: value for name, value in self.settings.items() if name == "disruptionBudgets"}
        others = {name: value for name, value in self.settings.items() if name not in budgets}
        ParseDict({"replacement": others, "planner": budgets}, made.settings)
        return made

    def plan(self) -> plan_pb2.PlanResponse:
        """Return the answer to changes, once it is proven."""
        message = self.world.message()
        whole = SnapshotUpdate(message, None)
        answer, sent = self.session.plan(self.request(), self._update(message), lambda: whole)
        self.deltas += sent.delta is not None
        now_s = self.world.now_s
        assert offences(message, self.request().settings, answer, now_s) == []
        return answer

    def _update(self, message: snapshot_pb2.ClusterSnapshot) -> SnapshotUpdate:
        delta = difference(self._before, message) if self._before is not None else None
        self._before = message
        return SnapshotUpdate(message, None) if delta is None else SnapshotUpdate(None, delta)

    def check(self, answer: plan_pb2.PlanResponse) -> None:
        """Check that nodes that came stay until they have paid, and that groups without stock are left alone."""
        now_s, waves = self.world.now_s, answer.replacement.waves
        early = {name for name in leaving_of(waves) if self.stays_until.get(name, 0) > now_s}
        assert early == set(), "replaced before it has paid"
        bought = {one.node_group for wave in waves for one in wave.new_nodes}
        assert {group for group in bought if self.avoided_until.get(group, 0) > now_s} == set()

    def tell(self, ended: actuator_pb2.Replacement) -> None:
        """Write what became of a wave into the planner's state, and remember it."""
        settings = self.request().settings.replacement
        self.session.edit_state(lambda state: note_outcomes(state.replacement, [ended], settings))
        for one in ended.new_nodes:
            if one.node:
                self.stays_until[one.node] = self.world.now_s + PAYBACK_S
            for group in one.failed_node_groups:
                self.avoided_until[group] = self.world.now_s + AVOID_S

    def act(self, answer: plan_pb2.PlanResponse) -> int:
        """Carry the first wave out, in part, or not at all; return how many nodes have gone."""
        world, waves = self.world, answer.replacement.waves
        fate = world.random.random()
        if not waves or not waves[0].leaving or fate < 0.25:
            return 0
        if fate < 0.35:
            self.tell(world.out_of_stock(waves[0]))
            return 0
        before, price = len(world.nodes), world.price()
        ended = world.carry_out(waves[0], 1.0 if fate < 0.8 else 0.5)
        self.tell(ended)
        if fate < 0.8:
            assert world.price() == pytest.approx(price - waves[0].saving_per_hour)
        return before + len(ended.new_nodes) - len(world.nodes)


@pytest.mark.ci
@given(seed=st.integers(0, 2**32))
@examples(40, 1)
def test_every_loop_of_a_living_cluster_gets_a_proven_plan_that_keeps_new_nodes(seed: int) -> None:
    loops = Loops(ReplacedCluster(Random(seed)))
    random = loops.world.random
    for loops.world.loop in range(LOOPS if ALL else 6):
        if random.random() < 0.2:
            loops.settings = some_settings(random)
        if random.random() < 0.05:  # a new leader without the state
            loops.session.resume(None)
            loops.stays_until, loops.avoided_until = {}, {}
        answer = loops.plan()
        loops.check(answer)
        loops.act(answer)
        loops.world.live()


@pytest.mark.ci
@given(seed=st.integers(0, 2**32))
@examples(40, 1)
def test_a_cluster_that_no_longer_changes_comes_to_rest_and_costs_less_in_each_loop(seed: int) -> None:
    """All waves are carried out. Nodes that came may be replaced again at once, so nothing but the plans ends this."""
    loops = Loops(ReplacedCluster(Random(seed)))
    loops.settings = {"maxPaybackTime": "86400s", "maxLeavingNodes": 2, "maxWaves": 2}
    for loops.world.loop in range(20):
        answer, price = loops.plan(), loops.world.price()
        if not answer.replacement.waves:
            return
        loops.world.carry_out(answer.replacement.waves[0])
        assert loops.world.price() < price
    raise AssertionError("plans never end")


@pytest.mark.nightly
def test_such_loops_replace_nodes_and_send_deltas() -> None:
    """The loops above would prove little if nothing happened in them."""
    gone = deltas = stays = avoided = 0
    for seed in range(6):
        loops = Loops(ReplacedCluster(Random(seed)))
        for loops.world.loop in range(LOOPS):
            answer = loops.plan()
            loops.check(answer)
            gone += loops.act(answer)
            loops.world.live()
        deltas, stays, avoided = (
            deltas + loops.deltas,
            stays + len(loops.stays_until),
            avoided + len(loops.avoided_until),
        )
    assert (gone > 15, deltas > 30, stays > 5, avoided > 1) == (True,) * 4, (gone, deltas, stays, avoided)
