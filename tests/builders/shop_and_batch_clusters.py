"""Random clusters of two kinds of work, for measuring what scale-down saves. Nothing was tuned on them; they are unlike
those of `tests.builders.priced_clusters` in what runs, and in how it came to its nodes.

`shops` : many small services of a few replicas, kept apart by node or by zone, spread, and with a budget each, on
nodes rich in cores or in memory; placed on the least used node, as the scheduler does, before the night took half of
the replicas. `batch` : a few large pods of Jobs on each node, spot or on-demand, of several prices per core; packed in
the order of the nodes, before most Jobs ended; some keep files on their node, some must not be interrupted.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.builders.kubernetes import Json, daemon_set, job, node, node_group, pdb, pod, replica_set, toleration

ZONES = ("east-1", "east-2", "east-3")
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
SPOT = "spot"
AGENT = (100, 160)
"""Millis and MiB of the DaemonSet's pod on each node of a shop."""
FAMILIES = ((1.9, 0.0425), (3.8, 0.048), (7.6, 0.063))
"""GiB and dollars an hour per core: rich in cores, balanced, rich in memory."""
Use = tuple[int, int]


class ShopNode(NamedTuple):
    """A node: cores in millis, memory in MiB; spot : tainted, for those who tolerate it."""

    name: str
    cpu_milli: int
    memory_mib: int
    zone: str
    pool: str
    spot: bool = False

    def object(self) -> Json:
        """Return the node as Kubernetes prints it."""
        taints = [f"{SPOT}=true:NoSchedule"] if self.spot else []
        return node(self.name, f"{self.cpu_milli}m", f"{self.memory_mib}Mi", zone=self.zone, taints=taints)


