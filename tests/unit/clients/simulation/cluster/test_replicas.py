"""Which pods a controller of the simulated cluster deletes: the same as the ReplicaSet controller. A ReplicaSet that is
scaled makes pods from its template, or ends them.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.builders.kubernetes import deployment, node, pod, replica_set
from tests.builders.simulations import Simulation
from trimtab.actuator.kube.cluster import NotFoundError
from trimtab.clients.simulation.cluster.pods import SimulatedPod, format_time
from trimtab.clients.simulation.cluster.replicas import _order
from trimtab.common.kubernetes.names import POD_COST_ANNOTATION

NOW_MS = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp() * 1000)
OWNER = replica_set("web", 3)


def running(name: str, age_s: float, node: str = "n1", *, created_s: float = 1e6) -> SimulatedPod:
    """Return a pod that has been ready since a time; its uid is its name."""
    item = pod(name, node=node)
    since = format_time(NOW_MS - int(age_s * 1000))
    item["metadata"] |= {"uid": name, "creationTimestamp": format_time(NOW_MS - int(created_s * 1000))}
    item["status"] = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
    }
    return SimulatedPod(item)


def order(*pods: SimulatedPod) -> list[str]:
    """Return names in order of deletion, which does not depend on the given order."""
    found = [[one.key[1] for one in _order(OWNER, list(given), NOW_MS)] for given in (pods, pods[::-1])]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("ages_s", "expected"),
    [
        # 2^35 ns are 34 s, 2^36 ns 69 s, 2^37 ns 137 s.
        pytest.param({"a": 130, "b": 60, "c": 40}, "bca", id="younger powers of two first"),
        pytest.param({"a": 68, "b": 35, "c": 36}, "abc", id="by uid within one"),
        pytest.param({"a": 5, "b": 0, "c": -3}, "bca", id="those of this moment first"),
    ],
)
def test_the_youngest_go_first_by_the_power_of_two_of_their_age(ages_s: dict[str, float], expected: str) -> None:
    assert "".join(order(*(running(name, age_s) for name, age_s in ages_s.items()))) == expected


def test_age_is_since_a_pod_is_ready() -> None:
    assert order(running("a", 600, created_s=700), running("b", 10, created_s=9000)) == ["b", "a"]


def test_pods_that_share_a_node_with_most_others_go_before_younger_ones() -> None:
    crowded = [running(name, 600, "n1") for name in "ab"]
    assert order(*crowded, running("c", 5, "n2")) == ["a", "b", "c"]


def test_a_lower_cost_goes_first_and_one_that_cannot_be_read_is_none() -> None:
    pods = [running(name, 600) for name in "abc"]
    for one, cost in zip(pods, ("5", "much", "-5"), strict=True):
        one.item["metadata"]["annotations"] = {POD_COST_ANNOTATION: cost}
    assert order(*pods) == ["c", "b", "a"]


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
