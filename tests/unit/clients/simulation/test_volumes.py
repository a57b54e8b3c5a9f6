"""Volumes bind pods to zones and nodes, in the scheduler as in the planner, and pods return to their volumes."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import kubernetes as k8s
from tests.builders.simulated_fit import feasible, fitting
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.objects import labels_of
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.clients.simulation.scenario import Scenario

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
DRIVER = "ebs.csi.aws.com"
IN_A = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
ONLY_B = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
NODES = [k8s.node("n1", zone="a"), k8s.node("n2", zone="b"), k8s.node("n3", zone="b")]


def bound(name: str, node: str) -> list[Json]:
    """A volume with its claim, mounted by a pod on a node."""
    return [
        k8s.persistent_volume(f"pv-{name}"),
        k8s.persistent_volume_claim(name, volume=f"pv-{name}", storage_class="standard"),
        k8s.pod(f"pod-{name}", node=node, claims=[name]),
    ]


CASES = {
    "bound to a zone": (
        [
            k8s.persistent_volume("pv1", affinity=IN_A),
            k8s.persistent_volume_claim("data", volume="pv1"),
        ],
        ["n1"],
    ),
    "bound anywhere": (
        [k8s.persistent_volume("pv1"), k8s.persistent_volume_claim("data", volume="pv1")],
        ["n1", "n2", "n3"],
    ),
    "waits for a pod": ([k8s.persistent_volume_claim("data", storage_class="standard")], ["n1", "n2", "n3"]),
    "waits, in one zone": (
        [
            k8s.storage_class("in-b", topologies=ONLY_B),
            k8s.persistent_volume_claim("data", storage_class="in-b"),
        ],
        ["n2", "n3"],
    ),
    "immediate and not there yet": (
        [
            k8s.storage_class("now", wait=False),
            k8s.persistent_volume_claim("data", storage_class="now"),
        ],
        [],
    ),
    "one node is full": (
        [
            k8s.persistent_volume_claim("data", storage_class="standard"),
            k8s.csi_node("n1", {DRIVER: 2}),
            k8s.csi_node("n2", {DRIVER: 3}),
            *bound("x", "n1"),
            *bound("y", "n1"),
            *bound("z", "n2"),
        ],
        ["n2", "n3"],
    ),
    "a volume counts once": (
        [
            *bound("data", "n1"),
            k8s.csi_node("n1", {DRIVER: 1}),
            k8s.csi_node("n2", {DRIVER: 0}),
        ],
        ["n1", "n3"],
    ),
}


@pytest.mark.parametrize(("objects", "nodes"), CASES.values(), ids=CASES.keys())
def test_a_pod_with_a_volume_fits_where_the_planner_fits_it(objects: list[Json], nodes: list[str]) -> None:
    every = [*NODES, k8s.storage_class(), *objects]
    pod = k8s.pod("new", claims=["data"])
    assert feasible(every, pod) == nodes
    assert fitting(every, pod) == nodes


def test_a_claim_whose_volume_was_not_recorded_binds_nothing_and_stays_as_it_is() -> None:
    claim = k8s.persistent_volume_claim("data", volume="pv-elsewhere", storage_class="standard")
    objects = [*NODES, k8s.storage_class(), claim, k8s.pod("new", claims=["data"])]
    cluster = SimulatedCluster(objects, scheduler=KubeScheduler())
    assert cluster.state.pods["default", "new"].node
    assert cluster.state.others["PersistentVolumeClaim/default/data"]["spec"]["volumeName"] == "pv-elsewhere"


def test_a_waiting_claim_that_was_recorded_gets_its_volume_where_its_pod_goes() -> None:
    claim = k8s.persistent_volume_claim("data", storage_class="standard")
    pod = k8s.pod("new", claims=["data"], node_selector={"kubernetes.io/hostname": "n2"})
    cluster = SimulatedCluster([*NODES, k8s.storage_class(), claim, pod], scheduler=KubeScheduler())
    (volume,) = [item for key, item in cluster.state.others.items() if key.startswith("PersistentVolume//")]
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["b"]


def scenario(binding: str = "WaitForFirstConsumer", **more: Any) -> Scenario:
    groups = [
        {"name": zone, "zone": zone, "cpu": "4", "maxSize": 5, "start": "60s", "price": 0.1, **more.pop("group", {})}
        for zone in "abc"
    ]
    workload = {
        "name": "db",
        "kind": "StatefulSet",
        "replicas": 6,
        "pod": {"cpu": "900m"},
        "volumes": [{"name": "data", "storageClass": "ssd"}],
    }
    given = {
        "duration": "1h",
        "nodeGroups": groups,
        "storageClasses": [{"name": "ssd", "binding": binding}],
        "workloads": [workload],
    }
    return Scenario.model_validate({**given, **more})


def zones(simulation: ClusterSimulation) -> dict[str, str]:
    """The zone of each pod's node."""
    state = simulation.cluster.state
    return {pod.key[1]: labels_of(state.nodes[pod.node].node)[ZONE] for pod in state.pods.values() if pod.node}


