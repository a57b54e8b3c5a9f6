"""`--usage`: what pods really use, beside what they request. From a metrics file or a Prometheus; shown, and used for
advice, never decided on. Amounts: cpu in milli-cores, memory in bytes.

A file is one of: a PodMetricsList (`kubectl get --raw /apis/metrics.k8s.io/v1beta1/pods`), or two answers of
Prometheus' query API, as `{"cpu": ANSWER, "memory": ANSWER}`, in cores and bytes. An address (http://…) is asked with
the two queries below. Pods that the cluster does not have are named and left out.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.advice.levers.requests import DEFAULT_MARGIN, ContainerUse, PodContainers
from trimtab.clients.cli.amounts import byte_count, counted, percent, some
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.output import note
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.kubernetes.quantities import milli_units, quantity, whole_units

RANGE: Final = "7d"
QUERIES: Final[Mapping[str, str]] = {
    "cpu": "quantile_over_time(0.95, sum by (namespace, pod, container) "
    f'(rate(container_cpu_usage_seconds_total{{container!="",pod!=""}}[5m]))[{RANGE}:5m])',
    "memory": "quantile_over_time(0.95, sum by (namespace, pod, container) "
    f'(container_memory_working_set_bytes{{container!="",pod!=""}})[{RANGE}:5m])',
}
"""The 95th percentile by container: of cores, and of bytes. The metrics are cAdvisor's, as every kubelet has them. A
pod's use is the sum over its containers."""
TIMEOUT_S: Final = 60.0
MOST_ANSWER_BYTES: Final = 1 << 28


class PodUsage(NamedTuple):
    """What one pod uses."""

    cpu_milli: int
    memory_bytes: int


class ClusterUsage(NamedTuple):
    """What the pods of a cluster use, by "namespace/name"; source : where the figures are from; containers : the same
    by container, "" = of the whole pod; margin : share of the use that requests keep above it where advice lowers them.
    """

    pods: Mapping[str, PodUsage]
    source: str
    containers: PodContainers
    margin: float = DEFAULT_MARGIN


class WorkloadUsage(NamedTuple):
    """What the pods of one controller request and use; only pods with figures count."""

    owner: str
    pods: int
    requested: PodUsage
    used: PodUsage


def read_usage(where: str, view: ClusterView, margin: float = DEFAULT_MARGIN) -> ClusterUsage:
    """Read the usage of a cluster's pods from a file, or from the Prometheus at an address. margin : see
    `ClusterUsage`. Errors: UsageError, FailedError.
    """
    if where.startswith(("http://", "https://")):
        found, source = _asked(where.rstrip("/")), f"95 % of the time in {RANGE}, {where}"
    else:
        found, source = _of_file(Path(where)), Path(where).name
    known = set(view.pod_keys)
    unknown = sorted(found.keys() - known)
    if unknown:
        note(f"--usage: {counted(len(unknown), 'pod')} not in the cluster left out ({some(unknown, 2)})")
    kept = {key: value for key, value in found.items() if key in known}
    if not kept:
        raise UsageError(f"--usage {where}: it has no pod of the cluster")
    pods = {key: _sum_of(containers) for key, containers in kept.items()}
    return ClusterUsage(pods, source, kept, margin)


def _sum_of(containers: Mapping[str, ContainerUse]) -> PodUsage:
    every = containers.values()
    return PodUsage(sum(one.cpu_milli for one in every), sum(one.memory_bytes for one in every))


def by_workload(view: ClusterView, usage: ClusterUsage) -> list[WorkloadUsage]:
    """Return the workloads, those whose requests exceed their use most first. O(pods)."""
    requested: dict[str, Counter[str]] = defaultdict(Counter)
    for key, used in usage.pods.items():
        pod = view.pod(key)
        assert pod is not None, "pods of the cluster alone are kept"
        if not pod.node:
            continue
        sums, amounts = requested[view.controller_text(key)], view.requests(pod)
        sums.update(pods=1, cpu=amounts.get("cpu", 0), memory=amounts.get("memory", 0))
        sums.update(used_cpu=used.cpu_milli, used_memory=used.memory_bytes)
    found = [
        WorkloadUsage(
            owner, sums["pods"], PodUsage(sums["cpu"], sums["memory"]), PodUsage(sums["used_cpu"], sums["used_memory"])
        )
        for owner, sums in requested.items()
    ]
    return sorted(found, key=lambda one: (one.used.cpu_milli - one.requested.cpu_milli, one.owner))


