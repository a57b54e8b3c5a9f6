"""Waiting pods like those of Karpenter's scheduling benchmark, few of them: plain, spread over zones or host names by
the labels of other pods, together in a zone, apart by host name; and a priced node group for each size in each zone.
"""

from random import Random
from typing import Any

from tests.builders.kubernetes import Json, anti_affinity, labelled, node, node_group, pod, pod_affinity, spread

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_CPUS = ("100m", "250m", "500m", "1", "1500m")
_MEMORIES = ("100Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi")


def diverse_pods(seed: int, most: int = 40, zones: int = 3) -> list[Json]:
    """Return 5 to `most` pods, of each kind about a fifth, and the node groups."""
    random = Random(seed)
    labels = "abcdefg"[: random.randint(1, 7)]
    pods = [_pod(random, number, labels) for number in range(random.randint(5, most))]
    sizes = sorted({*random.sample(range(1, 33), random.randint(1, 6)), 16})
    dearer = [1.0, *(random.choice((1.0, 1.0, 1.02, 1.2)) for _ in range(zones - 1))]
    return [*pods, *(_group(cores, zone, dearer[zone]) for cores in sizes for zone in range(zones))]


def _pod(random: Random, number: int, labels: str) -> Json:
    own, other = random.choice(labels), labelled(app=random.choice(labels))
    kinds: list[dict[str, Any]] = [
        {"labels": {"app": own}},
        {"labels": {"app": own}, "spread": [spread(other, topology_key=ZONE)]},
        {"labels": {"app": own}, "spread": [spread(other, topology_key=HOST)]},
        {"labels": {"with": own}, "affinity": pod_affinity({"matchLabels": {"with": own}}, topology_key=ZONE)},
        {"labels": {"apart": "yes"}, "affinity": anti_affinity(labelled(apart="yes"))},
    ]
    kind = kinds[number % len(kinds)]
    return pod(f"p{number:03}", random.choice(_CPUS), random.choice(_MEMORIES), **kind)


def _group(cores: int, zone: int, dearer: float) -> Json:
    template = node("t", f"{cores * 1000 - 100}m", f"{cores * 2048 - 10}Mi", zone=f"zone-{zone}")
    price = round(0.315 * cores * dearer, 4)
    return node_group(f"it-{cores}-{zone}", 0, 1000, target=0, nodes=[], price=price, template=template)
