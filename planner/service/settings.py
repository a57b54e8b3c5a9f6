"""How the planner's service is set up; loaded once, passed in slices."""

from dataclasses import dataclass
from typing import Annotated

import typer

SnapshotBytesOption = Annotated[
    int, typer.Option("--max-snapshot-bytes", min=1, max=1 << 30, help="largest snapshot or delta accepted, bytes")
]
CacheBytesOption = Annotated[
    int, typer.Option("--cache-bytes", min=0, help="memory for snapshots and states kept as bases, bytes; 0 = none")
]
ConcurrentOption = Annotated[
    int, typer.Option("--max-concurrent", min=1, help="requests worked on at a time; more are refused as OVERLOADED")
]


@dataclass(frozen=True)
class PlannerOptions:
    """Limits of the service; an answer depends on none of them."""

    max_snapshot_bytes: SnapshotBytesOption = 256 << 20
    """50,000 nodes with 1.5 million pods take some 160 MB; parsed, a hostile message takes many times its size."""
    cache_bytes: CacheBytesOption = 1 << 30
    """A snapshot of 5,000 nodes and 150,000 pods takes some 25 MB."""
    max_concurrent: ConcurrentOption = 8
    """Each holds a snapshot in memory; more than there are cores only makes all of them slower."""
