"""MachinePools as node groups: those with Machines work like MachineDeployments, those without cannot delete a named
instance.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders import json_api
from tests.builders.cluster_api import BASE
from tests.builders.json_api import JsonApiServer
from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.clusterapi.objects import CAPACITY, DELETED, MAX_SIZE, MIN_SIZE
from trimtab.actuator.cloud.provider import CloudRefusedError, Instance, InstanceState, NodeGroupView, SizeChangedError
from trimtab.common.kubernetes.kinds.cluster_api import DELETE_MACHINE

Json = dict[str, Any]
G = "MachinePool/default/p"
POOL = f"{BASE}/machinepools/p"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[JsonApiServer]:
    monkeypatch.setattr(json_api, "LISTED", (*json_api.LISTED, "/machinepools"))
    with JsonApiServer() as started:
        yield started


def pool(server: JsonApiServer, replicas: int | None, **spec: Any) -> None:
    """Create a pool "p" of 0 to 5 instances."""
    sizes = {MIN_SIZE: "0", MAX_SIZE: "5"}
    meta = {
        "name": "p",
        "namespace": "default",
        "annotations": {**sizes, CAPACITY + "cpu": "2", CAPACITY + "memory": "4Gi"},
    }
    server.put(f"{BASE}/machinepools", {"metadata": meta, "spec": {"replicas": replicas, **spec}})


def machines(server: JsonApiServer, *names: str, phase: str = "Running") -> None:
    """Create Machines of the pool."""
    for name in names:
        meta = {"name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/pool-name": "p"}}
        spec = {"providerID": f"test:///{name}"} if phase == "Running" else {}
        server.put(f"{BASE}/machines", {"metadata": meta, "spec": spec, "status": {"phase": phase}})


def replicas(server: JsonApiServer) -> int:
    return int(server.objects[POOL]["spec"]["replicas"])


def marked(server: JsonApiServer) -> list[str]:
    found = [(path, item["metadata"]) for path, item in sorted(server.objects.items()) if "/machines/" in path]
    return [path.rpartition("/")[2] for path, meta in found if DELETE_MACHINE in meta.get("annotations", {})]


def test_a_pool_without_instances_grows_by_its_template(server: JsonApiServer) -> None:
    pool(server, 0)
    cloud = ClusterApiCloud(server.api())
    template = cloud.template(G)
    assert template is not None
    assert template.allocatable == {"cpu": "2", "memory": "4Gi", "pods": "110"}
    for _ in range(2):
        cloud.set_size(G, 0, 2, "token")
    assert list(cloud.node_groups()) == [NodeGroupView(G, 0, 5, 2, 0)]
    with pytest.raises(SizeChangedError, match="has size 2, not 0"):
        cloud.set_size(G, 0, 2, "other")


def test_a_pool_that_says_no_size_has_one_replica(server: JsonApiServer) -> None:
    pool(server, None)
    assert [view.target_size for view in ClusterApiCloud(server.api()).node_groups()] == [1]


def test_the_machine_that_is_named_is_marked_before_the_pool_shrinks(server: JsonApiServer) -> None:
    pool(server, 3)
    machines(server, "m0", "m1", "m2")
    server.objects[f"{BASE}/machines/m1"]["metadata"]["annotations"] = {"theirs": "kept"}
    cloud = ClusterApiCloud(server.api())
    for _ in range(2):
        assert cloud.delete_instances(G, ["test:///m1"]) == {}
    assert (replicas(server), marked(server)) == (2, ["m1"])
    assert server.objects[f"{BASE}/machines/m1"]["metadata"]["annotations"]["theirs"] == "kept"
    patches = [one for one in server.requests if one.startswith("PATCH")]
    assert patches == [f"PATCH {BASE}/machines/m1", f"PATCH {POOL}"]
    assert cloud.instance_states(G, ["test:///m1"]) == {"test:///m1": InstanceState.DELETING}
    assert server.objects[POOL]["metadata"]["annotations"][DELETED] == "uid-m1"


def test_a_machine_is_found_by_the_id_from_before_it_had_a_provider_id(server: JsonApiServer) -> None:
    pool(server, 2)
    machines(server, "m0", "m1", phase="Provisioning")
    cloud = ClusterApiCloud(server.api())
    early = [one.id for one in cloud.instances([G])[G]]
    assert early == ["clusterapi://default/m0", "clusterapi://default/m1"]
    machines(server, "m1")
    assert cloud.groups_of(["clusterapi://default/m1", "test:///m1"]) == {
        "clusterapi://default/m1": G,
        "test:///m1": G,
    }
    assert cloud.instance_states(G, ["clusterapi://default/m1"]) == {"clusterapi://default/m1": InstanceState.RUNNING}
    assert cloud.delete_instances(G, ["clusterapi://default/m1"]) == {}
    assert (replicas(server), marked(server)) == (1, ["m1"])


def test_instances_without_machines_are_listed_and_none_of_them_is_deleted(server: JsonApiServer) -> None:
    pool(server, 3, providerIDList=["test:///b", "test:///a"])
    cloud = ClusterApiCloud(server.api())
    assert list(cloud.node_groups()) == [NodeGroupView(G, 2, 5, 3, 2)], "below what exists no size can be asked for"
    running = [Instance("test:///a", InstanceState.RUNNING), Instance("test:///b", InstanceState.RUNNING)]
    assert cloud.instances([G]) == {G: running}
    assert cloud.groups_of(["test:///a", "test:///c"]) == {"test:///a": G}
    failed = cloud.delete_instances(G, ["test:///a"])
    assert isinstance(failed["test:///a"], CloudRefusedError)
    assert "has no Machines" in str(failed["test:///a"])
    assert replicas(server) == 3
    cloud.decrease_target(G, 3, 2)
    assert replicas(server) == 2
    with pytest.raises(CloudRefusedError, match="below the minimum 2"):
        cloud.decrease_target(G, 2, 1)


def test_a_pool_with_machines_takes_its_instances_from_them(server: JsonApiServer) -> None:
    pool(server, 2, providerIDList=["test:///m0", "test:///m1"])
    machines(server, "m0", "m1")
    cloud = ClusterApiCloud(server.api())
    assert list(cloud.node_groups()) == [NodeGroupView(G, 0, 5, 2, 2)]
    del server.objects[f"{BASE}/machines/m0"]
    assert cloud.instance_states(G, ["test:///m0"]) == {"test:///m0": InstanceState.GONE}
