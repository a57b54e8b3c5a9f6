"""Evictions per second: the actuator's drains beside a bare loop of the eviction API, on the same control plane.

Usage: python -m tests.e2e.measure_evictions [NODES] [PODS_PER_NODE]. Pods are nobody's, so that nothing but evicting
is measured; the bare loop has as many threads as the actuator has for drains.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from actuator.kube.api import connect
from actuator.kube.live import KubeCluster
from tests.e2e import workloads
from tests.e2e.actuator_process import Json, apply, command, running, serving, until, wishes
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries

THREADS = 16


def fill(plane: ControlPlane, pool: str, node_count: int, pod_count: int) -> None:
    """Nodes with pods bound to them, running."""
    apply(plane, *workloads.nodes(pool, node_count, cpu="64", pool=pool))
    pods = [
        bound(workloads.bare_pod(f"{pool}-{node}-{number}", "10m", pool), f"{pool}-{node}")
        for node in range(1, node_count + 1)
        for number in range(pod_count)
    ]
    api = connect(plane.kubeconfig("admin"))
    from actuator.kube.api import Call

    with ThreadPoolExecutor(THREADS) as pool_of_threads:
        list(pool_of_threads.map(lambda pod: api.call(Call("POST", "/api/v1/namespaces/default/pods", body=pod)), pods))
    until(lambda: count(plane, pool, "status.phase=Running") == len(pods), 600, "pods running")


def bound(pod: Json, node: str) -> Json:
    """The pod on a node, without asking the scheduler."""
    pod["spec"] |= {"nodeName": node, "nodeSelector": {}, "terminationGracePeriodSeconds": 0}
    pod["metadata"]["labels"]["pool"] = node.rpartition("-")[0]
    return pod


def count(plane: ControlPlane, pool: str, field: str) -> int:
    """Pods of a pool."""
    return plane.kubectl("get", "pods", "-l", f"pool={pool}", "--field-selector", field, "-o", "name").count("\n")


def bare_loop(plane: ControlPlane, pool: str, node_count: int) -> float:
    """Seconds for evicting everything with nothing around it."""
    cluster = KubeCluster(connect(plane.kubeconfig("admin")))
    pods = [pod for node in range(1, node_count + 1) for pod in cluster.list_pods(f"{pool}-{node}")]
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda pod: cluster.evict(pod, None), pods))
    return time.perf_counter() - started


def drains(plane: ControlPlane, pool: str, node_count: int, directory: Path) -> tuple[float, str]:
    """Seconds from the request to the last eviction, and the actuator's memory."""
    groups = [workloads.group(pool, 1000, pool=pool)]
    options = command(plane, directory, groups, "--delay-after-taint=0", "--log-level=error")
    with running(directory, options) as (process, client):
        serving(process, client)
        started = time.perf_counter()
        client.start_deletion(wishes("all", [f"{pool}-{node}" for node in range(1, node_count + 1)]))
        tainted_s = time.perf_counter() - started
        until(lambda: count_evictions(client.get_status) == 0, 600, "drained")
        seconds = time.perf_counter() - started
        peak = next(line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmHWM" in line)
    return seconds, f"taints written after {tainted_s:.2f} s; {' '.join(peak.split())}"


def count_evictions(get_status: Callable[..., object]) -> int:
    """Pods that are still to go."""
    status = get_status(without_finished=True)
    return sum(one.state in (1, 2, 3) for one in status.deletions)  # type: ignore[attr-defined]


def main(node_count: int = 50, pod_count: int = 30) -> None:
    """Measure and print."""
    pods = node_count * pod_count
    with tempfile.TemporaryDirectory() as name, ControlPlane(cached_binaries(), Path(name) / "state") as plane:
        fill(plane, "bare", node_count, pod_count)
        seconds = bare_loop(plane, "bare", node_count)
        print(json.dumps({"what": "bare loop", "pods": pods, "evictions_per_s": round(pods / seconds)}), flush=True)
        fill(plane, "drained", node_count, pod_count)
        seconds, more = drains(plane, "drained", node_count, Path(name) / "actuator")
        print(json.dumps({"what": "drains", "pods": pods, "evictions_per_s": round(pods / seconds), "more": more}))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