class PodKind(NamedTuple):
    """Pods that are alike. apart : label of whose values each is held by one pod at most, "" = any number; skew : of
    zones, 0 = not spread; allowed : disruptions by its budget, -1 = it has none; local : keeps files on its node;
    pinned : must not be interrupted."""

    name: str
    cpu_milli: int
    memory_mib: int
    is_job: bool = False
    apart: str = ""
    skew: int = 0
    allowed: int = -1
    tolerates_spot: bool = False
    local: bool = False
    pinned: bool = False

    def controller(self, pods: int) -> Json:
        """Return its Job or ReplicaSet."""
        return job(self.name, pods, active=pods) if self.is_job else replica_set(self.name, pods)

    def object(self, number: int, where: str, owner: Json) -> Json:
        """Return a pod of this kind that runs on a node."""
        labels = {"app": self.name}
        of = {"labelSelector": {"matchLabels": labels}}
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [of | {"topologyKey": self.apart}]}
        spread = of | {"maxSkew": self.skew, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        return pod(
            f"{self.name}-{number}", f"{self.cpu_milli}m", f"{self.memory_mib}Mi", node=where, labels=labels,
            owner=owner, affinity={"podAntiAffinity": apart} if self.apart else None,
            spread=[spread] if self.skew else [],
            tolerations=[toleration(SPOT, operator="Exists")] if self.tolerates_spot else [],
            volumes=[{"name": "scratch", "emptyDir": {}}] if self.local else [],
            annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"} if self.pinned else None,
        )  # fmt: skip


class Packing:
    """Nodes that fill up with pods. better(used share, number of the node) : the node with the least is taken."""

    def __init__(self, nodes: Sequence[ShopNode], reserved: Use, better: Callable[[float, int], float]) -> None:
        self._nodes, self._better = nodes, better
        self._free = [[one.cpu_milli - reserved[0], one.memory_mib - reserved[1]] for one in nodes]
        self.placed: list[tuple[PodKind, int]] = []

    def _used(self, at: int) -> float:
        cpu, memory = self._free[at]
        return 1 - min(cpu / self._nodes[at].cpu_milli, memory / self._nodes[at].memory_mib)

    def _admits(self, kind: PodKind, at: int, others: Sequence[int]) -> bool:
        there = self._nodes[at]
        if self._free[at][0] < kind.cpu_milli or self._free[at][1] < kind.memory_mib:
            return False
        if there.spot and not kind.tolerates_spot:
            return False
        if kind.apart == HOST and at in others:
            return False
        zones = [self._nodes[other].zone for other in others]
        if kind.apart == ZONE and there.zone in zones:
            return False
        least = min(zones.count(zone) for zone in {one.zone for one in self._nodes})
        return not kind.skew or zones.count(there.zone) + 1 - least <= kind.skew

    def place(self, kind: PodKind) -> bool:
        """Place a pod on the best node that admits it."""
        others = [at for one, at in self.placed if one is kind]
        fits = [at for at in range(len(self._nodes)) if self._admits(kind, at, others)]
        if not fits:
            return False
        at = min(fits, key=lambda one: (self._better(self._used(one), one), one))
        self._free[at][0] -= kind.cpu_milli
        self._free[at][1] -= kind.memory_mib
        self.placed.append((kind, at))
        return True


class WorkCluster(NamedTuple):
    """placed : the kind and the node of each pod; prices and least sizes : by pool; agents : whether a DaemonSet
    runs."""

    nodes: list[ShopNode]
    placed: list[tuple[PodKind, int]]
    prices: dict[str, float]
    least: dict[str, int]
    agents: bool

    def objects(self) -> list[Json]:
        """Return the cluster as Kubernetes objects."""
        found = [one.object() for one in self.nodes]
        for pool, price in self.prices.items():
            mine = [one.name for one in self.nodes if one.pool == pool]
            if mine:
                least = min(self.least[pool], len(mine))
                found.append(node_group(pool, least, 60, nodes=mine, target=len(mine), price=price))
        for kind in dict.fromkeys(kind for kind, _ in self.placed):
            places = [at for one, at in self.placed if one is kind]
            owner = kind.controller(len(places))
            found.append(owner)
            found += [kind.object(number, self.nodes[at].name, owner) for number, at in enumerate(places)]
            if kind.allowed >= 0:
                found.append(pdb(kind.name, min(kind.allowed, len(places)), labels={"app": kind.name}))
        return [*found, *self._agents()]

    def _agents(self) -> Iterator[Json]:
        if self.agents:
            owner = daemon_set()
            yield owner
            for one in self.nodes:
                cpu, memory = f"{AGENT[0]}m", f"{AGENT[1]}Mi"
                yield pod(f"agent-{one.name}", cpu, memory, namespace="kube-system", node=one.name, owner=owner)


def shops(seed: int) -> WorkCluster:
    """Return 9 to 27 nodes of two or three families with two to four services for each node, by night."""
    random = Random(f"shops {seed}")
    types = [(family, random.choice((2, 4, 4, 8))) for family in random.sample(FAMILIES, random.choice((2, 2, 3)))]
    nodes, prices = [], {}
    for number in range(random.randint(9, 27)):
        at = number % len(types) if number < 3 * len(types) else random.randrange(len(types))
        (memory, price), cores = types[at]
        pool = f"shop-{at}-{ZONES[number % 3]}"
        prices[pool] = round(cores * price, 4)
        nodes.append(
            ShopNode(f"{pool}-{number:02}", 1000 * cores - 90, int(1024 * cores * memory), ZONES[number % 3], pool)
        )
    packing = Packing(nodes, AGENT, lambda used, _: round(used, 2))
    for number in range(random.randint(2, 4) * len(nodes)):
        replicas = random.choice((2, 2, 3, 3, 4, 6))
        rich = random.random() < 0.4
        kind = PodKind(
            f"shop-{number:02}", random.choice((50, 100, 150, 250, 400)) * (1 if rich else 3),
            random.choice((64, 128, 256, 384, 512)) * (6 if rich else 1), apart=_apart(random, replicas),
            skew=random.choice((0, 0, 0, 1, 2)), allowed=random.choice((-1, 1, 1, 1, 2)),
        )  # fmt: skip
        for _ in range(replicas):
            packing.place(kind)
    stay = random.uniform(0.35, 0.8)
    placed = [one for one in packing.placed if random.random() < stay]
    least = {pool: random.choice((0, 0, 0, 1)) for pool in sorted(prices)}
    return WorkCluster(nodes, placed, prices, least, agents=True)


def _apart(random: Random, replicas: int) -> str:
    if replicas <= len(ZONES) and random.random() < 0.15:
        return ZONE
    return HOST if random.random() < 0.5 else ""


def batch(seed: int) -> WorkCluster:
    """Return 8 to 30 nodes of 16 to 64 cores, most of whose Jobs have ended."""
    random = Random(f"batch {seed}")
    types = []
    for _ in range(random.choice((1, 2, 3, 3, 4))):
        spot = random.random() < 0.5
        factor = random.uniform(0.25, 0.5) if spot else random.uniform(0.9, 1.2)
        (memory, price), cores = random.choice(FAMILIES), random.choice((16, 32, 48, 64))
        types.append((cores, memory, round(cores * price * factor, 4), spot))
    nodes, prices = [], {}
    for number in range(random.randint(8, 30)):
        at = number % len(types) if number < len(types) else min(int(random.expovariate(0.8)), len(types) - 1)
        cores, memory, price, spot = types[at]
        prices[f"batch-{at}"] = price
        nodes.append(
            ShopNode(
                f"batch-{at}-{number:02}", 1000 * cores - 170, int(1024 * cores * memory * 0.95), random.choice(ZONES),
                f"batch-{at}", spot,
            )
        )  # fmt: skip
    packing = Packing(nodes, (0, 0), lambda _, at: at)
    failures = 0
    while failures < 12 and len(packing.placed) < 6 * len(nodes):
        kind = PodKind(
            f"job-{len(packing.placed):03}-{failures}", 500 * random.randint(3, 30), 512 * random.randint(4, 96),
            is_job=random.random() < 0.85, tolerates_spot=random.random() < 0.6, local=random.random() < 0.06,
            pinned=random.random() < 0.06,
        )  # fmt: skip
        placed = [packing.place(kind) for _ in range(random.choice((1, 1, 2, 4, 8)))]
        failures = 0 if any(placed) else failures + 1
    run = random.uniform(0.2, 0.7)
    still = {kind.name: random.random() < run for kind, _ in packing.placed}
    least = {pool: random.choice((0, 0, 1)) for pool in sorted(prices)}
    return WorkCluster(nodes, [one for one in packing.placed if still[one[0].name]], prices, least, agents=False)
