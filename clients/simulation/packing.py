"""How full nodes are, and with which workloads, at one time: a map of the cluster.

Decides the order, group then name, and that small nodes of very large clusters are left out. Amounts: cpu in
milli-cores, memory in bytes.
"""

from collections import defaultdict
from typing import Any, Final

from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.state import ClusterState

MOST_NODES: Final = 400


def packing(state: ClusterState, now_s: float) -> dict[str, Any]:
    """Return the nodes of a cluster with what workloads request on each, and how many nodes are left out. O(pods)."""
    nodes = []
    group_of = {name: one.group for name, one in state.instances.items()}
    chosen = sorted(state.nodes, key=lambda name: (group_of.get(name, ""), name))
    for name in chosen[:MOST_NODES]:
        info = state.nodes[name]
        cpu: dict[str, int] = defaultdict(int)
        for pod in info.pods.values():
            if not pod.terminal:
                cpu[_workload(pod)] += pod.requests.get("cpu", 0)
        nodes.append(
            {
                "name": name,
                "group": group_of.get(name, ""),
                "cpu": info.allocatable.get("cpu", 0),
                "cpuRequested": dict(sorted(cpu.items())),
                "memory": info.allocatable.get("memory", 0),
                "memoryRequested": info.used.get("memory", 0),
                "pods": len(info.pods),
            }
        )
    return {"time": now_s, "nodes": nodes, "leftOut": max(0, len(chosen) - MOST_NODES)}


def _workload(pod: SimulatedPod) -> str:
    """Return the name of the workload to which a pod belongs: its label `app`, else its controller, else
    its own name.
    """
    return str(pod.labels.get("app") or pod.owner.get("name") or pod.key[1])
