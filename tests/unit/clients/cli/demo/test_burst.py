"""The demo's burst: a workload without pods at first, and the check of its result."""

from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.demo import ready, shot
from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.demo.burst import (
    NAMESPACE,
    POD_COUNT,
    WORKLOAD,
    DemoBurst,
    complaints,
    replica_set_name,
    running,
    summary,
    write_workload,
)
from trimtab.clients.cli.demo.evidence import ClusterPicture
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.common.kubernetes.object_files import load_files


def served(count: int, node: str = "n1") -> ClusterPicture:
    """Return a cluster in which `count` pods of the burst are ready."""
    pods = [ready(f"burst-{i}", node) for i in range(count)]
    for pod in pods:
        pod["metadata"] |= {"namespace": NAMESPACE, "labels": {"app": WORKLOAD}}
    return shot(k8s.node("n1"), *pods, ready("other", "n1"))


def burst(peak: int, after: int) -> DemoBurst:
    made = DemoBurst(served(0), served(peak), served(after))
    made.note("compute-a", 4, 6)
    return made


def test_the_simulated_cluster_gives_the_workload_its_pods(tmp_path: Path) -> None:
    cluster = SimulatedCluster(load_files([write_workload(tmp_path / "burst.json")]))
    assert not any(one["kind"] == "Pod" for one in cluster.objects())
    cluster.scale(NAMESPACE, replica_set_name(), POD_COUNT)
    assert sum(one["kind"] == "Pod" for one in cluster.objects()) == POD_COUNT
    cluster.close()


def test_pods_of_the_burst_count_once_they_are_ready_on_a_node() -> None:
    assert running(served(3)) == 3
    assert running(served(3, node="")) == 0


def test_a_burst_that_was_served_and_is_gone_raises_no_complaint() -> None:
    assert complaints(burst(POD_COUNT, 0)) == []


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        pytest.param(burst(POD_COUNT - 1, 0), f"{POD_COUNT - 1} of {POD_COUNT} pods", id="one was not served"),
        pytest.param(burst(POD_COUNT, 2), "2 pods of the burst still exist", id="some stay"),
        pytest.param(DemoBurst(served(0), served(POD_COUNT), served(0)), "no node group grew", id="nothing grew"),
    ],
)
def test_a_failed_burst_is_reported(made: DemoBurst, complaint: str) -> None:
    (found,) = complaints(made)
    assert complaint in found


def test_growth_of_a_group_in_several_rounds_is_reported_as_one() -> None:
    made = burst(POD_COUNT, 0)
    made.note("compute-a", 6, 9)
    made.note("compute-b", 1, 2)
    made.price_per_hour = 4.08
    text = " ".join(map(plain_text, summary(made)))
    assert "6 nodes added for 4.08 an hour: compute-a 4 → 9, compute-b 1 → 2." in text
    assert f"{POD_COUNT} of {POD_COUNT} pods ran" in text
