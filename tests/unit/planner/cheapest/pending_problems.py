"""Random pending pods and node groups like those of clouds: problems for the cheapest plan.

Groups: families of instances (memory per core), sizes, zones; price nearly linear in size, with a bend and noise;
kubelet reserves and DaemonSets subtracted. Pods: few or many classes, with round or arbitrary sizes.
"""

from random import Random

import numpy as np

from trimtab.planner.cheapest.problem import NO_ZONE, UNLIMITED, Problem, problem, with_node_limit

MIB = 1 << 20
CORES = (1, 2, 4, 8, 16, 32, 48, 64, 96)
CPU_MILLI = (50, 100, 100, 200, 250, 250, 500, 500, 1000, 1000, 1500, 2000, 4000, 8000)
MEMORY_MIB = (64, 128, 256, 256, 512, 512, 1024, 1024, 2048, 2048, 4096, 8192, 16384)


def random_problem(seed: int, groups: int | None = None, pods: int | None = None) -> Problem:
    """Return a problem of 3 to 50 groups in which every pod fits some node. Resources: cpu, memory, pods, gpu."""
    random = Random(seed)
    zones = random.choice([1, 1, 3])
    capacity, price, zone = _groups(random, groups or random.randint(3, 50), zones)
    count = _counts(random, pods or random.choice([10, 50, 200, 1000, 3000]))
    demand = np.array([_demand(random, capacity) for _ in count])
    fits = (demand[:, None, :] <= capacity[None]).all(axis=2)
    allowed = fits & np.array([_allowed(random, len(capacity), zone) for _ in count])
    allowed[~allowed.any(axis=1)] = True
    asked = problem(demand, np.array(count), allowed, capacity, price)
    per_node = np.array([random.choice([1, 1, 2]) if random.random() < 0.1 else UNLIMITED for _ in count])
    asked = asked._replace(per_node=per_node, zone=zone)
    if zones > 1 and random.random() < 0.5:
        asked = _spread(random, asked, zones)
    if random.random() < 0.2:
        asked = with_node_limit(asked, np.array([random.random() < 0.3 for _ in count]), random.choice([1, 2]))
    return asked


def karpenter_problem(pods: int, sizes: int = 400) -> Problem:
    """Return the shape of Karpenter's scheduling benchmark.

    A fifth of the pods each: plain, spread over zones, spread over host names, in one zone, apart by host name; of 30
    sizes. `sizes` sizes of instances in three zones, 2 GiB and ten pods a core, price linear in size.
    """
    sizes_of_pods = [(cpu, memory * MIB, 1, 0) for cpu in (100, 250, 500, 1000, 1500) for memory in _KARPENTER_MIB]
    kinds, shares = 5, np.diff(np.linspace(0, pods, 5 * len(sizes_of_pods) + 1).astype(int))
    demand = np.array(sizes_of_pods * kinds)
    cores = np.repeat(np.arange(1, sizes + 1), 3)
    capacity = np.stack([cores * 1000 - 100, cores * 2048 * MIB - 110 * MIB, cores * 10, 0 * cores], axis=1)
    kind = np.repeat(np.arange(kinds), len(sizes_of_pods))
    asked = problem(demand, shares, np.ones((len(demand), len(cores)), bool), capacity, 0.025 * cores + 0.002 * cores)
    zone = np.tile(np.arange(3, dtype=np.int32), sizes)
    most = np.full((len(demand), 3), UNLIMITED)
    spread = np.flatnonzero(kind == 1)
    most[spread] = (shares[spread][:, None] + (np.arange(3) + np.arange(len(spread))[:, None]) % 3) // 3
    most[kind == 3] = [UNLIMITED, 0, 0]
    asked = with_node_limit(asked._replace(zone=zone, zone_most=most), kind == 2, 1)
    return with_node_limit(asked, kind == 4, 1)


_KARPENTER_MIB = (100, 256, 512, 1024, 2048, 4096)


def _groups(random: Random, count: int, zones: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    bend, noise = random.choice([1.0, 1.0, 0.95, 1.05]), random.choice([0.0, 0.05, 0.2])
    rows, prices, zone = [], [], []
    while len(rows) < count:
        cores, gib = random.choice(CORES), random.choice([2, 4, 4, 8])
        gpus = random.choice([1, 4, 8]) if random.random() < 0.08 else 0
        reserved = 100 + 10 * cores + random.choice([0, 250])
        memory = int(cores * gib * 1024 * 0.93) - 300
        price = (0.02 * cores + 0.003 * cores * gib) ** bend * (1 + noise * random.random()) + 0.9 * gpus
        for at in range(zones) if random.random() < 0.5 else [random.randrange(zones)]:
            rows.append((cores * 1000 - reserved, memory * MIB, 110 if cores > 2 else 30, gpus))
            prices.append(round(price, 4))
            zone.append(at if zones > 1 else NO_ZONE)
    return np.array(rows[:count]), np.array(prices[:count]), np.array(zone[:count], np.int32)


def _counts(random: Random, pods: int) -> list[int]:
    classes = random.randint(1, min(60, pods))
    weights = [random.lognormvariate(0, 1.2) for _ in range(classes)]
    return [max(1, round(pods * weight / sum(weights))) for weight in weights]


def _demand(random: Random, capacity: np.ndarray) -> tuple[int, ...]:
    """Return a pod that fits at least the group with most cores."""
    largest = capacity[capacity[:, 0].argmax()]
    if random.random() < 0.5:
        cpu, memory = random.choice(CPU_MILLI), random.choice(MEMORY_MIB)
    else:
        cpu, memory = random.randint(20, 3000), random.randint(20, 6000)
    with_gpu = capacity[capacity[:, 3] > 0]
    if len(with_gpu) and random.random() < 0.1:
        largest = with_gpu[with_gpu[:, 0].argmax()]
        return min(cpu, int(largest[0])), min(memory * MIB, int(largest[1])), 1, 1
    return min(cpu, int(largest[0])), min(memory * MIB, int(largest[1])), 1, 0


def _allowed(random: Random, groups: int, zone: np.ndarray) -> np.ndarray:
    chance = random.random()
    if chance < 0.7:
        return np.ones(groups, bool)
    if chance < 0.85:
        return zone == zone[random.randrange(groups)]
    return np.array([random.random() < 0.6 for _ in range(groups)])


def _spread(random: Random, asked: Problem, zones: int) -> Problem:
    """Spread some classes evenly over the zones whose groups take them."""
    most = np.full((len(asked.pods), zones), UNLIMITED)
    fits = asked.allowed & (asked.demand[:, None, :] <= asked.capacity[None]).all(axis=2)
    for of_class in range(len(most)):
        may = [at for at in range(zones) if fits[of_class, asked.zone == at].any()]
        if may and random.random() < 0.4:
            most[of_class] = 0
            for turn, at in enumerate(may):
                most[of_class, at] = (int(asked.pods[of_class]) + turn) // len(may)
    return asked._replace(zone_most=most)
