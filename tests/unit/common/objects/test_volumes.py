"""Claims as volume rows: the state of each is decided in the order of the scheduler's plugins."""

from typing import Any

import pytest

from tests.builders.kubernetes import node as k8s_node
from tests.builders.kubernetes import persistent_volume, persistent_volume_claim, pod, storage_class
from tests.unit.common.objects.reading import build, notes, volumes_of
from trimtab.common.objects import ObjectError

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
CLAIM = persistent_volume_claim
IN_ZONE_A = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
ZONE_A = {"terms": [{"matchExpressions": [{"key": ZONE, "operator": "IN", "values": ["a"]}]}]}
EBS = "ebs.csi.aws.com"


def volume_of(*objects: Any, **pod_arguments: Any) -> dict[str, Any]:
    """Return the only volume of a pod that mounts the claim `data`."""
    [volume] = volumes_of(build(pod(**({"claims": ["data"]} | pod_arguments)), *objects))
    volume.pop("detail", None)
    return volume


BOUND = {"id": "default/data", "state": "BOUND", "driver": EBS, "handle": "vol-pv1"}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        pytest.param(persistent_volume(), BOUND, id="csi"),
        pytest.param(persistent_volume(affinity=IN_ZONE_A), BOUND | {"nodeAffinity": ZONE_A}, id="node affinity"),
        pytest.param(
            persistent_volume(
                affinity=[{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
            ),
            BOUND,
            id="of a node the scheduler looks at the labels alone, so a volume tied to one by field goes anywhere",
        ),
        pytest.param(
            persistent_volume(
                affinity=[
                    {},
                    IN_ZONE_A[0] | {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]
            ),
            BOUND | {"nodeAffinity": ZONE_A},
            id="fields beside labels, and terms that say nothing",
        ),
        pytest.param(
            persistent_volume(labels={ZONE: "b__a ", OLD_ZONE: "a____b", "other": "x"}),
            BOUND | {"zoneLabels": [{"key": ZONE, "value": "a__b"}]},
            id="zone labels, sets with an empty member ignored",
        ),
        pytest.param(
            persistent_volume(source={"awsElasticBlockStore": {"volumeID": "aws://eu-west-1a/vol-1"}}),
            BOUND | {"handle": "vol-1"},
            id="in-tree Amazon",
        ),
        *(
            pytest.param(
                persistent_volume(source={"gcePersistentDisk": {"pdName": "d"}}, labels={label: "a"}),
                BOUND
                | {
                    "driver": "pd.csi.storage.gke.io",
                    "handle": "projects/UNSPECIFIED/zones/a/disks/d",
                    "zoneLabels": [{"key": label, "value": "a"}],
                },
                id=name,
            )
            for label, name in ((ZONE, "in-tree Google"), (OLD_ZONE, "in-tree Google, of long ago"))
        ),
        pytest.param(
            persistent_volume(source={"azureDisk": {"diskName": "d", "diskURI": "/sub/d"}}),
            BOUND | {"driver": "disk.csi.azure.com", "handle": "/sub/d"},
            id="in-tree Azure",
        ),
        pytest.param(
            persistent_volume(source={"cinder": {"volumeID": "c"}}),
            BOUND | {"driver": "cinder.csi.openstack.org", "handle": "c"},
            id="in-tree OpenStack",
        ),
        pytest.param(
            persistent_volume(source={"vsphereVolume": {"volumePath": "[x] y"}}),
            {"id": "default/data", "state": "BOUND"},
            id="in-tree vSphere is not counted by the scheduler",
        ),
        pytest.param(
            persistent_volume(source={"nfs": {}}), {"id": "default/data", "state": "BOUND"}, id="attaches nothing"
        ),
    ],
)
def test_a_bound_claim(volume: Any, expected: dict[str, Any]) -> None:
    assert volume_of(CLAIM(volume="pv1"), volume) == expected


MISSING, IMMEDIATE, WAITING = "MISSING", "UNBOUND_IMMEDIATE", "WAIT_FOR_FIRST_CONSUMER"
NOT_BOUND_YET = CLAIM(volume="pv1", metadata={"annotations": {}})


@pytest.mark.parametrize(
    ("objects", "state"),
    [
        pytest.param([CLAIM("other")], MISSING, id="no claim"),
        pytest.param([CLAIM(volume="pv1")], MISSING, id="no volume"),
        pytest.param([CLAIM(volume="pv1", phase="Lost"), persistent_volume()], MISSING, id="lost"),
        pytest.param(
            [CLAIM(volume="pv1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), persistent_volume()],
            MISSING,
            id="terminating",
        ),
        pytest.param([CLAIM(storage_class="gone")], MISSING, id="no such class"),
        pytest.param([CLAIM()], IMMEDIATE, id="no class"),
        pytest.param([CLAIM(storage_class="standard"), storage_class(wait=False)], IMMEDIATE, id="immediate"),
        pytest.param([NOT_BOUND_YET, persistent_volume()], IMMEDIATE, id="names a volume, not bound to it yet"),
        pytest.param([CLAIM(storage_class="standard"), storage_class()], WAITING, id="waits"),
        pytest.param(
            [CLAIM(metadata={"annotations": {"volume.beta.kubernetes.io/storage-class": "standard"}}), storage_class()],
            WAITING,
            id="class by annotation",
        ),
    ],
)
def test_the_state_of_a_claim(objects: list[Any], state: str) -> None:
    assert volume_of(*objects)["state"] == state


def waiting(*objects: Any, provisioner: str = EBS, topologies: Any = (), **claim: Any) -> Any:
    """Return the node affinity of a pending claim."""
    claims = CLAIM(storage_class="standard", **claim)
    return volume_of(claims, storage_class(provisioner=provisioner, topologies=topologies), *objects).get(
        "nodeAffinity"
    )


TOPOLOGY_A = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
LOCAL = "kubernetes.io/no-provisioner"


def free_volume(name: str = "local1", status: Any = None, **spec: Any) -> Any:
    """Return an available volume of the class."""
    given = {"storageClassName": "standard", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}} | spec
    return persistent_volume(name, affinity=IN_ZONE_A, status=status or {"phase": "Available"}, spec=given)


def test_a_waiting_claim_goes_where_its_class_allows() -> None:
    assert waiting() is None
    assert waiting(topologies=TOPOLOGY_A) == ZONE_A


def test_a_waiting_claim_stays_on_the_node_that_was_selected() -> None:
    selected = {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}
    here = {"matchFields": [{"key": "metadata.name", "operator": "IN", "values": ["n1"]}]}
    assert waiting(metadata=selected) == {"terms": [here]}
    assert waiting(metadata=selected, topologies=TOPOLOGY_A) == {"terms": [ZONE_A["terms"][0] | here]}


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        pytest.param([], {}, id="none available: nowhere"),
        pytest.param([free_volume()], ZONE_A, id="where one is available"),
        pytest.param([free_volume(status={"phase": "Released"})], {}, id="not available"),
        pytest.param([free_volume(storageClassName="other")], {}, id="of another class"),
        pytest.param([free_volume(capacity={"storage": "1Gi"})], {}, id="too small"),
        pytest.param([free_volume(accessModes=["ReadOnlyMany"])], {}, id="other access mode"),
        pytest.param([free_volume(volumeMode="Block")], {}, id="other volume mode"),
        pytest.param([free_volume(volumeAttributesClassName="fast")], {}, id="other volume attributes"),
        pytest.param([free_volume(claimRef={"namespace": "x", "name": "data"})], {}, id="kept for another"),
        pytest.param(
            [free_volume(status={"phase": "Pending"}, claimRef={"namespace": "default", "name": "data"})],
            ZONE_A,
            id="kept for this one",
        ),
        pytest.param(
            [free_volume(claimRef={"namespace": "default", "name": "data", "uid": "an earlier one"})],
            {},
            id="kept for an earlier claim of this name",
        ),
    ],
)
def test_a_claim_of_local_volumes_goes_where_one_is_available(volumes: list[Any], expected: Any) -> None:
    want = {"resources": {"requests": {"storage": "5Gi"}}}
    assert waiting(*volumes, provisioner=LOCAL, spec=want) == expected


