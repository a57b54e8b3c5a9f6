"""Why pods do not all fit at the same time: as in the naive twin, and as text for users."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import problem_of, random_loop, some_rows
from tests.builders.examples import examples
from tests.builders.kubernetes import node, node_group, pod, replica_set
from tests.builders.scale_down import plan
from tests.reference.scale_down.search.joint_failures import joint_failures
from trimtab.planner.scale_down.search.kernels.drain_sets import drain_candidates
from trimtab.planner.scale_down.search.kernels.joint_failures import count_joint_failures
from trimtab.planner.simulation.build import build_simulation

REASONS = 32


def run_both(seed: int) -> list[int]:
    """Compare all nodes that stay after a random loop; return the blocking pods."""
    loop = random_loop(seed)
    simulation = build_simulation(snapshot(*some_rows(seed)))
    problem = problem_of(loop, len(simulation.state.local_class))
    candidates = [one for one in range(len(loop.cluster.nodes)) if loop.allowed[one]][: seed % 4]
    bounds, known = np.array([99], np.int64), np.zeros(len(loop.cluster.nodes), bool)
    drain_candidates(simulation.state, problem, np.array(candidates, np.int32), 0, len(candidates), known, bounds, 0)
    loop.run(candidates)
    nodes = np.array([one for one in range(len(known)) if one not in loop.accepted], np.int32)
    blocking_pods, counts = np.full(len(nodes), -1, np.int32), np.zeros((len(nodes), REASONS), np.int64)
    before = simulation.state.pod_node.copy(), problem.search.allowed.copy()
    found = count_joint_failures(simulation.state, problem, nodes, blocking_pods, counts)
    twins = [joint_failures(loop, one) for one in nodes.tolist()]
    assert blocking_pods.tolist() == [blocking_pod for blocking_pod, _ in twins]
    named = [{reason: int(row[reason]) for reason in range(1, REASONS) if row[reason]} for row in counts]
    assert named == [reasons for _, reasons in twins]
    assert found == sum(blocking_pod >= 0 for blocking_pod, _ in twins)
    assert (simulation.state.pod_node == before[0]).all()
    assert (problem.search.allowed == before[1]).all()
    return blocking_pods.tolist()


@given(st.integers(0, 2**48))
@examples(80)
def test_joint_failures_are_those_of_the_twin(seed: int) -> None:
    run_both(seed)


def test_random_clusters_have_nodes_of_both_kinds() -> None:
    blocking_pods = [blocking_pod for seed in range(20) for blocking_pod in run_both(seed)]
    assert min(blocking_pods) == -1 < max(blocking_pods)


def test_a_pod_that_fits_only_alone_is_reported_with_what_is_missing_together_with_the_others() -> None:
    web = replica_set("web", 9)
    pods = [pod(f"p{i}", "600m", node="n0", owner=web) for i in range(3)]
    objects = [web, node("n0"), node("n1", cpu="1"), node("n2", cpu="1"), *pods, node_group("g", nodes=["n0"])]
    entry = next(one for one in plan(objects).staying if one.node == "n0")
    assert entry.blocking_pod == "default/p2"
    assert dict(entry.predicate_failure_counts) == {"INSUFFICIENT_RESOURCES": 2}
    assert "not all at the same time" in entry.detail
