"""What the tests of the Go client share with it: clusters as files of objects, with the snapshots that Python makes of
them. `python -m tests.builders.go_client` writes those that are kept beside the Go code, to test Go alone.
"""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.builders.random_objects import random_objects
from trimtab.clients.snapshots.objects import build_snapshot, decode_objects
from trimtab.v1 import snapshot_pb2 as pb

MODULE: Final = Path(__file__).parents[2] / "clients/go"
RECORDED: Final = MODULE / "trimtab/testdata"
RECORDINGS: Final = Path(__file__).parents[2] / "clients/data/recordings"
NUMBERS: Final = ("example.com/cost",)
"""Annotations with numbers that the tests in Go read too."""
_KEPT: Final = range(12)
"""Seeds of the random clusters that are kept."""


def snapshot_of(objects: list[Any]) -> pb.ClusterSnapshot:
    """Return the snapshot that Python makes of objects."""
    return build_snapshot(decode_objects(objects, NUMBERS)).snapshot


def data_of(objects: list[Any]) -> bytes:
    """Return its bytes."""
    return snapshot_of(objects).SerializeToString(deterministic=True)


def write_pair(folder: Path, name: str, objects: list[Any]) -> None:
    """Write objects, and the bytes of their snapshot, as the test in Go reads them."""
    # Some generators have parts that only msgspec can write.
    (folder / f"{name}.json").write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": objects}))
    plain = [json.loads(msgspec.json.encode(one)) for one in objects]
    (folder / f"{name}.snapshot").write_bytes(data_of(plain))


def recorded_objects() -> dict[str, list[Any]]:
    """Return the objects of each recorded cluster, by its path from the folder of recorded snapshots."""
    kept = {f"random-{seed:03}.json.gz": random_objects(seed) for seed in _KEPT}
    for file in sorted(RECORDINGS.glob("*.json.gz")):
        kept[f"../../../data/recordings/{file.name}"] = [json.loads(gzip.decompress(file.read_bytes()))]
    return kept


def digests() -> dict[str, str]:
    """Return the digest of the snapshot of each recorded cluster."""
    return {name: hashlib.sha256(data_of(objects)).hexdigest() for name, objects in recorded_objects().items()}


def main() -> None:
    """Write what is kept."""
    RECORDED.mkdir(exist_ok=True)
    for name, objects in recorded_objects().items():
        if name.startswith("random"):
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, separators=(",", ":"))
            (RECORDED / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    (RECORDED / "digests.json").write_text(json.dumps(digests(), indent=2) + "\n")


if __name__ == "__main__":
    main()
