"""Settings of the planner's service; loaded once, passed in slices."""

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
RequestMemoryOption = Annotated[
    int, typer.Option("--max-request-memory", min=1 << 20, help="memory for all requests worked on at a time, bytes")
]
LongestCallOption = Annotated[
    float, typer.Option("--longest-call", min=0.1, help="longest time for one call, seconds, whatever its deadline")
]
CompileOption = Annotated[
    bool, typer.Option("--compile", help="compile and keep what every start needs, and end; for images and packages")
]


@dataclass(frozen=True)
class StartOptions:
    """What is done instead of serving."""

    compile: CompileOption = False


@dataclass(frozen=True)
class PlannerOptions:
    """Limits of the service; no answer depends on them."""

    max_snapshot_bytes: SnapshotBytesOption = 256 << 20
    """50,000 nodes with 1.5 million pods take about 160 MB; a hostile message takes many times its size once parsed."""
    cache_bytes: CacheBytesOption = 1 << 30
    """A snapshot of 5,000 nodes and 150,000 pods takes about 25 MB."""
    max_concurrent: ConcurrentOption = 8
    """Each holds a snapshot in memory; more requests than cores only slow all of them down."""
    max_request_memory: RequestMemoryOption = 2 << 30
    """Beside the cache and the program itself, this fits the 4 GiB of `deploy/manifests/planner.yaml`; an estimate,
    slightly above the real use. 50,000 nodes with 1.5 million pods take about 1 GiB."""
    longest_call_s: LongestCallOption = 300.0
    """50,000 nodes with 1.5 million pods take about 5 s."""
