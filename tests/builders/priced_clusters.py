"""Random clusters of nodes with different prices, for measuring what scale-down saves. They share nothing with
`trimtab.clients.cluster_generator`.

`mixed_pools` : pools of several machine types, one dollar buying more cores in one than in the other, with taints,
budgets, zonal spread and anti-affinity, filled by a scheduler that takes any node. `shrunk_fleet` : a fleet bought at
its peak for spot and on-demand prices, from which Deployments then lost most of their pods; odd requests, nodes bound
by memory or by cores.
"""

from random import Random
from typing import NamedTuple

from tests.builders.kubernetes import Json, node, node_group, pdb, pod, replica_set

ZONES = ("a", "b", "c")
ZONE_LABEL = "topology.kubernetes.io/zone"


class PricedNode(NamedTuple):
    """A node: cores in millis, memory in MiB, price per hour, pool, zone, taint key ("" = none)."""

    name: str
    cpu_milli: int
    memory_mib: int
    price: float
    pool: str
    zone: str
    taint: str
    stays: bool


class Workload(NamedTuple):
    """Pods that are alike. tolerates : the taint that they tolerate; apart : at most one on a node; skew : of zones,
    0 = none; allowed : disruptions by its budget, -1 = it has none."""

    name: str
    cpu_milli: int
    memory_mib: int
    tolerates: str
    apart: bool
    skew: int
    allowed: int


class PricedCluster(NamedTuple):
    """placed : (workload, node) of each pod; types : how many machine types; keeps : nodes that a pool keeps."""

    nodes: list[PricedNode]
    workloads: list[Workload]
    placed: list[tuple[int, int]]
    types: int
    keeps: dict[str, int]

    def objects(self) -> list[Json]:
        """Return the cluster as Kubernetes objects."""
        owners = [
            replica_set(one.name, sum(of == at for of, _ in self.placed)) for at, one in enumerate(self.workloads)
        ]
        found: list[Json] = [*owners]
        found += [
            node(
                one.name, f"{one.cpu_milli}m", f"{one.memory_mib}Mi", zone=one.zone,
                taints=[f"{one.taint}=yes:NoSchedule"] if one.taint else [],
            )
            for one in self.nodes
        ]  # fmt: skip
        for pool in dict.fromkeys(one.pool for one in self.nodes):
            mine = [one for one in self.nodes if one.pool == pool and not one.stays]
            if mine:
                found.append(
                    node_group(
                        pool, self.keeps[pool], 99, nodes=[one.name for one in mine], target=len(mine),
                        price=mine[0].price,
                    )
                )  # fmt: skip
        found += [pdb(one.name, one.allowed, labels={"app": one.name}) for one in self.workloads if one.allowed >= 0]
        found += [self._pod(number, *row, owners[row[0]]) for number, row in enumerate(self.placed)]
        return found

    def _pod(self, number: int, of: int, at: int, owner: Json) -> Json:
        one = self.workloads[of]
        labels = {"app": one.name}
        selector = {"labelSelector": {"matchLabels": labels}}
        apart = {
            "requiredDuringSchedulingIgnoredDuringExecution": [selector | {"topologyKey": "kubernetes.io/hostname"}]
        }
        spread = selector | {"maxSkew": one.skew, "topologyKey": ZONE_LABEL, "whenUnsatisfiable": "DoNotSchedule"}
        return pod(
            f"p{number:04}", f"{one.cpu_milli}m", f"{one.memory_mib}Mi", node=self.nodes[at].name, labels=labels,
            owner=owner, affinity={"podAntiAffinity": apart} if one.apart else None,
            spread=[spread] if one.skew else [],
            tolerations=[{"key": one.tolerates, "operator": "Exists"}] if one.tolerates else [],
        )  # fmt: skip


class Filling:
    """Places pods while the scheduler's rules allow it."""

    def __init__(self, random: Random, nodes: list[PricedNode], workloads: list[Workload]) -> None:
        self._random, self._nodes, self._workloads = random, nodes, workloads
        self.free = [[one.cpu_milli, one.memory_mib, 100] for one in nodes]
        self.placed: list[tuple[int, int]] = []

    def _admits(self, of: int, at: int) -> bool:
        one, there = self._workloads[of], self._nodes[at]
        free = self.free[at]
        if free[0] < one.cpu_milli or free[1] < one.memory_mib or not free[2]:
            return False
        if there.taint and there.taint != one.tolerates:
            return False
        if one.apart and (of, at) in self.placed:
            return False
        if one.skew:
            zones = {other.zone: 0 for other in self._nodes if not other.taint or other.taint == one.tolerates}
            for row, where in self.placed:
                if row == of:
                    zones[self._nodes[where].zone] += 1
            return zones[there.zone] + 1 - min(zones.values()) <= one.skew
        return True

    def place(self, of: int) -> bool:
        """Place a pod on some node that admits it."""
        fits = [at for at in range(len(self._nodes)) if self._admits(of, at)]
        if not fits:
            return False
        at = self._random.choice(fits)
        one = self._workloads[of]
        self.free[at][0] -= one.cpu_milli
        self.free[at][1] -= one.memory_mib
        self.free[at][2] -= 1
        self.placed.append((of, at))
        return True

    def fill(self, use: float) -> None:
        """Place pods of random workloads until cores or memory are used to this share, or nothing fits."""
        cores, memory = sum(one.cpu_milli for one in self._nodes), sum(one.memory_mib for one in self._nodes)
        failures = 0
        while failures < 40 and len(self.placed) < 30 * len(self._nodes):
            used = 1 - sum(free[0] for free in self.free) / cores, 1 - sum(free[1] for free in self.free) / memory
            if max(used) >= use:
                return
            failures = 0 if self.place(self._random.randrange(len(self._workloads))) else failures + 1


