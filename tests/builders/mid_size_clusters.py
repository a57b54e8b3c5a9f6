"""Random clusters of 8 to 25 nodes, and priced node groups of which new nodes may come: too many for exhaustion, few
enough for a mixed-integer programme (`tests/reference/replacement/money.py`).
"""

from random import Random
from typing import NamedTuple

from tests.builders.kubernetes import Json, node, node_group
from tests.builders.priced_clusters import ZONES, Filling, PricedCluster, PricedNode, Workload

SHAPES = ((2, 8), (4, 8), (4, 16), (4, 32), (8, 16), (8, 32), (8, 64), (16, 32), (16, 64), (32, 128))
"""Cores and GiB of machine types."""
MOST_NEW = 40
"""Nodes that any node group may have."""


class Offer(NamedTuple):
    """A node group: cores in millis, memory in MiB, price per hour, zone, taint key ("" = none)."""

    name: str
    cpu_milli: int
    memory_mib: int
    price: float
    zone: str
    taint: str


class MidSizeCluster(NamedTuple):
    """present : the nodes and their pods; offers : all node groups, those of the nodes among them."""

    present: PricedCluster
    offers: list[Offer]

    def objects(self) -> list[Json]:
        """Return the cluster as Kubernetes objects."""
        found = [one for one in self.present.objects() if one["kind"] != "NodeGroup"]
        for offer in self.offers:
            mine = [one.name for one in self.present.nodes if one.pool == offer.name]
            template = node(
                "t", f"{offer.cpu_milli}m", f"{offer.memory_mib}Mi", zone=offer.zone,
                taints=[f"{offer.taint}=yes:NoSchedule"] if offer.taint else [],
            )  # fmt: skip
            found.append(
                node_group(offer.name, 0, MOST_NEW, nodes=mine, target=len(mine), price=offer.price, template=template)
            )
        return found


def mid_size(seed: int, spread: bool = False, most_nodes: int = 25) -> MidSizeCluster:
    """Return a cluster at 25 to 75 % use, with up to three machine types of which there are no nodes. spread : whether
    some workloads are spread over zones."""
    random = Random(f"mid-size {seed}")
    offers = _offers(random, random.randint(3, 6), spread)
    bought = offers[: random.randint(max(1, len(offers) - 3), len(offers))]
    count = random.randint(8, most_nodes)
    nodes = []
    for number in range(count):
        offer = bought[number] if number < len(bought) else random.choice(bought)
        nodes.append(PricedNode(f"n{number:02}", *offer[1:4], offer.name, offer.zone, offer.taint, False))
    workloads = [
        Workload(
            f"w{number:02}", random.choice((100, 250, 400, 500, 750, 1000, 1500)),
            random.choice((128, 256, 512, 1024, 2048, 3000, 6000)), "dedicated" if random.random() < 0.4 else "",
            random.random() < 0.15, random.choice((0, 0, 1)) if spread else 0, -1,
        )
        for number in range(random.randint(4, 8))
    ]  # fmt: skip
    filling = Filling(random, nodes, workloads)
    filling.fill(random.uniform(0.25, 0.75))
    types = len({one[1:3] for one in offers})
    return MidSizeCluster(
        PricedCluster(nodes, workloads, filling.placed, types, {one.pool: 0 for one in nodes}), offers
    )


def _offers(random: Random, count: int, spread: bool) -> list[Offer]:
    """Return machine types at prices that differ from their sizes' worth by up to a third, each in one zone, or in all
    if pods are spread."""
    offers = []
    for number, (cores, memory) in enumerate(random.sample(SHAPES, count)):
        price = round((0.031 * cores + 0.0042 * memory) * random.uniform(0.7, 1.3), 4)
        taint = "dedicated" if number and random.random() < 0.2 else ""
        for zone in ZONES if spread and number < 2 else (random.choice(ZONES),):
            name = f"type{number}-{zone}"
            offers.append(Offer(name, 1000 * cores - 80, 1024 * memory - 300, price, zone, taint))
    return offers
