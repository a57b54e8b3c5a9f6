"""Evictions per second: the actuator's drains compared with a plain loop of eviction calls on the same control plane.

Pods are nobody's, so that nothing but evicting is measured; the bare loop has as many threads as the actuator has for
drains. Calls are counted by the API server itself. Prints one JSON object a line.
"""

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.e2e import workloads
from tests.e2e.actuator_process import Json, apply, command, deletion_of, running, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from trimtab.actuator.kube.api import Call, KubeApi, connect
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.settings import DrainSettings
from trimtab.actuator.tracker.states import State

THREADS = DrainSettings().thread_count
LIMIT_S = 1200
BUSY = (State.PLANNED, State.TAINTED, State.DRAINING)
# What the actuator asks of the server, apart from its cloud; nobody else here asks the same.
CALLS = {
    "evictions": ("POST", "pods", "eviction"),
    "taints": ("PATCH", "nodes", ""),
    "lists of pods": ("LIST", "pods", ""),
    "lists of nodes": ("LIST", "nodes", ""),
    "gets of nodes": ("GET", "nodes", ""),
}
SAMPLE = re.compile(r"^apiserver_request_total\{(.*)\} ([0-9.e+]+)$", re.MULTILINE)


def fill(plane: ControlPlane, api: KubeApi, pool: str, node_count: int, pod_count: int) -> None:
    """Nodes with pods bound to them, running."""
    apply(plane, *workloads.nodes(pool, node_count, cpu="64", pool=pool))
    pods = [
        bound(workloads.bare_pod(f"{pool}-{node}-{number}", "10m", pool), f"{pool}-{node}")
        for node in range(1, node_count + 1)
        for number in range(pod_count)
    ]
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda pod: api.call(Call("POST", "/api/v1/namespaces/default/pods", body=pod)), pods))
    waiting = {"labelSelector": f"pool={pool}", "fieldSelector": "status.phase!=Running", "limit": "1"}
    call = Call("GET", "/api/v1/namespaces/default/pods", waiting)
    until(lambda: not api.json(call)["items"], LIMIT_S, "pods running")


def bound(pod: Json, node: str) -> Json:
    """The pod on a node, without asking the scheduler."""
    pod["spec"] |= {"nodeName": node, "nodeSelector": {}, "terminationGracePeriodSeconds": 0}
    pod["metadata"]["labels"]["pool"] = node.rpartition("-")[0]
    return pod


def calls(api: KubeApi) -> Counter[str]:
    """How often each of `CALLS` was made so far, as the server counts."""
    found: Counter[str] = Counter()
    for labels, number in SAMPLE.findall(api.call(Call("GET", "/metrics", timeout_s=60)).decode()):
        by_name = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        key = by_name["verb"], by_name["resource"], by_name["subresource"]
        for name, wanted in CALLS.items():
            found[name] += int(float(number)) if key == wanted else 0
    return found


def bare_loop(plane: ControlPlane, pool: str, node_count: int) -> float:
    """Seconds for evicting everything with nothing around it."""
    api = connect(plane.kubeconfig("admin"))
    cluster = KubeCluster(api)
    pods = [pod for node in range(1, node_count + 1) for pod in cluster.list_pods(f"{pool}-{node}")]
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda pod: cluster.evict(pod, None), pods))
    seconds = time.perf_counter() - started
    api.close()
    return seconds


def drains(plane: ControlPlane, pool: str, node_count: int, directory: Path) -> tuple[float, Json]:
    """Seconds from the request to the last eviction, and more about the actuator."""
    groups = [workloads.group(pool, 10 * node_count, pool=pool)]
    limits = (f"--max-parallelism={node_count}", f"--max-drain-parallelism={node_count}")
    options = command(plane, directory, groups, "--delay-after-taint=0", "--log-level=error", *limits)
    with running(directory, options) as (process, client):
        serving(process, client)
        started = time.perf_counter()
        answer = client.start_deletion(deletion_of("all", [f"{pool}-{node}" for node in range(1, node_count + 1)]))
        tainted_s = time.perf_counter() - started
        refused = [f"{one.node}: {one.detail}" for one in answer.nodes if not one.accepted]
        assert refused == [], refused[:3]
        until(lambda: busy(client.get_status) == 0, LIMIT_S, "drained")
        seconds = time.perf_counter() - started
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        cpu = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    peak_kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    cpu_s = (int(cpu[11]) + int(cpu[12])) / 100
    return seconds, {"tainted_s": round(tainted_s, 2), "peak_rss_mib": peak_kib // 1024, "cpu_s": cpu_s}


def busy(get_status: Callable[..., Any]) -> int:
    """How many drains are not over."""
    return sum(State(one.state) in BUSY for one in get_status(without_finished=True).deletions)


def main(
    nodes: Annotated[int, typer.Argument(min=1, help="nodes that are drained at the same time")] = 50,
    pods: Annotated[int, typer.Argument(min=1, max=100, help="pods on each of them")] = 30,
    binaries: Annotated[Path | None, typer.Option(help="the control plane; none = where .ci/e2e builds it")] = None,
) -> None:
    """Measure evictions per second of a bare loop, and of the actuator's drains with its memory and its calls."""
    binaries, count = binaries or cached_binaries(), nodes * pods
    if not (binaries / "kube-apiserver").exists():
        raise typer.BadParameter(f"{binaries} has no control plane; run tests/e2e/control_plane/build.sh {binaries}")
    with tempfile.TemporaryDirectory() as name, ControlPlane(binaries, Path(name) / "state") as plane:
        api = connect(plane.kubeconfig("admin"))
        fill(plane, api, "bare", nodes, pods)
        bare_s = bare_loop(plane, "bare", nodes)
        tell(
            {"what": "bare loop", "pods": count, "seconds": round(bare_s, 2), "evictions_per_s": round(count / bare_s)}
        )
        fill(plane, api, "drained", nodes, pods)
        before = calls(api)
        seconds, more = drains(plane, "drained", nodes, Path(name) / "actuator")
        made = calls(api) - before
        api.close()
        speed = {"evictions_per_s": round(count / seconds), "of_bare_loop": round(bare_s / seconds, 2)}
        tell({"what": "drains", "pods": count, "seconds": round(seconds, 2), **speed, **more, "calls": dict(made)})


def tell(line: Json) -> None:
    """Print a line immediately."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    typer.run(main)
