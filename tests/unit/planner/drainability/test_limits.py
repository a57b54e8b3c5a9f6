"""Which nodes may leave together agrees with a naive twin, on random limits."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.drain_sets import compressed
from tests.builders.examples import examples
from tests.reference.drainability.limits import Limits
from trimtab.planner.drainability.kernels.limits import NodeLimits
from trimtab.planner.drainability.limits import admits, admitted, budget_uses
from trimtab.planner.facts.pdb import BudgetMembership


def random_limits(seed: int) -> tuple[Limits, NodeLimits]:
    """Return the same limits for both."""
    random = Random(seed)
    nodes, pods, budgets, of_nodes = (random.randint(1, most) for most in (6, 12, 3, 2))
    where = [random.randrange(nodes) for _ in range(pods)]
    covered = [[b for b in range(budgets) if random.random() < 0.5] for _ in range(pods)]
    is_used = [[random.random() < 0.8 for _ in of_pod] for of_pod in covered]
    naive = Limits(
        moving=[[pod for pod, at in enumerate(where) if at == node] for node in range(nodes)],
        needs={pod: [b for b, used in zip(covered[pod], is_used[pod], strict=True) if used] for pod in range(pods)},
        most=[random.randint(1, 4) for _ in range(budgets)],
        group=[random.randrange(2) for _ in range(nodes)],
        amount=[random.randint(0, 2) for _ in range(nodes)],
        counted=[{node for node in range(nodes) if random.random() < 0.6} for _ in range(of_nodes)],
        disruptions=[random.randint(0, 5) for _ in range(budgets)],
        in_turn=[random.randint(0, 1) for _ in range(budgets)],
        group_left=[random.randint(0, 4) for _ in range(2)],
        amount_left=random.randint(0, 6),
        nodes_left=[random.randint(0, 4) for _ in range(of_nodes)],
    )
    offsets, members = compressed(naive.moving)
    pairs, budget = compressed(covered)
    needs = np.array([used for of_pod in is_used for used in of_pod], np.uint8)
    under = BudgetMembership(pairs, budget, needs, np.repeat(np.arange(pods), np.diff(pairs)))
    return naive, NodeLimits(
        *budget_uses(offsets, members, under, np.array(naive.most, np.int64)),
        group=np.array(naive.group, np.int32),
        amount=np.array(naive.amount, np.int64)[:, None],
        counted=np.array([[node in of for node in range(nodes)] for of in naive.counted], bool),
        disruptions=np.array(naive.disruptions, np.int64),
        in_turn=np.array(naive.in_turn, np.int64),
        group_left=np.array(naive.group_left, np.int64),
        amount_left=np.array([naive.amount_left], np.int64),
        nodes_left=np.array(naive.nodes_left, np.int64),
    )


@given(st.integers(0, 2**40))
@examples(300)
def test_the_kernels_and_their_twin_admit_the_same_nodes(seed: int) -> None:
    naive, limits = random_limits(seed)
    nodes, random = range(len(naive.moving)), Random(seed + 1)
    for node in nodes:
        uses = slice(*limits.offsets[node : node + 2])
        of_node = zip(limits.budget[uses].tolist(), limits.need[uses].tolist(), strict=True)
        assert list(of_node) == list(naive.uses(node).items())
        first = [min(p for p in naive.moving[node] if b in naive.needs[p]) for b in naive.uses(node)]
        assert limits.pod[uses].tolist() == first
        assert {*admitted(limits, np.array([node], np.int32), 1)[1].tolist()} == {naive.refusal(node, [])} - {0}
    order, most = random.sample(nodes, random.randint(0, len(nodes))), random.randint(0, 4)
    leaving, refused = admitted(limits, np.array(order, np.int32), most)
    assert (leaving.tolist(), set(refused.tolist())) == naive.admitted(order, most)
    assert admits(limits, np.array(order, np.int32)) == (naive.admitted(order, len(order))[0] == order)
    assert (limits.disruptions.tolist(), limits.in_turn.tolist()) == (naive.disruptions, naive.in_turn)
    assert limits.nodes_left.tolist() == naive.nodes_left


def test_random_limits_refuse_nodes_for_every_reason() -> None:
    found = [random_limits(seed)[0] for seed in range(100)]
    assert {reason for one in found for reason in one.admitted(list(range(len(one.moving))), 9)[1]} == {6, 9, 15, 27}
