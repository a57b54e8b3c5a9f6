"""The shipped recordings of real clusters, and properties that hold for every input."""

import gzip
import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.kubernetes import (
    anti_affinity,
    labelled,
    listed,
    namespace,
    node,
    node_group,
    pdb,
    persistent_volume,
    persistent_volume_claim,
    pod,
    pods_of,
    replica_set,
    spread,
    toleration,
)
from tests.unit.common.objects.reading import column, text_column
from trimtab.common.objects import build_snapshot, decode_objects, read_files

RECORDINGS = Path(str(files("clients").joinpath("data/recordings")))
COUNTS = {
    "gardener-aws-scenario-c": (3, 13, 3, 0),
    "gardener-gcp-g2": (2, 40, 2, 0),
    "openshift-aws": (6, 239, 2, 8),
    "openshift-azure": (6, 237, 3, 7),
    "openshift-metal": (6, 235, 0, 10),
    "openshift-vsphere": (6, 248, 1, 7),
}


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_a_recording_of_a_real_cluster_is_read(name: str) -> None:
    built = read_files([RECORDINGS / f"{name}.json.gz"])
    snapshot = built.snapshot
    counts = (
        len(snapshot.nodes),
        snapshot.pods.count,
        len(snapshot.node_groups),
        len(snapshot.pod_disruption_budgets),
    )
    assert counts == COUNTS[name]
    about_nodes = name.startswith("gardener")  # the nodes of these recordings have no conditions
    assert ["no condition Ready" in note for note in built.notes].count(True) == about_nodes
    assert all("not needed" in note or "no condition Ready" in note for note in built.notes)
    known = {row.name for row in snapshot.nodes} | {""}
    assert set(text_column(snapshot, "node")) <= known
    assert len(snapshot.pod_specs) < snapshot.pods.count


def test_every_recording_is_tested() -> None:
    assert {path.name.removesuffix(".json.gz") for path in RECORDINGS.glob("*.json.gz")} == set(COUNTS)


def test_bound_volumes_of_a_real_cluster_are_found() -> None:
    snapshot = read_files([RECORDINGS / "openshift-vsphere.json.gz"]).snapshot
    assert [volume.state for volume in snapshot.volumes] == [1, 1]
    assert len(column(snapshot.pods.volume)) == 2


@pytest.mark.parametrize("name", ["gardener-gcp-g2", "openshift-vsphere"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_objects_and_keys_does_not_matter(name: str, seed: int) -> None:
    items = json.loads(gzip.decompress((RECORDINGS / f"{name}.json.gz").read_bytes()))["items"]
    expected = build_snapshot(decode_objects(items)).snapshot.SerializeToString()
    shuffled = [_reversed_keys(item) for item in items]
    random.Random(seed).shuffle(shuffled)
    assert build_snapshot(decode_objects(shuffled)).snapshot.SerializeToString() == expected


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(one) for one in value] if isinstance(value, list) else value


CLUSTER = [
    *(node(f"n{i}", zone="ab"[i % 2], labels={"pool": "x"}, taints=["a:NoSchedule"] if i else []) for i in range(3)),
    node_group(selector={"pool": "x"}),
    *pods_of(replica_set("web"), 3, node="n1", spread=[spread(labelled(app="web"))]),
    *pods_of(replica_set("db"), 2, affinity=anti_affinity(labelled(app="db")), tolerations=[toleration("a")]),
    pod("single", claims=["data"], labels={"b": "2", "a": "1"}, requests={"example.org/fpga": "1"}),
    replica_set("web", 3),
    replica_set("db", 2),
    persistent_volume_claim(volume="pv1"),
    persistent_volume(),
    pdb(),
    pdb("other", namespace="other"),
    namespace("default"),
    namespace("other"),
]
EXPECTED = build_snapshot(decode_objects(CLUSTER)).snapshot.SerializeToString()


@given(st.permutations(CLUSTER), st.integers(0, len(CLUSTER)))
def test_any_order_and_any_split_into_lists_gives_the_same_bytes(objects: list[Any], cut: int) -> None:
    lists = [listed(*objects[:cut]), listed(*objects[cut:])]
    assert build_snapshot(decode_objects(lists)).snapshot.SerializeToString() == EXPECTED


def test_building_leaves_the_objects_as_they_are() -> None:
    objects = decode_objects(CLUSTER)
    first, second = (build_snapshot(objects).snapshot.SerializeToString() for _ in range(2))
    assert first == second == EXPECTED


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = [
    ("spec",), ("metadata",), ("status",), ("spec", "containers"), ("spec", "affinity"), ("spec", "tolerations"),
    ("metadata", "labels"), ("metadata", "name"), ("spec", "volumes"), ("metadata", "ownerReferences"),
]  # fmt: skip


@given(st.sampled_from(["Pod", "Node"]), st.sampled_from(PATHS), JSON_VALUES)
def test_any_value_in_any_place_is_read_or_refused_clearly(kind: str, path: tuple[str, ...], value: Any) -> None:
    obj: Any = json.loads(json.dumps(pod() if kind == "Pod" else node()))
    target = obj
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    try:
        build_snapshot(decode_objects([obj]))
    except ValueError as error:
        message = str(error)
    else:
        message = f"{kind} "
    assert message.startswith(f"{kind} ")
