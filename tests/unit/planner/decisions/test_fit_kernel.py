"""The kernel behind CheckFit against its naive twin, on a small cluster and on random ones."""

import numpy as np
from hypothesis import given

from tests.builders.examples import examples
from tests.builders.random_clusters import clusters
from tests.builders.snapshots import Cluster, write
from tests.reference.decisions import fit as naive
from trimtab.planner.decisions.kernels.fit import explain
from trimtab.planner.service.warm_up import small_cluster
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.kernels import failing, remove
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize


def taken_off(snapshot: Snapshot, pod: int) -> Simulation:
    """Return a separate simulation in which the pod is on no node."""
    simulation = build_simulation(snapshot)
    remove(simulation.state, pod)
    return simulation


def expected(snapshot: Snapshot, pods: list[int]) -> list[list[tuple[int, list[bool]]]]:
    """Return the twin's answer."""
    without = {pod: taken_off(snapshot, pod).state for pod in pods}
    return naive.explain(
        pods,
        lambda pod, node: int(failing(without[pod], pod, node)),
        lambda pod: without[pod].resources.free.tolist(),
        lambda pod: without[pod].resources.need[without[pod].pod_class[pod]].tolist(),
    )


def check(snapshot: Snapshot) -> None:
    """Compare all pods at once, and check that the simulation is unchanged."""
    simulation = build_simulation(snapshot)
    before = simulation.state.resources.free.copy()
    pods = np.arange(len(snapshot.pods.spec), dtype=np.int32)
    nodes, resources = simulation.state.resources.free.shape
    masks = np.full((len(pods), nodes), -1, np.int64)
    lacking = np.ones((len(pods), nodes, resources), np.bool_)
    assert explain(simulation.state, pods, masks, lacking, 0) == len(pods)
    rows = [[(int(masks[pod, node]), lacking[pod, node].tolist()) for node in range(nodes)] for pod in range(len(pods))]
    assert rows == expected(snapshot, pods.tolist())
    assert np.array_equal(simulation.state.resources.free, before)


def test_the_small_cluster_is_explained_as_by_the_twin() -> None:
    check(canonicalize(small_cluster()))


@examples(40, 6)
@given(clusters())
def test_random_clusters_are_explained_as_by_the_twin(cluster: Cluster) -> None:
    check(canonicalize(write(cluster)))


def test_pods_are_explained_a_few_at_a_time_from_where_the_last_ones_ended() -> None:
    snapshot = canonicalize(small_cluster())
    simulation = build_simulation(snapshot)
    pods = np.array([4, 3, 2], np.int32)
    masks = np.zeros((2, 3), np.int64)
    lacking = np.zeros((2, 3, simulation.state.resources.free.shape[1]), np.bool_)
    assert explain(simulation.state, pods, masks, lacking, 2) == 1
    assert [row[0] for row in expected(snapshot, [2])[0]] == masks[0].tolist()
