"""All signals, and the page that lists them."""

from collections.abc import Iterator
from typing import Final

from trimtab.common.kubernetes.signals import clouds, cluster_autoscaler, gangs, karpenter, ours, well_known
from trimtab.common.kubernetes.signals.signal import LEAVING, TAINT, Signal

SECTIONS: Final[tuple[tuple[str, tuple[Signal, ...]], ...]] = (
    ("Kubernetes", well_known.SIGNALS),
    ("Cluster Autoscaler", cluster_autoscaler.SIGNALS),
    ("Karpenter", karpenter.SIGNALS),
    ("Clouds", clouds.SIGNALS),
    ("Kueue and Volcano", gangs.SIGNALS),
    ("Trimtab", ours.SIGNALS),
)
SIGNALS: Final = tuple(row for _, rows in SECTIONS for row in rows)
SPOT_LABELS: Final = {
    karpenter.CAPACITY_TYPE.key: "spot",
    clouds.EKS_CAPACITY_TYPE.key: "SPOT",
    clouds.GKE_SPOT.key: "true",
    clouds.GKE_PREEMPTIBLE.key: "true",
    clouds.AZURE_PRIORITY.key: "spot",
}
"""Label and value of a node that may be interrupted."""
STARTING_TAINTS: Final = frozenset(
    row.key
    for row in (
        well_known.NOT_READY,
        well_known.NETWORK_UNAVAILABLE,
        well_known.UNINITIALIZED,
        cluster_autoscaler.CLUSTER_API_UNINITIALIZED,
        karpenter.UNREGISTERED,
    )
)
"""Keys of taints that a new node has; controllers remove them shortly after it has become ready."""
_LEAVING_TAINTS: Final = [row for row in SIGNALS if row.kind == TAINT and row.effect == LEAVING]
_LEAVING_KEYS: Final = frozenset(row.key for row in _LEAVING_TAINTS if not row.is_prefix)
_LEAVING_PREFIXES: Final = tuple(row.key for row in _LEAVING_TAINTS if row.is_prefix)
_INTRODUCTION: Final = """# Signals

What Trimtab reads of a cluster besides amounts, selectors and affinity: every annotation, label, taint, condition,
finalizer and field that changes a decision, with the values that are understood. A value that is not understood is a
note in the plan that names the object, the key and the value. A key that ends with `/` or `-` stands for all keys that
begin so. The page is written from the registry of the source (`common/kubernetes/signals`).
"""


def marks_leaving(key: str) -> bool:
    """Return whether a taint, whatever its value, says that somebody is taking the node away."""
    return key in _LEAVING_KEYS or key.startswith(_LEAVING_PREFIXES)


def page() -> str:
    """Return docs/signals.md."""
    return "\n".join([_INTRODUCTION, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for title, rows in SECTIONS:
        yield from (f"## {title}", "", "| key | kind | on | values | what decisions do | source |")
        yield "|---|---|---|---|---|---|"
        alike: dict[tuple[str, ...], list[Signal]] = {}
        for row in rows:
            alike.setdefault((row.kind, row.on, row.values.text, row.effect), []).append(row)
        for told, same in alike.items():
            keys, sources = (f"`{row.key}`" for row in same), dict.fromkeys(row.source for row in same)
            yield f"| {', '.join(keys)} | {' | '.join(told)} | {', '.join(sources)} |"
        yield ""
