"""A synthetic cluster as Kubernetes objects, as `kubectl get -o json` would list them, with our NodeGroups.

Pure, but for `write_list`, which writes a file. Order of the objects: namespaces, groups, nodes, controllers, budgets,
pods. Times lie before `EPOCH`: answers do not depend on when the cluster was generated.
"""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from trimtab.clients.cluster_generator import identity
from trimtab.clients.cluster_generator.controllers import budgets, controllers, pod_owner
from trimtab.clients.cluster_generator.layout import SyntheticCluster, group_name, node_name, zone_name
from trimtab.clients.cluster_generator.pod_templates import pod_labels, pod_spec
from trimtab.clients.cluster_generator.shape import (
    PODS_PER_NODE,
    POOLS,
    RESERVED_CPU_MILLI,
    RESERVED_MEMORY_BYTES,
    GeneratedPool,
)
from trimtab.common.kubernetes.signals import cluster_autoscaler, ours, well_known

Object = dict[str, Any]
EPOCH = "2026-01-01T00:00:00Z"
"""The moment of every synthetic cluster."""
CREATED = "2025-12-24T08:00:00Z"
"""When everything in it was created."""


def objects(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield every object of the cluster; parts that pods share are `msgspec.Raw`, which `msgspec.json` can encode."""
    yield from _namespaces(cluster)
    yield from _node_groups(cluster)
    yield from _nodes(cluster)
    yield from controllers(cluster)
    yield from budgets(cluster)
    yield from _pods(cluster)


def write_list(cluster: SyntheticCluster, path: Path) -> None:
    """Write the cluster as one Kubernetes `List`; gzip when the name ends in .gz."""
    if path.suffix == ".gz":
        # Without name and time in its header, equal clusters are equal files.
        with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
            _write(cluster, packed)
    else:
        with path.open("wb") as plain:
            _write(cluster, plain)


def _write(cluster: SyntheticCluster, out: BinaryIO | gzip.GzipFile) -> None:
    """Write the `List`, one object a line."""
    encoder = msgspec.json.Encoder()
    separator = b'{"apiVersion":"v1","kind":"List","items":[\n'
    for item in objects(cluster):
        out.write(separator + encoder.encode(item))
        separator = b",\n"
    out.write(b"\n]}\n")


def _metadata(name: str, namespace: str = "", **more: Any) -> Object:
    """Return the metadata that every object has."""
    spaced = {"namespace": namespace} if namespace else {}
    return {"name": name, **spaced, "creationTimestamp": CREATED, **more}


def _namespaces(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield a Namespace for each that a workload is in."""
    for name in sorted({workload.namespace for workload in cluster.workloads}):
        labels = {well_known.NAMESPACE_NAME.key: name}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata(name, labels=labels)}


def _node_labels(pool: GeneratedPool, zone: int, group: str) -> dict[str, str]:
    """Return the labels of a machine without its host name."""
    return {
        well_known.ARCH.key: "amd64",
        well_known.OS.key: "linux",
        well_known.INSTANCE_TYPE.key: pool.instance_type,
        ours.GENERATED_GROUP.key: group,
        ours.GENERATED_POOL.key: pool.name,
        well_known.REGION.key: "region-1",
        well_known.ZONE.key: f"region-1{zone_name(zone)}",
    }


def _taints(pool: GeneratedPool) -> list[Object]:
    """Return the taints of a machine."""
    return [{"key": pool.taint[0], "value": pool.taint[1], "effect": "NoSchedule"}] if pool.taint else []


def _amounts(cpu_milli: int, memory_bytes: int) -> dict[str, str]:
    """Return amounts of resources as a kubelet writes them."""
    return {"cpu": f"{cpu_milli}m", "memory": f"{memory_bytes // 1024}Ki", "pods": str(PODS_PER_NODE)}


