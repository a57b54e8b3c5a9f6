"""In-tree volumes: on nodes with a migrated plugin they are matched like the driver's volumes."""

from typing import Any

import msgspec
import pytest

from tests.builders.kubernetes import csi_node, node, persistent_volume, persistent_volume_claim, pod
from tests.unit.common.objects.reading import build, volumes_of
from trimtab.common.kubernetes.kinds.nodes import CSINode
from trimtab.common.kubernetes.kinds.pods import AwsElasticBlockStore, AzureDisk, Cinder, GcePersistentDisk
from trimtab.common.kubernetes.kinds.storage import VolumeSpec
from trimtab.common.kubernetes.selectors import EXISTS, IN, NOT_IN, Terms
from trimtab.common.objects.migration import Migration, plugin_of, translated_terms

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
EBS, EBS_ZONE = "kubernetes.io/aws-ebs", "topology.ebs.csi.aws.com/zone"
AMAZON = VolumeSpec(aws_elastic_block_store=AwsElasticBlockStore(volume_id="aws://eu-west-1a/vol-1"))


def term(*requirements: tuple[str, int, tuple[str, ...]]) -> Any:
    """Return an alternative without fields."""
    return (requirements, ())


@pytest.mark.parametrize(
    ("own", "labels", "expected"),
    [
        pytest.param((term((ZONE, IN, ("a",))),), {}, (term((EBS_ZONE, IN, ("a",))),), id="its zone by the driver"),
        pytest.param((term((OLD_ZONE, IN, ("a",))),), {}, (term((EBS_ZONE, IN, ("a",))),), id="an old zone too"),
        pytest.param(
            (term((OLD_ZONE, IN, ("a",)), (OLD_REGION, IN, ("r",))),),
            {},
            (term((EBS_ZONE, IN, ("a",)), (REGION, IN, ("r",))),),
            id="an old region becomes a stable one",
        ),
        pytest.param(
            (term((ZONE, IN, ("a",)), (OLD_REGION, IN, ("r",))),),
            {},
            (term((EBS_ZONE, IN, ("a",)), (OLD_REGION, IN, ("r",))),),
            id="but not beside a stable zone",
        ),
        pytest.param(
            (term((ZONE, IN, ("a",)), (OLD_ZONE, IN, ("b",))),),
            {},
            (term((EBS_ZONE, IN, ("a",)), (OLD_ZONE, IN, ("b",))),),
            id="of two zones the stable one",
        ),
        pytest.param(None, {ZONE: "b__ a__"}, (term((EBS_ZONE, IN, ("a", "b"))),), id="zones of labels only"),
        pytest.param(None, {OLD_ZONE: "a"}, (term((EBS_ZONE, IN, ("a",))),), id="zone of an old label only"),
        pytest.param((), {ZONE: "a"}, (term((EBS_ZONE, IN, ("a",))),), id="labels in place of no terms"),
        pytest.param(
            (term(("x", EXISTS, ())), term((ZONE, EXISTS, ()))),
            {ZONE: "a"},
            (
                term(("x", EXISTS, ()), (EBS_ZONE, IN, ("a",))),
                term((ZONE, EXISTS, ()), (EBS_ZONE, IN, ("a",))),
            ),
            id="zones of labels join every term that names none",
        ),
        pytest.param(None, {ZONE: "__"}, None, id="a label without zones"),
        pytest.param(None, {}, None, id="nothing to translate"),
    ],
)
def test_the_driver_names_zones_by_its_own_label(own: Terms | None, labels: dict[str, str], expected: Any) -> None:
    assert translated_terms(EBS, own, AMAZON, labels) == expected


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        pytest.param(VolumeSpec(aws_elastic_block_store=AwsElasticBlockStore("aws://a/disk-1")), {}, id="Amazon"),
        pytest.param(VolumeSpec(gce_persistent_disk=GcePersistentDisk("d")), {ZONE: "r-1-a__r-2-a"}, id="two regions"),
        pytest.param(VolumeSpec(gce_persistent_disk=GcePersistentDisk("d")), {ZONE: "a__b"}, id="no region"),
    ],
)
def test_a_volume_that_cannot_be_translated_is_reached_from_no_node(spec: VolumeSpec, labels: dict[str, str]) -> None:
    assert translated_terms(plugin_of(spec), None, spec, labels) == ()


@pytest.mark.parametrize(
    ("spec", "plugin"),
    [
        pytest.param(AMAZON, EBS, id="Amazon"),
        pytest.param(VolumeSpec(gce_persistent_disk=GcePersistentDisk("d")), "kubernetes.io/gce-pd", id="Google"),
        pytest.param(VolumeSpec(azure_disk=AzureDisk("d")), "kubernetes.io/azure-disk", id="Azure"),
        pytest.param(VolumeSpec(cinder=Cinder("d")), "kubernetes.io/cinder", id="OpenStack"),
        pytest.param(VolumeSpec(), "", id="none"),
    ],
)
def test_each_in_tree_source_is_of_one_plugin(spec: VolumeSpec, plugin: str) -> None:
    assert plugin_of(spec) == plugin
    own = (term((ZONE, IN, ("a",))),)
    assert (translated_terms(plugin, own, spec, {}) == own) == (plugin in ("", "kubernetes.io/azure-disk"))


OWN, THEIRS = term((ZONE, IN, ("a",))), term((EBS_ZONE, IN, ("a",)))


def at(name: str, one: Any, operator: int = IN) -> Any:
    """Return a term that selects only one node, or all others."""
    return (one[0], (("metadata.name", operator, (name,)),))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param("", (OWN,), id="no nodes"),
        pytest.param("ab", (OWN,), id="none"),
        pytest.param("AB", (THEIRS,), id="all"),
        pytest.param("AbC", (at("b", THEIRS, NOT_IN), at("b", OWN)), id="most: the other is named"),
        pytest.param("abC", (at("C", OWN, NOT_IN), at("C", THEIRS)), id="few: they are named"),
        pytest.param("Ab", (at("b", THEIRS, NOT_IN), at("b", OWN)), id="half"),
    ],
)
def test_nodes_that_have_handed_over_follow_the_driver_and_others_the_volume(nodes: str, expected: Terms) -> None:
    csi = build_csi_nodes({name: [EBS, "x"] if name.isupper() else ["x"] for name in nodes})
    assert Migration(list(nodes), csi).terms(EBS, (OWN,), (THEIRS,)) == expected


def build_csi_nodes(plugins: dict[str, list[str]]) -> Any:
    """Return decoded CSINodes by name."""
    return {name: msgspec.convert(csi_node(name, migrated=some), CSINode) for name, some in plugins.items()}


def test_no_terms_mean_any_node_on_either_side() -> None:
    csi = build_csi_nodes({"A": [EBS], "b": []})
    assert Migration(["A", "b"], csi).terms(EBS, None, (THEIRS,)) == (at("b", THEIRS, NOT_IN), at("b", ((), ())))


def test_a_snapshot_says_it_of_a_bound_claim() -> None:
    source = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    [volume] = volumes_of(
        build(
            pod(claims=["data"]),
            node("n1"),
            csi_node("n1", migrated=[EBS]),
            persistent_volume_claim(volume="pv1"),
            persistent_volume(source=source, labels={ZONE: "a"}),
        )
    )
    assert volume["nodeAffinity"] == {
        "terms": [{"matchExpressions": [{"key": EBS_ZONE, "operator": "IN", "values": ["a"]}]}]
    }