def mixed_pools(seed: int) -> PricedCluster:
    """Return 10 to 40 nodes of one to five machine types at 25 to 65 % use."""
    random = Random(f"pools {seed}")
    types = random.choice((1, 2, 2, 3, 3, 4, 5))
    count = random.randint(10, 40)
    kinds = []
    for number in range(types):
        cores = random.choice((2, 4, 8, 16, 32))
        ratio = random.choice((1, 2, 4, 8))
        taint = "dedicated" if number and random.random() < 0.2 else ""
        kinds.append((cores, ratio, round(cores * random.choice((0.01, 0.03, 0.05, 0.12)), 4), taint))
    nodes = []
    for number in range(count):
        of = number % types if number < types else random.randrange(types)
        cores, ratio, price, taint = kinds[of]
        nodes.append(
            PricedNode(
                f"n{number:02}", 1000 * cores - 80, 1024 * cores * ratio - 300, price, f"pool-{of}",
                random.choice(ZONES), taint, random.random() < 0.08,
            )
        )  # fmt: skip
    workloads = [
        Workload(
            f"w{number:02}", random.choice((50, 100, 250, 400, 500, 750, 1000, 1500)),
            random.choice((64, 128, 256, 512, 1024, 2048, 3000)), "dedicated" if random.random() < 0.3 else "",
            random.random() < 0.1, random.choice((0, 0, 0, 0, 1, 2)),
            random.choice((-1, -1, -1, 1, 3, 8)),
        )
        for number in range(random.randint(4, 14))
    ]  # fmt: skip
    filling = Filling(random, nodes, workloads)
    use = random.uniform(0.25, 0.65)
    filling.fill(use)
    keeps = {one.pool: random.choice((0, 0, 0, 1, 2)) for one in nodes}
    return PricedCluster(nodes, workloads, filling.placed, types, keeps)


def shrunk_fleet(seed: int) -> PricedCluster:
    """Return 10 to 40 nodes of one to six pools, which were nearly full; then workloads lost 30 to 90 % of their
    pods."""
    random = Random(f"fleet {seed}")
    shapes = random.sample(
        ((4, 8), (4, 16), (4, 32), (8, 16), (8, 32), (16, 64), (48, 96), (2, 4)), random.randint(1, 3)
    )
    offers = [(shape, factor) for shape in shapes for factor in random.sample((1.0, 0.3, 0.37), random.randint(1, 2))]
    count = random.randint(10, 40)
    nodes = []
    for number in range(count):
        of = number % len(offers) if number < len(offers) else min(int(random.expovariate(1.0)), len(offers) - 1)
        (cores, memory), factor = offers[of]
        price = round((0.031 * cores + 0.0042 * memory) * factor, 5)
        nodes.append(
            PricedNode(
                f"node-{number:02}", 940 * cores, 1024 * memory * 9 // 10, price, f"offer-{of}", ZONES[number % 3], "",
                random.random() < 0.05,
            )
        )  # fmt: skip
    workloads = [
        Workload(
            f"app-{number:02}", 10 * random.randint(3, 160), 16 * random.randint(4, 220), "",
            random.random() < 0.15, random.choice((0, 0, 0, 0, 0, 1)), random.choice((-1, -1, -1, -1, 2, 12)),
        )
        for number in range(random.randint(6, 25))
    ]  # fmt: skip
    filling = Filling(random, nodes, workloads)
    filling.fill(random.uniform(0.75, 0.9))
    stays = [random.uniform(0.1, 0.7) for _ in workloads]
    placed = [(of, at) for of, at in filling.placed if random.random() < stays[of] or workloads[of].skew]
    keeps = {one.pool: random.choice((0, 0, 1)) for one in nodes}
    return PricedCluster(nodes, workloads, placed, len(offers), keeps)