def volume_zones(simulation: ClusterSimulation) -> dict[str, str]:
    """The zone of each pod's volume."""
    found = {}
    for key, item in simulation.cluster.state.others.items():
        if key.startswith("PersistentVolume//"):
            (term,) = item["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            (found[item["spec"]["claimRef"]["name"].removeprefix("data-")],) = term["matchExpressions"][0]["values"]
    return found


@pytest.mark.parametrize("binding", ["WaitForFirstConsumer", "Immediate"])
def test_pods_are_where_their_volumes_are(binding: str) -> None:
    simulation = ClusterSimulation(scenario(binding)).run_for("20m")
    assert simulation.pending == []
    assert zones(simulation) == volume_zones(simulation)
    assert len(zones(simulation)) == 6


def test_immediate_volumes_of_successive_pods_take_turns_in_the_zones_and_the_groups_there_grow() -> None:
    simulation = ClusterSimulation(scenario("Immediate"))
    simulation.run_for("20m")
    found = volume_zones(simulation)
    assert sorted(found.values()) == ["a", "a", "b", "b", "c", "c"]
    assert all(found[f"db-{number}"] == found[f"db-{number + 3}"] for number in range(3))
    assert {simulation.node_count(zone) for zone in "abc"} == {1}


def test_a_pod_whose_node_is_reclaimed_waits_for_a_node_in_the_zone_of_its_volume() -> None:
    reclaim = {"nodeGroups": ["a"], "meanTime": "8m", "notice": "60s"}
    simulation = ClusterSimulation(scenario("Immediate", reclaims=[reclaim], duration="1h"))
    simulation.run_for("7m")
    before = volume_zones(simulation)
    simulation.run()
    assert simulation.summary()["podsReclaimed"] >= 2
    assert volume_zones(simulation) == before
    assert {name: zone for name, zone in zones(simulation).items() if before[name] != zone} == {}
    assert simulation.summary()["reclaimPendingS"] > 60.0


def test_volumes_stay_when_a_stateful_set_shrinks_and_its_pods_return_to_them() -> None:
    simulation = ClusterSimulation(scenario()).run_for("15m")
    before = zones(simulation)
    simulation.scale("db", 1)
    simulation.run_for("20m")
    assert len(volume_zones(simulation)) == 6
    simulation.scale("db", 6)
    assert zones(simulation.run_for("20m")) == before


def test_a_node_takes_no_more_volumes_than_its_limit() -> None:
    limits = {"attachLimits": {"disk.csi.trimtab.dev": 1}}
    group = {"name": "a", "zone": "a", "cpu": "8", "size": 2, "minSize": 2, "maxSize": 2, **limits}
    simulation = ClusterSimulation(scenario(nodeGroups=[group])).run_for("5m")
    assert len(zones(simulation)) == 2
    assert len({pod.node for pod in simulation.cluster.state.pods.values() if pod.node}) == 2
    assert len(simulation.pending) == 4


BAD = {
    "unknown class": ({"storageClasses": []}, "workloads: there is no storage class ssd in storageClasses"),
    "class given twice": (
        {"storageClasses": [{"name": "ssd"}, {"name": "ssd"}]},
        "storageClasses: ssd is given twice",
    ),
    "unknown binding": ({"storageClasses": [{"name": "ssd", "binding": "Later"}]}, "storageClasses.0.binding"),
    "not of a StatefulSet": (
        {"workloads": [{"name": "web", "volumes": [{"name": "data", "storageClass": "ssd"}]}]},
        "volumes: only pods of a StatefulSet have volumes of their own, not those of a ReplicaSet",
    ),
    "negative limit": (
        {"nodeGroups": [{"name": "a", "attachLimits": {"disk.csi.trimtab.dev": -1}}]},
        "nodeGroups.0.attachLimits",
    ),
    "bad size": (
        {
            "workloads": [
                {"name": "db", "kind": "StatefulSet", "volumes": [{"name": "d", "storageClass": "ssd", "size": "-1"}]}
            ]
        },
        "workloads.0.volumes.0.size",
    ),
}


@pytest.mark.parametrize(("fields", "problem"), BAD.values(), ids=BAD.keys())
def test_storage_that_cannot_be_meant_is_refused_with_its_field(fields: Json, problem: str) -> None:
    with pytest.raises(ValidationError) as error:
        scenario(**fields)
    assert problem in str(error.value)
