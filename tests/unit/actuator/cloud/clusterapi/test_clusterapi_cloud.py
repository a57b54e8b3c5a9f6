"""MachineDeployments as a cloud: sizes and deletions are written once, whatever becomes of the calls."""

from collections.abc import Iterator

import pytest

from actuator.cloud.clusterapi.cloud import ClusterApiCloud
from actuator.cloud.clusterapi.objects import CAPACITY, DELETE_MACHINE, MAX_SIZE, MIN_SIZE, OPTIONS, read_group
from actuator.cloud.clusterapi.settings import ClusterApiSettings
from actuator.cloud.provider import CloudError, InstanceState, MachineType, Reservation
from tests.builders.cluster_api import BASE, KIND, Controllers, fill, machine_deployment
from tests.builders.json_api import Fault, JsonApiServer

G = KIND + "g"


@pytest.fixture
def server() -> Iterator[JsonApiServer]:
    with JsonApiServer() as started:
        yield started


@pytest.fixture
def controllers(server: JsonApiServer) -> Controllers:
    return fill(server)


def replicas(server: JsonApiServer, name: str = "g") -> int:
    return int(server.objects[f"{BASE}/machinedeployments/{name}"]["spec"]["replicas"])


def machines(server: JsonApiServer) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in server.objects if "/machines/" in path)


@pytest.mark.parametrize("after", [False, True], ids=["lost before", "lost after"])
@pytest.mark.parametrize("at", range(3))
def test_a_deletion_whose_calls_are_lost_is_made_once(
    server: JsonApiServer, controllers: Controllers, at: int, after: bool
) -> None:
    cloud = ClusterApiCloud(server.api())
    (victim, *_) = [one.id for one in cloud.instances([G])[G]]
    # Requests pass up to that one; a cut connection is tried again by the client itself.
    server.fail("PATCH", *[Fault(status=500, after=after)] * at)
    for _ in range(3):
        cloud.delete_instances(G, [victim])
    assert cloud.delete_instances(G, [victim]) == {}
    assert replicas(server) == 2
    assert cloud.instance_states(G, [victim]) == {victim: InstanceState.DELETING}
    controllers.settle()
    assert (len(machines(server)), victim.rpartition("/")[2] in machines(server)) == (2, False)
    assert cloud.instance_states(G, [victim]) == {victim: InstanceState.GONE}


def test_a_growth_whose_answer_is_lost_is_made_once_also_by_another_process(
    server: JsonApiServer, controllers: Controllers
) -> None:
    server.fail("PATCH", Fault(status=500, after=True))
    ClusterApiCloud(server.api()).set_size(G, 3, 5, "token")
    other = ClusterApiCloud(server.api())
    assert other.was_set(G, 5, "token")
    other.set_size(G, 3, 5, "token")
    assert replicas(server) == 5


def test_a_size_that_others_change_meanwhile_is_read_again(server: JsonApiServer, controllers: Controllers) -> None:
    cloud = ClusterApiCloud(server.api())
    (victim, *_) = [one.id for one in cloud.instances([G])[G]]
    real, changed = server._patch, []  # type: ignore[attr-defined]

    def patch(path: str, body: object) -> object:
        if path.endswith("/g") and not changed:
            changed.append(path)
            item = server.objects[path]
            item["spec"]["replicas"] += 1
            server.put(path.rpartition("/")[0], item)
        return real(path, body)

    server._patch = patch  # type: ignore[attr-defined, method-assign, assignment]
    assert cloud.delete_instances(G, [victim]) == {}
    assert (replicas(server), len(changed)) == (3, 1)


def test_what_is_given_up_is_marked_and_never_a_machine_that_runs(
    server: JsonApiServer, controllers: Controllers
) -> None:
    cloud = ClusterApiCloud(server.api())
    cloud.set_size(G, 3, 6, "token")
    controllers.create()
    cloud.decrease_target(G, 6, 4)
    marked = [
        path.rpartition("/")[2]
        for path, item in sorted(server.objects.items())
        if DELETE_MACHINE in item["metadata"].get("annotations", {})
    ]
    assert (replicas(server), marked) == (4, ["g-4", "g-5"])
    controllers.settle()
    assert machines(server) == ["g-0", "g-1", "g-2", "g-3"]
    for _ in range(2):
        cloud.decrease_target(G, 6, 4)


def test_a_deletion_at_the_minimum_marks_nothing(server: JsonApiServer, controllers: Controllers) -> None:
    cloud = ClusterApiCloud(server.api())
    server.objects[f"{BASE}/machinedeployments/g"]["metadata"]["annotations"][MIN_SIZE] = "3"
    (victim, *_) = [one.id for one in cloud.instances([G])[G]]
    assert "minimum 3" in str(cloud.delete_instances(G, [victim])[victim])
    assert not any(DELETE_MACHINE in item["metadata"].get("annotations", {}) for item in server.objects.values())