def _node_groups(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield a NodeGroup for each pool and zone that has nodes."""
    pairs, sizes = np.unique(np.stack([cluster.nodes.pool, cluster.nodes.zone]), axis=1, return_counts=True)
    for (pool_index, zone), size in zip(pairs.T.tolist(), sizes.tolist(), strict=True):
        pool, group = POOLS[pool_index], group_name(pool_index, zone)
        template: Object = {
            "metadata": {"labels": _node_labels(pool, zone, group)},
            "spec": {"taints": _taints(pool)},
            "status": {
                "capacity": _amounts(pool.cpu_milli, pool.memory_bytes),
                "allocatable": _amounts(pool.cpu_milli - RESERVED_CPU_MILLI, pool.memory_bytes - RESERVED_MEMORY_BYTES),
            },
        }
        yield {
            "apiVersion": "trimtab.dev/v1",
            "kind": "NodeGroup",
            "metadata": {"name": group},
            "spec": {
                "minSize": 1,
                "maxSize": 2 * size + 10,
                "targetSize": size,
                "nodeSelector": {ours.GENERATED_GROUP.key: group},
                "price": pool.price_per_hour,
                "template": template,
            },
        }


def _nodes(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield the nodes, all ready."""
    for index in range(cluster.shape.nodes):
        pool_index, zone = int(cluster.nodes.pool[index]), int(cluster.nodes.zone[index])
        pool, name = POOLS[pool_index], node_name(cluster, index)
        labels = {well_known.HOSTNAME.key: name, **_node_labels(pool, zone, group_name(pool_index, zone))}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": CREATED}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _metadata(name, uid=identity.node_uid(index), labels=labels),
            "spec": {"providerID": f"memory:///{name}", "taints": _taints(pool)},
            "status": {
                "capacity": _amounts(pool.cpu_milli, pool.memory_bytes),
                "allocatable": _amounts(pool.cpu_milli - RESERVED_CPU_MILLI, pool.memory_bytes - RESERVED_MEMORY_BYTES),
                "conditions": [ready],
            },
        }


def _pods(cluster: SyntheticCluster) -> Iterator[Object]:
    """Yield the pods, each with its workload's spec, bound to its node of the layout."""
    encode = msgspec.json.encode
    names = [node_name(cluster, index) for index in range(cluster.shape.nodes)]
    starts = np.searchsorted(cluster.workload, np.arange(len(cluster.workloads) + 1)).tolist()
    for index, workload in enumerate(cluster.workloads):
        labels = msgspec.Raw(encode(pod_labels(workload)))
        owner = msgspec.Raw(encode(pod_owner(workload, index)))
        spec = encode(pod_spec(workload, index))[1:-1]
        annotated = {"annotations": {cluster_autoscaler.SAFE_TO_EVICT.key: "false"}}
        annotations = annotated if workload.unmovable == "not-safe-to-evict" else {}
        for pod in range(starts[index], starts[index + 1]):
            ordinal, node = int(cluster.ordinal[pod]), int(cluster.node[pod])
            bound = encode(identity.pinned(names[node]) if workload.kind == "DaemonSet" else {}) if node >= 0 else b"{}"
            where = b'{"nodeName":' + encode(names[node]) + b"," if node >= 0 else b"{"
            more = b"," + bound[1:-1] if len(bound) > 2 else b""
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": identity.pod_name(workload, index, ordinal),
                    "namespace": workload.namespace,
                    "uid": identity.pod_uid(index, ordinal),
                    "creationTimestamp": CREATED,
                    "labels": labels,
                    **annotations,
                    "ownerReferences": owner,
                },
                "spec": msgspec.Raw(where + spec + more + b"}"),
                "status": _RUNNING if node >= 0 else _PENDING,
            }


_RUNNING = msgspec.Raw(
    msgspec.json.encode(
        {"phase": "Running", "startTime": CREATED, "conditions": [{"type": "Ready", "status": "True"}]},
    )
)
_PENDING = msgspec.Raw(
    msgspec.json.encode(
        {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        }
    )
)