def usage_sentence(view: ClusterView, usage: ClusterUsage) -> str:
    """Return what is requested and used of the cluster, and that no decision rests on it."""
    rows = by_workload(view, usage)
    sums = {
        "cpu": (sum(row.requested.cpu_milli for row in rows), sum(row.used.cpu_milli for row in rows)),
        "memory": (sum(row.requested.memory_bytes for row in rows), sum(row.used.memory_bytes for row in rows)),
    }
    whole = {name: sum(view.allocatable(node).get(name, 0) for node in view.nodes) for name in sums}
    parts = [
        f"{name}: {percent(requested / whole[name])} requested, {percent(used / whole[name])} used"
        for name, (requested, used) in sums.items()
        if whole[name]
    ]
    pods = counted(sum(row.pods for row in rows), "pod")
    return f"{'; '.join(parts)} ({pods} with figures, {usage.source}). The plan rests on requests alone."


def usage_cells(usage: WorkloadUsage) -> tuple[str, ...]:
    """Return a row for tables: workload, pods, cpu and memory requested and used."""
    return (
        usage.owner,
        f"{usage.pods:,}",
        f"{usage.requested.cpu_milli / 1000:,.1f}",
        f"{usage.used.cpu_milli / 1000:,.1f}",
        byte_count(usage.requested.memory_bytes),
        byte_count(usage.used.memory_bytes),
    )


USAGE_COLUMNS: Final = ("workload", "pods", "cores requested", "used", "memory requested", "memory used")


def _of_file(path: Path) -> PodContainers:
    """Read a file. Errors: UsageError."""
    try:
        document = json.loads(read_text(path, "; JSON is expected", "utf-8-sig"))
        return _pod_metrics(document) if "items" in document else _answers(document)
    except UnreadableTextError as error:
        raise UsageError(f"--usage {path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        told = "a PodMetricsList, or {cpu: …, memory: …} with answers of Prometheus, is expected"
        raise UsageError(f"--usage {path}: {told} ({error})") from None


def _pod_metrics(document: Mapping[str, Any]) -> PodContainers:
    """Return the containers of a PodMetricsList."""
    return {
        f"{item['metadata']['namespace']}/{item['metadata']['name']}": {
            container["name"]: ContainerUse(
                milli_units(quantity(container["usage"].get("cpu", "0"))),
                whole_units(quantity(container["usage"].get("memory", "0"))),
            )
            for container in item["containers"]
        }
        for item in document["items"]
    }


def _answers(document: Mapping[str, Any]) -> PodContainers:
    """Return the containers in two answers of Prometheus."""
    cpu, memory = (_vector(document[name]) for name in ("cpu", "memory"))
    found: dict[str, dict[str, ContainerUse]] = defaultdict(dict)
    for key, container in sorted(cpu.keys() | memory.keys()):
        cores, of_memory = cpu.get((key, container), 0.0), memory.get((key, container), 0.0)
        found[key][container] = ContainerUse(round(1000 * cores), round(of_memory))
    return found


def _vector(answer: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return the values of an instant vector by pod and container; container "" = of the whole pod."""
    if answer["status"] != "success" or answer["data"]["resultType"] != "vector":
        raise ValueError(f"an answer is no vector: {answer.get('error', answer['status'])}")
    return {
        (f"{one['metric']['namespace']}/{one['metric']['pod']}", one["metric"].get("container", "")): float(
            one["value"][1]
        )
        for one in answer["data"]["result"]
        if one["value"][1] not in ("NaN", "+Inf", "-Inf")
    }


def _asked(address: str) -> PodContainers:
    """Ask a Prometheus. Errors: FailedError."""
    try:
        return _answers({name: _query(address, text) for name, text in QUERIES.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FailedError(f"--usage {address}: no usable answer of a Prometheus: {error}") from None


def _query(address: str, text: str) -> Any:
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read(MOST_ANSWER_BYTES))
