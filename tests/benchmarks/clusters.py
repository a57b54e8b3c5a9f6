"""The synthetic clusters that scenarios work on, made once and kept in the system's temporary directory.

The name of a kept file contains everything that it depends on, so it never becomes stale.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import trimtab.clients.cluster_generator
from tests.benchmarks.tiles import tiled
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import read_files
from trimtab.v1 import snapshot_pb2

LARGE = ClusterShape(nodes=5_000, pods=150_000)
CONSTRAINED = ClusterShape(
    nodes=5_000,
    pods=150_000,
    tainted_share=0.3,
    affinity_share=0.7,
    spread_share=0.33,
    anti_affinity_share=0.1,
)
"""Every workload has a toleration or an affinity, a third a zonal spread, a tenth hostname anti-affinity."""


def objects_file(shape: ClusterShape) -> Path:
    """Return a file with the objects of a cluster."""
    return _kept(f"{shape}", ".json", lambda path: write_list(generate(shape), path))


def snapshot(shape: ClusterShape, copies: int = 1) -> snapshot_pb2.ClusterSnapshot:
    """Return a cluster as a snapshot, several times side by side when `copies` is more than one."""

    def write(path: Path) -> None:
        path.write_bytes(
            tiled(read_files([objects_file(shape)]).snapshot, copies).SerializeToString(deterministic=True)
        )

    return snapshot_pb2.ClusterSnapshot.FromString(_kept(f"{shape} {copies}", ".snapshot", write).read_bytes())


def _kept(what: str, suffix: str, write: Callable[[Path], None]) -> Path:
    """Return the file that holds `what`, written now or before."""
    key = hashlib.sha256(f"{what} {_sources()}".encode()).hexdigest()[:16]
    directory = Path(tempfile.gettempdir()) / "trimtab-benchmarks"
    directory.mkdir(exist_ok=True)
    path = directory / f"{key}{suffix}"
    if not path.exists():
        partial = directory / f"{key}.{os.getpid()}"
        write(partial)
        partial.rename(path)
    return path


def _sources() -> str:
    """A digest of the code that the files depend on."""
    roots = (
        Path(trimtab.clients.__path__[0]) / "cluster_generator",
        Path(trimtab.clients.__path__[0]) / "kubernetes_objects",
    )
    sources = [path for root in roots for path in sorted(root.rglob("*.py"))] + [Path(__file__).with_name("tiles.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
