"""Random clusters that can grow, some of whose pods are in gangs: with every scheduling constraint, running members,
topology keys, groups that are missing, and minimums above the number of pods.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from tests.builders import random_rows
from tests.builders.random_growth import growing_cluster
from tests.builders.rows import PodRow
from tests.builders.snapshots import Cluster
from trimtab.planner.model.values import PodGroup

NAMES = ("g1", "g2", "g3")


def gang_cluster(seed: int, most_pending: int = 24) -> Cluster:
    """Return a cluster; equal pods are often in one gang."""
    cluster, random = growing_cluster(seed, most_pending), Random(seed + 1)
    pods, last = {}, ("", None)
    for key, pod in cluster.pods.items():
        if last[1] != pod.spec:
            last = (random.choice(("", *NAMES)), pod.spec)
        name = last[0] if random.random() < 0.8 else random.choice(("", *NAMES))
        pods[key] = pod._replace(pod_group=name, created_s=random.choice((0, 0, 100, 200)))
    groups = {}
    for namespace in random_rows.NAMESPACES:
        for name in NAMES:
            if random.random() < 0.1:
                continue
            problem = "spec is unreadable" if random.random() < 0.05 else ""
            groups[namespace, name] = (
                PodGroup(namespace, name, f"PodGroup/{namespace}/{name}", problem)
                if problem
                else PodGroup(
                    namespace,
                    name,
                    f"PodGroup/{namespace}/{name}",
                    min_count=random.choice((0, 1, 2, 2, 3, 4, 6)),
                    topology_key=random.choice(("", "", "", random_rows.ZONE, random_rows.HOST)),
                    moves_whole=random.random() < 0.3,
                    priority=random.choice((None, None, 5, *_priorities(pods, namespace, name))),
                )
            )
    return replace(cluster, pods=pods, pod_groups=groups)


def _priorities(pods: Mapping[tuple[str, str], PodRow], namespace: str, group: str) -> list[int]:
    """Return the priority of a group's pods twice, if all have one."""
    found = {pod.spec.priority for (space, _), pod in pods.items() if (space, pod.pod_group) == (namespace, group)}
    return [*found, *found] if len(found) == 1 else []
