"""A ReplicaSet of the simulated cluster is scaled: pods are made from its template, or end."""

from pathlib import Path

import pytest

from tests.builders.kubernetes import deployment, node, replica_set
from tests.builders.simulations import Simulation
from trimtab.actuator.kube.cluster import NotFoundError


def scalable(path: Path | None = None) -> Simulation:
    """Return a node of four cores, and a ReplicaSet of a Deployment, without pods yet, whose pods request one core."""
    web = deployment("web", 0)
    owner = replica_set("web-1", 0, owner=web)
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    owner["spec"]["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    return Simulation(node("n1", cpu="4"), web, owner, path=path)


def test_a_replica_set_makes_pods_from_its_template_and_ends_those_first_that_have_no_node() -> None:
    simulation = scalable()
    simulation.cluster.scale("default", "web-1", 6)
    simulation.time.now_s += 5
    pods = simulation.objects("Pod")
    assert sorted(place for place, _ in simulation.pods().values()) == ["", "", "n1", "n1", "n1", "n1"]
    assert {one["metadata"]["labels"]["app"] for one in pods.values()} == {"web"}
    assert {one["metadata"]["ownerReferences"][0]["name"] for one in pods.values()} == {"web-1"}
    assert simulation.objects("Deployment")["web"]["spec"]["replicas"] == 6
    simulation.cluster.scale("default", "web-1", 3)
    simulation.time.now_s += 5
    assert list(simulation.pods().values()) == [("n1", "Running")] * 3
    simulation.cluster.scale("default", "web-1", 0)
    simulation.time.now_s += 60
    assert simulation.objects("Pod") == {}


def test_a_size_that_was_set_outlives_the_process(tmp_path: Path) -> None:
    simulation = scalable(tmp_path / "cluster.sqlite")
    simulation.cluster.scale("default", "web-1", 2)
    simulation.cluster.close()
    again = Simulation(path=tmp_path / "cluster.sqlite")
    assert again.objects("ReplicaSet")["web-1"]["spec"]["replicas"] == 2
    name = next(iter(again.pods()))
    again.evict(name)
    again.time.now_s += 60
    assert len(again.pods()) == 2
    again.cluster.close()


def test_a_replica_set_that_is_not_there_cannot_be_scaled() -> None:
    simulation = scalable()
    with pytest.raises(NotFoundError, match="ReplicaSet default/other does not exist"):
        simulation.cluster.scale("default", "other", 1)
