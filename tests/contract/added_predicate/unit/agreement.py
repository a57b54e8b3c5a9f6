"""Both added predicates agree with their twins, on clusters in which they refuse pods."""

from random import Random

from hypothesis import given

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.random_rows import rows
from tests.builders.simulation_walks import SEEDS, Walk, assert_agree
from tests.reference.predicates import compose as naive
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import HostPort
from trimtab.planner.predicates.kernels import compose
from trimtab.planner.predicates.order import reasons_of
from trimtab.planner.simulation.build import build_simulation
from trimtab.v1.reason_pb2 import PredicateReason

SEEN = set[int]()


@given(SEEDS)
@examples(40)
def test_the_added_predicates_agree_with_their_twins(seed: int) -> None:
    random = Random(seed)
    nodes, pods, namespaces = rows(seed)
    nodes = [
        n._replace(labels=n.labels | ({"example.com/host-ports": ""} if random.random() < 0.5 else {})) for n in nodes
    ]
    for at, pod in enumerate(pods):
        ports = (HostPort("TCP", "0.0.0.0", 9000 + at),) if random.random() < 0.2 else pod.spec.host_ports
        labels = pod.labels | ({"example.com/license": random.choice("ab")} if random.random() < 0.7 else {})
        pods[at] = pod._replace(labels=labels, spec=pod.spec._replace(host_ports=ports))
    simulation, cluster = build_simulation(snapshot(nodes, pods, namespaces)), Cluster(nodes, pods, namespaces)
    walk = Walk(simulation, cluster, random)
    for _ in range(6):
        walk.step()
    assert_agree(simulation, cluster)
    state = simulation.state
    for at, pod in enumerate(cluster.pods):
        for node, name in enumerate(cluster.nodes):
            SEEN.update(naive.failing(cluster, pod, name))
            if not cluster.at[at]:
                pod_class = int(state.pod_class[at])
                mask = int(compose.because(state.counters, at, pod_class, node))
                assert set(reasons_of(mask)) == naive.because(cluster, pod, name)
                assert compose.refusal(state.counters, at, pod_class, node) == naive.refusal(cluster, pod, name)


def test_the_examples_were_about_the_added_predicates() -> None:
    assert {PredicateReason.HOST_PORTS_CLOSED, PredicateReason.LICENSE_SEATS_TAKEN} <= SEEN
