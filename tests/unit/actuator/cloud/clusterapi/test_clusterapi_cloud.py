"""MachineDeployments as a cloud: sizes and deletions are written once, even if calls fail."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import json_api
from tests.builders.cluster_api import BASE, KIND, Controllers, fill, machine_deployment
from tests.builders.json_api import Fault, JsonApiServer
from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.clusterapi.objects import CAPACITY, MAX_SIZE, MIN_SIZE, OPTIONS, OUR_MARK, read_group
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError, InstanceState, MachineType, Reservation
from trimtab.actuator.cloud.table import ClusterApiOptions
from trimtab.actuator.kube.api import Call
from trimtab.common.kubernetes.kinds.cluster_api import DELETE_MACHINE

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
    # Requests before this one succeed; the client itself retries a cut connection.
    server.fail("PATCH", *[Fault(status=500, after=after)] * at)
    for _ in range(3):
        cloud.delete_instances(G, [victim])
    assert cloud.delete_instances(G, [victim]) == {}
    assert replicas(server) == 2
    assert cloud.instance_states(G, [victim]) == {victim: InstanceState.DELETING}
    controllers.settle()
    assert (len(machines(server)), victim.rpartition("/")[2] in machines(server)) == (2, False)
    assert cloud.instance_states(G, [victim]) == {victim: InstanceState.GONE}


def test_machines_are_not_gone_while_the_api_server_does_not_know_their_kind(
    server: JsonApiServer, controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = ClusterApiCloud(server.api())
    (victim, *_) = [one.id for one in cloud.instances([G])[G]]
    with monkeypatch.context() as starting:
        starting.setattr(json_api, "LISTED", tuple(one for one in json_api.LISTED if one != "/machines"))
        with pytest.raises(CloudError, match="does not know machines"):
            cloud.instance_states(G, [victim])
    assert cloud.instance_states(G, [victim]) == {victim: InstanceState.RUNNING}


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
    assert (replicas(server), marked(server)) == (4, ["g-4", "g-5"])
    controllers.settle()
    assert machines(server) == ["g-0", "g-1", "g-2", "g-3"]
    for _ in range(2):
        cloud.decrease_target(G, 6, 4)


def test_a_deletion_at_the_minimum_marks_nothing(server: JsonApiServer, controllers: Controllers) -> None:
    cloud = ClusterApiCloud(server.api())
    server.objects[f"{BASE}/machinedeployments/g"]["metadata"]["annotations"][MIN_SIZE] = "3"
    (victim, *_) = [one.id for one in cloud.instances([G])[G]]
    assert "minimum 3" in str(cloud.delete_instances(G, [victim])[victim])
    assert marked(server) == []


def marked(server: JsonApiServer) -> list[str]:
    found = [(path.rpartition("/")[2], item["metadata"]) for path, item in sorted(server.objects.items())]
    return [name for name, meta in found if DELETE_MACHINE in meta.get("annotations", {})]


def ids(*names: str) -> list[str]:
    return [f"test:///{name}" for name in names]


class Dead(BaseException):
    """The process has died."""


@pytest.mark.parametrize("first", [("g-0",), ("g-1",), ("g-0", "g-1")], ids=str)
@pytest.mark.parametrize("settles", [False, True], ids=["controller waits", "controller acts"])
@pytest.mark.parametrize("die_at", range(4))
def test_two_deletions_of_a_process_that_dies_between_its_writes_end_with_both_machines_gone(
    server: JsonApiServer, controllers: Controllers, die_at: int, settles: bool, first: tuple[str, ...]
) -> None:
    """`first` : of the deletions repeated after the death; the journal may name the others only later."""
    real = server._patch
    patched: list[str] = []

    def patch(path: str, body: Any) -> object:
        if len(patched) == die_at:
            raise Dead
        patched.append(path)
        return real(path, body)

    cloud = ClusterApiCloud(server.api())
    cloud._api.call = _in_process(server, patch, cloud._api.call)  # type: ignore[method-assign]
    try:
        cloud.delete_instances(G, ids("g-0", "g-1"))
        assert die_at == 3
    except Dead:
        pass
    if settles:
        controllers.settle()
    again = ClusterApiCloud(server.api())
    again.remember(G, ids("g-0", "g-1"))
    for wanted in (ids(*first), ids("g-0", "g-1")):
        for _ in range(3):
            # Deletions that wait for the controller are retried.
            again.delete_instances(G, wanted)
            controllers.settle()
    assert (machines(server), replicas(server)) == (["g-2"], 1)
    assert set(again.instance_states(G, ids("g-0", "g-1")).values()) == {InstanceState.GONE}


def _in_process(server: JsonApiServer, patch: Callable[..., object], others: Callable[..., object]) -> Any:
    """Return a caller of the API server that makes patches in this thread, which may die during one."""

    def call(wanted: Call) -> object:
        if wanted.method != "PATCH":
            return others(wanted)
        with server.lock:
            patch(wanted.path, wanted.body)
        return None

    return call


def test_further_machines_are_marked_once_the_controller_has_removed_those_of_before(
    server: JsonApiServer, controllers: Controllers
) -> None:
    cloud = ClusterApiCloud(server.api())
    assert cloud.delete_instances(G, ids("g-0")) == {}
    failed = cloud.delete_instances(G, ids("g-0", "g-1"))
    assert list(failed) == ids("g-1")
    assert not isinstance(failed["test:///g-1"], CloudRefusedError)
    assert "have not been removed yet" in str(failed["test:///g-1"])
    assert (marked(server), replicas(server)) == (["g-0"], 2)
    controllers.settle()
    assert cloud.delete_instances(G, ids("g-0", "g-1")) == {}
    assert (marked(server), replicas(server)) == (["g-1"], 1)


def test_a_machine_that_stays_because_the_group_has_grown_in_its_place_is_deleted_when_asked_again(
    server: JsonApiServer, controllers: Controllers
) -> None:
    cloud = ClusterApiCloud(server.api())
    cloud.delete_instances(G, ids("g-0"))
    cloud.set_size(G, 2, 3, "token")
    controllers.settle()
    assert cloud.instance_states(G, ids("g-0")) == {"test:///g-0": InstanceState.RUNNING}
    for _ in range(2):
        assert cloud.delete_instances(G, ids("g-0")) == {}
    controllers.settle()
    assert (machines(server), replicas(server)) == (["g-1", "g-2"], 2)


def test_a_mark_of_another_client_is_left_alone(server: JsonApiServer, controllers: Controllers) -> None:
    server.objects[f"{BASE}/machines/g-2"]["metadata"]["annotations"] = {DELETE_MACHINE: "yes"}
    server.objects[f"{BASE}/machines/g-1"]["metadata"]["annotations"] = {DELETE_MACHINE: OUR_MARK}
    assert ClusterApiCloud(server.api()).delete_instances(G, ids("g-0")) == {}
    assert (marked(server), replicas(server)) == (["g-0", "g-2"], 2)


def test_a_machine_that_must_not_be_marked_is_refused_and_the_others_go(
    server: JsonApiServer, controllers: Controllers
) -> None:
    server.fail("PATCH", Fault(status=403, message="a webhook says no"))
    failed = ClusterApiCloud(server.api()).delete_instances(G, ids("g-0", "g-1"))
    assert list(failed) == ids("g-0")
    assert isinstance(failed["test:///g-0"], CloudRefusedError)
    assert (marked(server), replicas(server)) == (["g-1"], 2)


def test_machines_of_a_former_group_are_unknown_and_not_gone(server: JsonApiServer, controllers: Controllers) -> None:
    cloud = ClusterApiCloud(server.api())
    assert cloud.instance_states(G, ids("g-0")) == {"test:///g-0": InstanceState.RUNNING}
    del server.objects[f"{BASE}/machinedeployments/g"]["metadata"]["annotations"][MIN_SIZE]
    assert cloud.instance_states(G, ids("g-0")) == {"test:///g-0": InstanceState.UNKNOWN}


def test_an_object_with_annotations_that_cannot_be_read_takes_only_itself_away(
    server: JsonApiServer, controllers: Controllers
) -> None:
    odd = machine_deployment("odd", 0, 3, 0)
    odd["metadata"]["annotations"][MAX_SIZE] = "many"
    server.put(f"{BASE}/machinedeployments", odd)
    server.put(f"{BASE}/machinedeployments", {"metadata": {"name": "plain", "namespace": "default"}, "spec": {}})
    assert [view.id for view in ClusterApiCloud(server.api()).node_groups()] == [G, KIND + "h"]
    with pytest.raises(ValueError, match="group-max-size: 'many' is not a whole number"):
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
    assert template.declared == {"pods", "ephemeral-storage", "amd.com/gpu"}
    del annotations[CAPACITY + "maxPods"]
    annotations[CAPACITY + "labels"] = "node.kubernetes.io/instance-type=m5.xlarge"
    unknown = ClusterApiCloud(server.api()).template(KIND + "h")
    assert unknown is not None
    assert [(one.name, one.pods) for one in unknown.machines] == [("m5.xlarge", 0)]
    assert (unknown.capacity["pods"], "pods" in unknown.declared) == ("110", False)
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


def test_the_groups_of_nodes_are_read_once_for_many_and_again_for_a_node_that_is_new(
    server: JsonApiServer, controllers: Controllers
) -> None:
    cloud = ClusterApiCloud(server.api())
    assert cloud.groups_of(ids("g-0")) == {"test:///g-0": G}
    read = len(server.requests)
    assert cloud.groups_of(ids("g-1", "g-2")) == dict.fromkeys(ids("g-1", "g-2"), G)
    assert len(server.requests) == read
    cloud.set_size(G, 3, 4, "token")
    controllers.settle()
    assert cloud.groups_of(ids("g-3", "g-9")) == {"test:///g-3": G}


def test_machines_that_failed_are_failed_activities(server: JsonApiServer, controllers: Controllers) -> None:
    cloud = ClusterApiCloud(server.api())
    cloud.set_size(G, 3, 4, "token")
    controllers.create()
    server.objects[f"{BASE}/machines/g-3"]["status"] = {"phase": "Failed", "failureMessage": "no quota"}
    assert [(one.failed, one.detail) for one in cloud.activities(G)] == [(True, "no quota")]


def test_only_a_cluster_s_own_groups_are_acted_on(server: JsonApiServer, controllers: Controllers) -> None:
    labels = {"cluster.x-k8s.io/cluster-name": "blue"}
    server.objects[f"{BASE}/machinedeployments/h"]["metadata"]["labels"] = labels
    cloud = ClusterApiCloud(server.api(), ClusterApiOptions(capi_namespace="default", capi_cluster="blue"))
    assert [view.id for view in cloud.node_groups()] == [KIND + "h"]


def test_an_api_server_that_fails_is_reported(server: JsonApiServer, controllers: Controllers) -> None:
    server.fail("GET", *[Fault(status=500)] * 20)
    with pytest.raises(CloudError):
        ClusterApiCloud(server.api()).node_groups()