@pytest.mark.parametrize(
    ("provisioner", "driver"),
    [(EBS, EBS), ("kubernetes.io/aws-ebs", EBS), ("kubernetes.io/vsphere-volume", None), (LOCAL, LOCAL)],
)
def test_an_unbound_claim_counts_for_the_driver_of_its_class(provisioner: str, driver: str | None) -> None:
    claim = CLAIM(storage_class="standard")
    assert volume_of(claim, storage_class(provisioner=provisioner)).get("driver") == driver


def test_read_write_once_pod_holds_for_mounts_of_the_claim_itself() -> None:
    claim = CLAIM(volume="pv1", access_modes=["ReadWriteOncePod"])
    assert volume_of(claim, persistent_volume())["readWriteOncePod"] is True


EPHEMERAL = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}


def ephemeral_claim(**given: Any) -> Any:
    """Return the bound claim of an ephemeral volume of the pod, which was provisioned for a node."""
    owner = [{"kind": "Pod", "name": "p1", "uid": "pod-default-p1", "controller": True}]
    claim = CLAIM("p1-scratch", volume="pv1", metadata={"ownerReferences": owner}, **given)
    bound = {"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n1"}
    claim["metadata"]["annotations"] = bound
    return claim


def test_a_generic_ephemeral_volume_is_the_claim_named_after_pod_and_volume() -> None:
    claim = ephemeral_claim(access_modes=["ReadWriteOncePod"])
    volume = volume_of(claim, persistent_volume(labels={ZONE: "a"}), claims=[], volumes=[EPHEMERAL])
    assert volume == BOUND | {"id": "default/p1-scratch"}


