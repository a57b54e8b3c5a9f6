"""All dynamic predicates together agree with the naive ones, and so does how long a refusal holds."""

from random import Random

from hypothesis import given

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.random_rows import rows
from tests.builders.simulation_walks import SEEDS, Walk
from tests.reference.predicates import compose as naive
from tests.reference.simulation.moves import Cluster
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.simulation.build import build_simulation


@given(SEEDS)
@examples(100)
def test_reasons_and_their_duration_agree_with_the_naive_predicates(seed: int) -> None:
    nodes, pods, namespaces = rows(seed)
    simulation, cluster = build_simulation(snapshot(nodes, pods, namespaces)), Cluster(nodes, pods, namespaces)
    walk = Walk(simulation, cluster, Random(seed))
    for _ in range(6):
        walk.step()
    state = simulation.state
    for at, pod in enumerate(cluster.pods):
        if cluster.at[at]:
            continue
        pod_class = int(state.pod_class[at])
        for node, name in enumerate(cluster.nodes):
            mask = int(compose.because(state.counters, at, pod_class, node))
            assert set(reasons_of(mask)) == naive.because(cluster, pod, name), (pod, name)
            assert compose.refusal(state.counters, at, pod_class, node) == naive.refusal(cluster, pod, name)
