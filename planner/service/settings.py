"""Settings of the planner's service; loaded once, passed in slices."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from trimtab.v1 import plan_pb2

SnapshotBytesOption = Annotated[
    int, typer.Option("--max-snapshot-bytes", min=1, max=1 << 30, help="largest snapshot or delta accepted, bytes")
]
ObjectBytesOption = Annotated[
    int, typer.Option("--max-object-bytes", min=1, help="most bytes of Kubernetes objects accepted in one request")
]
CacheBytesOption = Annotated[
    int, typer.Option("--cache-bytes", min=0, help="memory for snapshots and states kept as bases, bytes; 0 = none")
]
ConcurrentOption = Annotated[
    int,
    typer.Option("--max-concurrent", min=1, help="requests processed at a time; others wait in a queue (--max-queue)"),
]
QueueOption = Annotated[
    float, typer.Option("--max-queue", min=0, help="longest time a request waits in the queue, seconds")
]
RequestMemoryOption = Annotated[
    int, typer.Option("--max-request-memory", min=1 << 20, help="memory for all requests processed at a time, bytes")
]
LongestCallOption = Annotated[
    float, typer.Option("--longest-call", min=0.1, help="longest time for one call, seconds, whatever its deadline")
]
CompileOption = Annotated[
    bool, typer.Option("--compile", help="compile and cache what every start needs, and exit; for images and packages")
]
ExpanderAddressOption = Annotated[
    str,
    typer.Option(
        "--expander-address",
        help="host:port for a Cluster Autoscaler's --grpc-expander-url, with our certificate, which asks for none of "
        'its own; "" = --address alone',
    ),
]
ExpanderChainOption = Annotated[
    str,
    typer.Option(
        "--expander-chain",
        metavar="NAME,NAME",
        help="expanders for a Cluster Autoscaler's options, such as balanced,price; "
        '"" = as in the last plan\'s settings',
    ),
]
ExpanderClusterOption = Annotated[
    str,
    typer.Option(
        "--expander-cluster", metavar="NAME", help='cluster of the autoscaler; "" = the one with its node groups'
    ),
]
ExpanderRecordOption = Annotated[
    Path | None, typer.Option("--expander-record", metavar="FILE", help="record each choice, for `trimtab replay`")
]
QuickStartOption = Annotated[
    bool,
    typer.Option(
        "--quick-start",
        help="before it is ready, compile only what scale-down with default settings needs; then what scale-up needs, "
        "and the rest on first use",
    ),
]


@dataclass(frozen=True)
class StartOptions:
    """Work to be done before serving, or instead of it."""

    compile: CompileOption = False
    quick_start: QuickStartOption = False


@dataclass(frozen=True)
class PlannerOptions:
    """Limits of the service; no answer depends on them."""

    max_snapshot_bytes: SnapshotBytesOption = 256 << 20
    """50,000 nodes with 1.5 million pods take about 160 MB; a hostile message takes many times its size once parsed."""
    max_object_bytes: ObjectBytesOption = 1 << 30
    """Objects are read as they arrive, and their bytes are not kept: 150,000 pods without managedFields take 150 MB."""
    cache_bytes: CacheBytesOption = 1 << 30
    """A snapshot of 5,000 nodes and 150,000 pods takes 22 MB, and what plans derive from it 15 MB."""
    max_concurrent: ConcurrentOption = 8
    """Each holds a snapshot in memory; more requests than cores only slow all of them down."""
    queue_s: QueueOption = 10.0
    """Callers take turns. A plan of 5,000 nodes takes half a second: a request that waits longer should try another
    replica."""
    max_request_memory: RequestMemoryOption = 2 << 30
    """Together with the cache and the program itself, this fits the 4 GiB of `deploy/chart/values.yaml`. Memory is
    estimated slightly above the real use. 50,000 nodes with 1.5 million pods take about 1 GiB."""
    longest_call_s: LongestCallOption = 300.0
    """50,000 nodes with 1.5 million pods take about 5 s."""


_PRICED: Final = frozenset({plan_pb2.Expander.PRICE, plan_pb2.Expander.CHEAPEST_PLAN})
"""Expanders that choose by prices, which only a plan's snapshot has."""


@dataclass(frozen=True)
class ExpanderOptions:
    """How requests of an autoscaler for the best option are answered."""

    expander_address: ExpanderAddressOption = ""
    """A separate port if callers of the planner need certificates: the Cluster Autoscaler cannot present one."""
    expander_chain: ExpanderChainOption = ""
    """The loop's settings by default: a single place for a cluster's policy."""
    expander_cluster: ExpanderClusterOption = ""
    """Needed if several clusters have node groups with the same names."""
    expander_record: ExpanderRecordOption = None
    """The file is overwritten at each start; a choice takes several hundred bytes per group."""

    def chain(self) -> list[plan_pb2.Expander.Code.ValueType]:
        """Return the named expanders. Raises ValueError for an unknown name."""
        codes = []
        for name in self.expander_chain.split(",") if self.expander_chain else ():
            key = name.strip().upper().replace("-", "_")
            if key == "UNSPECIFIED" or key not in plan_pb2.Expander.Code.keys():  # noqa: SIM118
                names = ", ".join(key_name.lower().replace("_", "-") for key_name in plan_pb2.Expander.Code.keys()[1:])
                raise ValueError(f"--expander-chain: {name.strip()!r} is not an expander; there are {names}")
            codes.append(plan_pb2.Expander.Code.Value(key))
        return codes

    def lacks(self, has_plan: bool) -> str:
        """Return what a choice lacks without a plan of the cluster, as part of a sentence: the chain of expanders, or
        the prices that the chain needs; "" = nothing.
        """
        if has_plan:
            return ""
        if not self.expander_chain:
            return "chain of expanders is"
        return "prices are" if _PRICED.intersection(self.chain()) else ""

    def chosen(self, settings: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
        """Return the settings, with the expanders named here in place of their own, if any are named."""
        if not self.expander_chain:
            return settings
        own = plan_pb2.PlanSettings()
        own.CopyFrom(settings)
        del own.scale_up.expanders[:]
        own.scale_up.expanders.extend(self.chain())
        return own
