"""What the tests of the Go client share with it: clusters as files of objects, with the snapshots that Python makes of
them. `python -m tests.builders.go_client` writes those that are kept beside the Go code, to test Go alone.
"""

import gzip
import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tests.builders.random_node_pools import offers_json, random_offers, random_pool_objects
from tests.builders.random_objects import random_objects
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.build import BuiltSnapshot
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.v1 import snapshot_pb2 as pb

MODULE: Final = Path(__file__).parents[2] / "clients/go"
RECORDED: Final = MODULE / "trimtab/testdata"
RECORDINGS: Final = Path(__file__).parents[2] / "clients/data/recordings"
NUMBERS: Final = ("example.com/cost",)
"""Annotations with numbers that the tests in Go read too."""
_KEPT: Final = range(12)
"""Seeds of the random clusters that are kept."""


class Cluster(NamedTuple):
    """What a snapshot is made of. offers : as for `build_snapshot`."""

    objects: list[Any]
    offers: list[MachineOffer] | None = None


def random_cluster(seed: int) -> Cluster:
    """Return a random cluster; every second one has NodePools."""
    if seed % 2:
        return Cluster(random_objects(seed))
    return Cluster([*random_objects(seed), *random_pool_objects(seed)], random_offers(seed))


def built(cluster: Cluster) -> BuiltSnapshot:
    """Return what Python makes of a cluster."""
    return build_snapshot(decode_objects(cluster.objects, NUMBERS), None, cluster.offers)


def snapshot_of(objects: list[Any]) -> pb.ClusterSnapshot:
    """Return the snapshot that Python makes of objects."""
    return built(Cluster(objects)).snapshot


def data_of(cluster: Cluster) -> tuple[bytes, bytes]:
    """Return the bytes of the snapshot that Python makes, and of the settings."""
    made = built(cluster)
    settings = made.settings.SerializeToString(deterministic=True) if made.settings is not None else b""
    return made.snapshot.SerializeToString(deterministic=True), settings


def write_pair(folder: Path, name: str, cluster: Cluster) -> None:
    """Write a cluster, and the bytes of its snapshot and settings, as the test in Go reads them."""
    # Some generators have parts that only msgspec can write.
    items = {"apiVersion": "v1", "kind": "List", "items": cluster.objects}
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(items))
    if cluster.offers is not None:
        (folder / f"{name}.offers").write_bytes(msgspec.json.encode(offers_json(cluster.offers)))
    plain = [json.loads(msgspec.json.encode(one)) for one in cluster.objects]
    snapshot, settings = data_of(cluster._replace(objects=plain))
    (folder / f"{name}.snapshot").write_bytes(snapshot)
    (folder / f"{name}.settings").write_bytes(settings)


def recorded_clusters() -> dict[str, Cluster]:
    """Return each recorded cluster, by its path from the folder of recorded snapshots."""
    kept = {f"random-{seed:03}.json.gz": random_cluster(seed) for seed in _KEPT}
    for file in sorted(RECORDINGS.glob("*.json.gz")):
        kept[f"../../../data/recordings/{file.name}"] = Cluster([json.loads(gzip.decompress(file.read_bytes()))])
    return kept


def digests() -> dict[str, str]:
    """Return the digest of the snapshot of each recorded cluster."""
    return {name: hashlib.sha256(data_of(one)[0]).hexdigest() for name, one in recorded_clusters().items()}


def recorded_settings() -> dict[str, str]:
    """Return what NodePools ask of plans, in base64, by the path of the cluster."""
    found = {name: data_of(one)[1] for name, one in recorded_clusters().items()}
    return {name: b64encode(data).decode() for name, data in found.items() if data}


def recorded_offers() -> dict[str, Any]:
    """Return the offerings of the recorded clusters that have some, by the cluster's path."""
    found = {name: one.offers for name, one in recorded_clusters().items()}
    return {name: offers_json(offers) for name, offers in found.items() if offers is not None}


def main() -> None:
    """Write what is kept."""
    RECORDED.mkdir(exist_ok=True)
    for name, cluster in recorded_clusters().items():
        if name.startswith("random"):
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.objects}, separators=(",", ":"))
            (RECORDED / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    (RECORDED / "offers.json").write_text(json.dumps(recorded_offers(), separators=(",", ":")) + "\n")
    (RECORDED / "settings.json").write_text(json.dumps(recorded_settings(), separators=(",", ":")) + "\n")
    (RECORDED / "digests.json").write_text(json.dumps(digests(), indent=2) + "\n")


if __name__ == "__main__":
    main()