@pytest.mark.parametrize("node", ["n1", None])
def test_an_ephemeral_claim_is_made_anew_for_the_pod_in_the_place_of_one_that_has_a_node(node: str | None) -> None:
    claim, of_class = ephemeral_claim(storage_class="standard"), storage_class(topologies=TOPOLOGY_A)
    about = {"claims": [], "volumes": [EPHEMERAL], "node": node}
    volume = volume_of(claim, of_class, persistent_volume(affinity=IN_ZONE_A), k8s_node("n1"), **about)
    is_new = {"id": "default/p1-scratch", "state": WAITING, "driver": EBS, "nodeAffinity": ZONE_A}
    assert volume == (is_new if node else BOUND | {"id": "default/p1-scratch", "nodeAffinity": ZONE_A})


def test_an_ephemeral_claim_of_another_owner_fits_nowhere() -> None:
    volume = volume_of(CLAIM("p1-scratch", volume="pv1"), persistent_volume(), claims=[], volumes=[EPHEMERAL])
    assert volume == {"id": "default/p1-scratch (of another owner)", "state": MISSING}


def test_inline_disks_count_against_attach_limits() -> None:
    disk = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    volume = volume_of(claims=[], volumes=[disk])
    assert volume == {"id": f"{EBS}^vol-1", "driver": EBS, "handle": "vol-1"}


def test_a_claim_mounted_twice_is_one_volume() -> None:
    assert len(volumes_of(build(pod(claims=["data", "data"]), CLAIM(volume="pv1"), persistent_volume()))) == 1


def test_without_any_claim_in_the_input_claims_count_as_usable_and_a_note_says_so() -> None:
    assert volumes_of(build(pod(claims=["data"]))) == []
    assert [note.split(",")[0] for note in notes(pod(claims=["data"]))] == [
        "1 mounts of PersistentVolumeClaims count as usable on every node"
    ]


def test_an_empty_list_of_claims_is_an_answer_too() -> None:
    empty = {"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "items": []}
    assert volume_of(empty)["state"] == MISSING


def test_a_broken_volume_is_named_with_the_pod_that_mounts_it() -> None:
    broken = persistent_volume(affinity=[{"matchExpressions": [{"key": "a", "operator": "Foo"}]}])
    with pytest.raises(ObjectError, match=r"Pod default/p1: PersistentVolume pv1\.spec\.nodeAffinity\.required.*'Foo'"):
        build(pod(claims=["data"]), CLAIM(volume="pv1"), broken)
