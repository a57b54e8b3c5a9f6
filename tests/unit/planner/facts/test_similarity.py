"""Similarity of node groups: amounts within ratios, equal labels except those of location and provider."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.planner.facts.similarity import NodeShape, Sample, Similarity, are_similar, sample, samples
from trimtab.planner.model.settings import SimilaritySettings

KIB = 1 << 10
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
POOL, LEGACY_POOL = "kubernetes.azure.com/agentpool", "agentpool"
TYPE, ARCH = "node.kubernetes.io/instance-type", "kubernetes.io/arch"
BY_TYPE = SimilaritySettings(compared_labels=(ARCH, TYPE))
BY_DEFAULT = SimilaritySettings()
STRICT = SimilaritySettings(memory_ratio=0, allocatable_ratio=0, free_ratio=0)


class Amounts(NamedTuple):
    """cpu in milli-cores; `left` : the free part of allocatable, if not all."""

    cpu: int = 1000
    memory: int = 2000
    allocatable: Mapping[str, int] = {}
    extra: Mapping[str, int] = {}
    pods: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}

    def shape(self) -> NodeShape:
        capacity = {"cpu": self.cpu, "memory": self.memory, **self.extra}
        allocatable = capacity | self.allocatable
        free = {name: allocatable[name] - self.pods.get(name, 0) for name in ("cpu", "memory")}
        return NodeShape(capacity.items(), allocatable.items(), free.items(), self.labels.items())


def similar(one: Amounts, other: Amounts, settings: SimilaritySettings = BY_DEFAULT) -> bool:
    """Return whether two nodes are similar, in either order."""
    first, second = sample(one.shape(), settings), sample(other.shape(), settings)
    found = first is not None and second is not None and are_similar(first, second, settings)
    assert found == (first is not None and second is not None and are_similar(second, first, settings))
    return found


def with_labels(labels: Mapping[str, str]) -> Amounts:
    return Amounts(labels=labels)


AMOUNTS: dict[str, tuple[Amounts, Amounts, bool]] = {
    "the same": (Amounts(), Amounts(), True),
    "one milli-core of capacity": (Amounts(), Amounts(cpu=1001), False),
    "a little less allocatable": (Amounts(), Amounts(allocatable={"cpu": 999}), True),
    "5 % less allocatable": (Amounts(), Amounts(allocatable={"cpu": 950}), True),
    "more than 5 % less allocatable": (Amounts(), Amounts(allocatable={"cpu": 949}), False),
    "half as much allocatable": (Amounts(), Amounts(allocatable={"cpu": 500}), False),
    "a GPU on one of them": (Amounts(), Amounts(extra={"nvidia.com/gpu": 1}), False),
    "other GPUs": (Amounts(extra={"nvidia.com/gpu": 1}), Amounts(extra={"amd.com/gpu": 1}), False),
    "as many GPUs": (Amounts(extra={"nvidia.com/gpu": 1}), Amounts(extra={"nvidia.com/gpu": 1}), True),
    "as much free of less": (
        Amounts(pods={"cpu": 500, "memory": 1000}), Amounts(allocatable={"cpu": 500, "memory": 1000}), False
    ),
    "equal pods": (Amounts(pods={"cpu": 500, "memory": 1000}), Amounts(pods={"cpu": 500, "memory": 1000}), True),
    "a little less of both": (
        Amounts(pods={"cpu": 500, "memory": 1000}),
        Amounts(allocatable={"cpu": 999}, pods={"cpu": 501, "memory": 1001}), True,
    ),
    "5 % less free": (Amounts(), Amounts(pods={"cpu": 50}), True),
    "more than 5 % less free": (Amounts(), Amounts(pods={"cpu": 51}), False),
    "memory within 1.5 %": (Amounts(memory=1000), Amounts(memory=986), True),
    "memory beyond 1.5 %": (Amounts(memory=1000), Amounts(memory=984), False),
    "16 GiB in two zones": (Amounts(memory=16116152 * KIB), Amounts(memory=15944120 * KIB), True),
    "16 GiB and 2 % more": (Amounts(memory=16116152 * KIB), Amounts(memory=16438475 * KIB), False),
    "256 GiB in two zones": (Amounts(memory=259970052 * KIB), Amounts(memory=257217528 * KIB), True),
    "256 GiB and 2 % more": (Amounts(memory=259970052 * KIB), Amounts(memory=265169453 * KIB), False),
}  # fmt: skip


@pytest.mark.parametrize("name", AMOUNTS)
def test_amounts_may_differ_as_far_as_ratios_allow(name: str) -> None:
    one, other, wanted = AMOUNTS[name]
    assert similar(one, other) == wanted


def test_ratios_can_be_set() -> None:
    assert not similar(Amounts(memory=1000), Amounts(memory=999), STRICT)
    assert not similar(Amounts(), Amounts(allocatable={"cpu": 999}), STRICT)
    assert not similar(Amounts(), Amounts(pods={"cpu": 1}), STRICT)
    loose = SimilaritySettings(memory_ratio=0.5, allocatable_ratio=0.5, free_ratio=0.5)
    assert similar(Amounts(memory=1000), Amounts(memory=500, allocatable={"cpu": 500}), loose)


READY = {"settings": SimilaritySettings(ignored_labels=frozenset({"example.com/ready"}))}
LABELS: dict[str, tuple[dict[str, str], dict[str, str], dict[str, Any], bool]] = {
    "missing": ({"tier": "web", "team": "a"}, {"tier": "web"}, {}, False),
    "the same": ({"tier": "web", "team": "a"}, {"team": "a", "tier": "web"}, {}, True),
    "another value": ({"tier": "web"}, {"tier": "db"}, {}, False),
    "another host": ({HOST: "n1"}, {HOST: "n2"}, {}, True),
    "another zone": ({ZONE: "u", "failure-domain.beta.kubernetes.io/zone": "u"}, {ZONE: "v"}, {}, True),
    "another region": (
        {"topology.kubernetes.io/region": "u"}, {"failure-domain.beta.kubernetes.io/region": "v"}, {}, True
    ),
    "ignored, other values": ({"example.com/ready": "true"}, {"example.com/ready": "false"}, READY, True),
    "ignored, on one of them": ({"example.com/ready": "true"}, {}, READY, True),
    "not ignored": ({"example.com/ready": "true"}, {"example.com/ready": "false"}, {}, False),
    "compared, the same": ({TYPE: "m5", ARCH: "amd64"}, {TYPE: "m5", ARCH: "amd64"}, {"settings": BY_TYPE}, True),
    "compared, another": ({TYPE: "m5", ARCH: "amd64"}, {TYPE: "m5", ARCH: "i386"}, {"settings": BY_TYPE}, False),
    "not among the compared": (
        {TYPE: "m5", ARCH: "amd64", "rack": "1"}, {TYPE: "m5", ARCH: "amd64", "rack": "2"}, {"settings": BY_TYPE}, True
    ),
    "compared, none is there": ({}, {}, {"settings": BY_TYPE}, False),
    "compared, the second lacks one": ({TYPE: "m5", ARCH: "amd64"}, {ARCH: "amd64"}, {"settings": BY_TYPE}, False),
    "compared, the first lacks one": ({ARCH: "amd64"}, {TYPE: "m5", ARCH: "amd64"}, {"settings": BY_TYPE}, False),
    "compared, empty": ({TYPE: "", ARCH: ""}, {TYPE: "", ARCH: ""}, {"settings": BY_TYPE}, True),
    "compared, one empty": ({TYPE: "", ARCH: "amd64"}, {TYPE: "", ARCH: "amd64"}, {"settings": BY_TYPE}, True),
    "pool names, one empty": ({LEGACY_POOL: "", "team": "a"}, {LEGACY_POOL: "foo"}, {}, False),
    "pool names, both empty": ({LEGACY_POOL: "", "team": "a"}, {LEGACY_POOL: ""}, {}, False),
    "pool names, others": ({POOL: "foo", "team": "a"}, {POOL: "bar"}, {}, False),
    "pool names, of other kinds": ({POOL: "foo", "team": "a"}, {LEGACY_POOL: "foo"}, {}, False),
    "one pool": ({LEGACY_POOL: "foo", "team": "a"}, {LEGACY_POOL: "foo"}, {}, True),
    "one pool by the new label": ({POOL: "foo", "team": "a"}, {POOL: "foo", LEGACY_POOL: "x"}, {}, True),
    "other pools, else the same": ({LEGACY_POOL: "foo"}, {LEGACY_POOL: "bar"}, {}, True),
}  # fmt: skip


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_the_same_but_for_those_that_do_not_count(name: str) -> None:
    one, other, more, wanted = LABELS[name]
    assert similar(with_labels(one), with_labels(other), **more) == wanted


def test_where_labels_are_named_nothing_else_is_compared() -> None:
    labels = {TYPE: "m5", ARCH: "amd64"}
    assert similar(Amounts(labels=labels), Amounts(cpu=9, memory=7, labels=labels), BY_TYPE)


PROVIDERS = (
    "aksEngineVersion", "alpha.eksctl.io/instance-id", "alpha.eksctl.io/nodegroup-name",
    "beta.kubernetes.io/fluentd-ds-ready", "creationSource", "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig", "kops.k8s.io/instancegroup",
    "kubernetes.azure.com/consolidated-additional-properties", "kubernetes.azure.com/node-image-version", "lifecycle",
    "poolName", "resourceNameSuffix", "topology.disk.csi.azure.com/zone", "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone", "topology.k8s.aws/zone-id",
)  # fmt: skip


@pytest.mark.parametrize("label", PROVIDERS)
@pytest.mark.parametrize(
    ("one", "other"), [("", ""), ("foo", "bar"), ("foo", None)], ids=["empty", "different", "one has it"]
)
def test_a_providers_label_does_not_count(label: str, one: str, other: str | None) -> None:
    assert similar(Amounts(labels={label: one}), Amounts(labels={} if other is None else {label: other}))


def test_groups_in_one_pool_are_similar_whatever_their_nodes_are_like() -> None:
    assert not similar(Amounts(cpu=1000), Amounts(cpu=2000))
    assert similar(Amounts(cpu=1000, labels={POOL: "p"}), Amounts(cpu=2000, labels={POOL: "p"}))


def compared(*nodes: Amounts | None, settings: SimilaritySettings = BY_DEFAULT) -> Similarity:
    shapes = [None if one is None else one.shape() for one in nodes]
    return Similarity(lambda: samples(shapes, settings), settings)


def test_similar_groups_are_found_for_each_and_counted_by_kinds() -> None:
    found = compared(
        Amounts(),
        Amounts(cpu=2000),
        None,
        Amounts(labels={ZONE: "u"}),
        Amounts(cpu=2000, labels={LEGACY_POOL: "x"}),
    )
    assert [found.to(row).tolist() for row in range(5)] == [[3], [4], [], [0], [1]]
    assert found.kinds.tolist() == [0, 1, -1, 0, 1]


def test_what_is_similar_to_something_similar_need_not_be_similar() -> None:
    found = compared(Amounts(memory=1000), Amounts(memory=990), Amounts(memory=980), settings=BY_DEFAULT)
    assert [found.to(row).tolist() for row in range(3)] == [[1], [0, 2], [1]]
    assert found.kinds.tolist() == [0, 0, 1]


NODES = st.tuples(
    st.sampled_from([1000, 2000]), st.sampled_from([960, 980, 990, 1000]),
    st.sampled_from([{}, {"team": "a"}, {POOL: "p"}, {LEGACY_POOL: "p"}, {ZONE: "u"}, {POOL: "p", LEGACY_POOL: "q"}]),
).map(lambda row: Amounts(row[0], row[1], labels=row[2]))  # fmt: skip


@given(st.lists(st.none() | NODES, max_size=8))
def test_what_is_found_by_looking_up_is_what_comparing_all_with_all_finds(nodes: list[Amounts | None]) -> None:
    found = compared(*nodes)
    described: list[Sample | None] = [None if one is None else sample(one.shape(), BY_DEFAULT) for one in nodes]

    def alike(a: int, b: int) -> bool:
        one, other = described[a], described[b]
        return one is not None and other is not None and are_similar(one, other, BY_DEFAULT)

    rows = range(len(nodes))
    assert [found.to(row).tolist() for row in rows] == [[b for b in rows if b != a and alike(a, b)] for a in rows]
    first: list[int] = []
    kinds = []
    for row in rows:
        kind = next((kind for kind, known in enumerate(first) if alike(known, row)), len(first))
        if described[row] is not None and kind == len(first):
            first.append(row)
        kinds.append(-1 if described[row] is None else kind)
    assert found.kinds.tolist() == kinds
