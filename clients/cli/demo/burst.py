"""The burst of the demo: a workload that is suddenly scaled to many pods, and a moment later to none. Decides the
workload, and checks pictures of the cluster: every pod got a node and became ready, and afterwards the added nodes are
gone or in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.demo.evidence import ClusterPicture, Object

NAMESPACE, WORKLOAD = "shop", "flash-sale"
POD_COUNT, CPU, MEMORY = 60, "3", "6Gi"
_LABELS = {"app": WORKLOAD}


@dataclass
class DemoBurst:
    """The course of a burst. `grown` : sizes of node groups before and after; prices are per hour, 0 = unknown.
    `before`, `peak`, `after` : the cluster before it, when all its pods should be running (with the plan made then),
    and once it is over. `peak_answer` : that plan; `price_per_hour` : of the nodes that plans added; `served_s` : from
    the burst until its pods ran, seconds.
    """

    before: ClusterPicture
    peak: ClusterPicture
    after: ClusterPicture
    peak_answer: PlanAnswer | None = None
    grown: dict[str, tuple[int, int]] = field(default_factory=dict)
    price_per_hour: float = 0.0
    served_s: float = 0.0

    def note(self, group: str, current: int, new: int) -> None:
        """Note that a node group grows; repeated growth adds up."""
        self.grown[group] = (self.grown.get(group, (current, new))[0], new)


def replica_set_name() -> str:
    """Return the name of the ReplicaSet that is scaled."""
    return f"{WORKLOAD}-1"


def write_workload(path: Path) -> Path:
    """Write the workload, without pods; return the path."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": CPU, "memory": MEMORY}}}]
    template = {"metadata": {"labels": _LABELS}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": _LABELS}, "template": template}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": WORKLOAD, "uid": "flash-sale", "controller": True}
    items = [
        _object("Deployment", WORKLOAD, spec, uid="flash-sale"),
        _object("ReplicaSet", replica_set_name(), spec, uid="flash-sale-1", ownerReferences=[owner]),
    ]
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def _object(kind: str, name: str, spec: Mapping[str, object], **metadata: object) -> Object:
    meta = {"name": name, "namespace": NAMESPACE, "creationTimestamp": "2025-12-24T08:00:00Z", **metadata}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec, "status": {"replicas": 0}}


def complaints(burst: DemoBurst) -> list[str]:
    """Return what went wrong; [] = all pods were served, and none are left."""
    served = running(burst.peak)
    found = [] if served == POD_COUNT else [f"{served} of {POD_COUNT} pods of the burst were running"]
    if not burst.grown:
        found.append("no node group grew for the burst")
    if left := running(burst.after):
        found.append(f"{left} pods of the burst still exist after its end")
    return found


def running(picture: ClusterPicture) -> int:
    """Return how many pods of the workload are on a node and ready."""
    return sum(
        pod["metadata"].get("namespace") == NAMESPACE
        and (pod["metadata"].get("labels") or {}).get("app") == WORKLOAD
        and bool(pod["spec"].get("nodeName"))
        and any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())
        for pod in picture.pods.values()
    )


def summary(burst: DemoBurst) -> Sequence[Sentence]:
    """Return a summary of a burst in a few sentences."""
    sizes = ", ".join(f"{group} {old:,} → {new:,}" for group, (old, new) in sorted(burst.grown.items()))
    added = sum(new - old for old, new in burst.grown.values())
    price = f" for {money(burst.price_per_hour)} an hour" if burst.price_per_hour else ""
    nodes = " → ".join(f"{len(one.nodes):,}" for one in (burst.before, burst.peak, burst.after))
    served = f"{running(burst.peak)} of {POD_COUNT} pods ran {burst.served_s:.0f} s after they were created."
    return (
        led(Style.WARNING, "The burst:", f" {counted(added, 'node')} added{price}: {sizes}."),
        Sentence(f"{served} After their deletion the cluster shrank again: {nodes} nodes."),
    )