def test_an_object_with_annotations_that_cannot_be_read_takes_only_itself_away(
    server: JsonApiServer, controllers: Controllers
) -> None:
    odd = machine_deployment("odd", 0, 3, 0)
    odd["metadata"]["annotations"][MAX_SIZE] = "many"
    server.put(f"{BASE}/machinedeployments", odd)
    server.put(f"{BASE}/machinedeployments", {"metadata": {"name": "plain", "namespace": "default"}, "spec": {}})
    assert [view.id for view in ClusterApiCloud(server.api()).node_groups()] == [G, KIND + "h"]
    with pytest.raises(ValueError, match="group-max-size: 'many' is no whole number"):
        read_group("MachineDeployment", odd)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [("labels", "pool", "'pool' is not KEY=VALUE"), ("taints", "team=web", "'team=web' is not KEY=VALUE:EFFECT")],
)
def test_a_template_that_cannot_be_read_names_the_annotation(
    server: JsonApiServer, controllers: Controllers, name: str, text: str, told: str
) -> None:
    server.objects[f"{BASE}/machinedeployments/g"]["metadata"]["annotations"][CAPACITY + name] = text
    with pytest.raises(ValueError, match=told):
        ClusterApiCloud(server.api()).template(G)


def test_gpus_pods_and_disks_are_in_the_template(server: JsonApiServer, controllers: Controllers) -> None:
    more = {"gpu-count": "2", "gpu-type": "amd.com/gpu", "maxPods": "58", "ephemeral-disk": "50Gi"}
    annotations = server.objects[f"{BASE}/machinedeployments/h"]["metadata"]["annotations"]
    annotations |= {CAPACITY + key: value for key, value in more.items()}
    template = ClusterApiCloud(server.api()).template(KIND + "h")
    assert template is not None
    assert template.allocatable == {
        "cpu": "4",
        "memory": "16Gi",
        "pods": "58",
        "ephemeral-storage": "50Gi",
        "amd.com/gpu": "2",
    }
    assert template.machines == (MachineType("", 4000, 16 << 30, 58, Reservation.KUBELET),)
    assert template.declared == {"pods"}
    del annotations[CAPACITY + "maxPods"]
    annotations[CAPACITY + "labels"] = "node.kubernetes.io/instance-type=m5.xlarge"
    unknown = ClusterApiCloud(server.api()).template(KIND + "h")
    assert unknown is not None
    assert [(one.name, one.pods) for one in unknown.machines] == [("m5.xlarge", 0)]
    assert (unknown.capacity["pods"], unknown.declared) == ("110", frozenset())
    del annotations[CAPACITY + "memory"]
    assert ClusterApiCloud(server.api()).template(KIND + "h") is None


def test_one_list_serves_what_all_groups_configure_until_it_is_old(
    server: JsonApiServer, controllers: Controllers
) -> None:
    now_s = [0.0]
    cloud = ClusterApiCloud(server.api(), clock=lambda: now_s[0])

    def options() -> list[float | None]:
        return [cloud.options(group).scale_down_unneeded_s for group in (G, KIND + "h")]

    assert options() == [420.0, None]
    read = len(server.requests)
    assert (cloud.price_per_hour(G), cloud.template(KIND + "h") is None) == (0.4, False)
    assert len(server.requests) == read
    server.objects[f"{BASE}/machinedeployments/h"]["metadata"]["annotations"][OPTIONS + "scaledownunneededtime"] = "1m"
    assert options() == [420.0, None]
    now_s[0] += 11
    assert options() == [420.0, 60.0]
    server.objects[f"{BASE}/machinedeployments/h"]["metadata"]["annotations"][OPTIONS + "scaledownunneededtime"] = "2m"
    cloud.refresh()
    assert options() == [420.0, 120.0]


def test_machines_that_failed_are_failed_activities(server: JsonApiServer, controllers: Controllers) -> None:
    cloud = ClusterApiCloud(server.api())
    cloud.set_size(G, 3, 4, "token")
    controllers.create()
    server.objects[f"{BASE}/machines/g-3"]["status"] = {"phase": "Failed", "failureMessage": "no quota"}
    assert [(one.failed, one.detail) for one in cloud.activities(G)] == [(True, "no quota")]


def test_only_a_cluster_s_own_groups_are_acted_on(server: JsonApiServer, controllers: Controllers) -> None:
    labels = {"cluster.x-k8s.io/cluster-name": "blue"}
    server.objects[f"{BASE}/machinedeployments/h"]["metadata"]["labels"] = labels
    cloud = ClusterApiCloud(server.api(), ClusterApiSettings(namespace="default", cluster="blue"))
    assert [view.id for view in cloud.node_groups()] == [KIND + "h"]


def test_an_api_server_that_fails_is_told(server: JsonApiServer, controllers: Controllers) -> None:
    server.fail("GET", *[Fault(status=500)] * 20)
    with pytest.raises(CloudError):
        ClusterApiCloud(server.api()).node_groups()
