"""VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits, case by case."""

import pytest

from tests.builders.fitting import ZONE, fitting, node, pending, reasons, requires
from tests.builders.rows import PodRow
from trimtab.planner.model.values import MountedVolume, NodeAffinityTerm, PodRequirements
from trimtab.planner.snapshot.columns import FLAG_GATED
from trimtab.v1.snapshot_pb2 import VolumeState

BETA = "failure-domain.beta.kubernetes.io/zone"
NODES = [node("n1", "a"), node("n2", "b"), node("n3")]


def volume(name: str = "default/v", **fields: object) -> MountedVolume:
    return MountedVolume(name, VolumeState.BOUND, "", "", None, (), False, "")._replace(**fields)


def mounting(*volumes: MountedVolume, **fields: object) -> PodRow:
    return pending(PodRequirements(), volumes=volumes)._replace(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {"n1", "n2", "n3"}, id="nothing asked"),
        pytest.param({"state": VolumeState.MISSING}, set(), id="missing"),
        pytest.param({"state": VolumeState.UNBOUND_IMMEDIATE}, set(), id="unbound, to be bound at once"),
        pytest.param({"state": VolumeState.WAIT_FOR_FIRST_CONSUMER}, {"n1", "n2", "n3"}, id="waiting, anywhere"),
        pytest.param(
            {"node_affinity": (NodeAffinityTerm((requires(ZONE, "In", "a"),), ()),)}, {"n1"}, id="node affinity"
        ),
        pytest.param({"node_affinity": ()}, set(), id="node affinity without terms"),
    ],
)
def test_a_volume_binds(fields: dict[str, object], expected: set[str]) -> None:
    pod = mounting(volume(**fields))
    assert fitting(pod, NODES) == expected
    assert all(why in ([], ["VOLUME_NOT_BINDABLE"]) for why in reasons(pod, NODES).values())


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        pytest.param(((ZONE, "a"),), {"n1", "n3"}, id="nodes without any zone label take every volume"),
        pytest.param(((ZONE, "a__b"),), {"n1", "n2", "n3"}, id="a set of zones"),
        pytest.param(((BETA, "b"),), {"n2", "n3"}, id="an old label against a new one"),
        pytest.param(((ZONE, "a__"),), {"n1", "n2", "n3"}, id="a set with an empty part is ignored"),
        pytest.param((("other", "a"),), {"n1", "n2", "n3"}, id="another label is not a zone"),
    ],
)
def test_a_volume_stays_in_its_zone(zones: tuple[tuple[str, str], ...], expected: set[str]) -> None:
    assert fitting(mounting(volume(zone_labels=zones)), NODES) == expected


def test_all_volumes_of_a_pod_are_asked() -> None:
    pod = mounting(volume("default/a", zone_labels=((ZONE, "a"),)), volume("default/b", zone_labels=((ZONE, "b"),)))
    assert reasons(pod, NODES) == {"n1": ["VOLUME_ZONE_MISMATCH"], "n2": ["VOLUME_ZONE_MISMATCH"], "n3": []}


def test_a_claim_for_one_pod_alone_is_in_use_everywhere() -> None:
    alone = volume(read_write_once_pod=True)
    other = PodRow("other", node="n1", volumes=(alone,))
    assert reasons(mounting(alone), NODES[:2], [other]) == {"n1": ["VOLUME_RESTRICTED"], "n2": ["VOLUME_RESTRICTED"]}
    assert fitting(mounting(alone), NODES, [other._replace(node="")]) == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        pytest.param(("d",), ("d",), {"n2"}, id="two writers"),
        pytest.param(("d",), ("e",), {"n1", "n2"}, id="two disks"),
    ],
)
def test_a_disk_is_not_mounted_twice_on_a_node(
    mine: tuple[str, ...], theirs: tuple[str, ...], expected: set[str]
) -> None:
    other = PodRow("other", PodRequirements(exclusive_disks=theirs), node="n1")
    assert fitting(pending(PodRequirements(exclusive_disks=mine)), NODES[:2], [other]) == expected


def test_readers_of_a_disk_go_together_but_not_with_a_writer() -> None:
    reader, writer = PodRequirements(read_only_disks=("d",)), PodRequirements(exclusive_disks=("d",))
    others = [PodRow("reader", reader, node="n1"), PodRow("writer", writer, node="n2")]
    assert fitting(pending(reader), NODES, others) == {"n1", "n3"}
    assert fitting(pending(writer), NODES, others) == {"n3"}


LIMITED = [node("n1", attach_limits=(("disk", 2),)), node("n2", attach_limits=(("disk", 0),)), node("n3")]


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        pytest.param(["a", "b"], [], {"n1", "n3"}, id="up to the limit"),
        pytest.param(["a", "b", "c"], [], {"n3"}, id="beyond the limit"),
        pytest.param(["a"], ["x", "y"], {"n3"}, id="others are there"),
        pytest.param(["a", "x"], ["x"], {"n1", "n3"}, id="what is attached counts once"),
        pytest.param(["x"], ["x", "y", "z"], {"n1", "n3"}, id="nothing new fits a node over its limit"),
    ],
)
def test_a_node_attaches_volumes_up_to_its_limit(wanted: list[str], there: list[str], expected: set[str]) -> None:
    def disks(names: list[str]) -> tuple[MountedVolume, ...]:
        return tuple(volume(f"default/{name}", driver="disk") for name in names)

    other = PodRow("other", node="n1", volumes=disks(there))
    assert fitting(mounting(*disks(wanted)), LIMITED, [other]) == expected


def test_two_claims_of_one_disk_are_attached_once() -> None:
    pair = (volume("default/a", driver="disk", handle="h"), volume("default/b", driver="disk", handle="h"))
    assert "n1" in fitting(mounting(*pair), [node("n1", attach_limits=(("disk", 1),))])


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(
            pending(PodRequirements(unsupported=("resourceClaims",))), "UNSUPPORTED_CONSTRAINT", id="resource claims"
        ),
        pytest.param(pending(PodRequirements(), flags=FLAG_GATED), "SCHEDULING_GATED", id="gated"),
    ],
)
def test_pods_that_are_never_placed(pod: PodRow, reason: str) -> None:
    assert reasons(pod, [node()]) == {"n1": [reason]}
