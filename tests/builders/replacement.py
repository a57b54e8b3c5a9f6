"""A decision on replacement from plain objects, verified by the certificate before a test checks it; small random
clusters, and the cheapest clusters that hold their pods, by exhaustion.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from tests.builders.money import Money, money_of
from tests.certificates.replacement import offences
from trimtab.clients.verdicts import not_replaced
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, reason_pb2

NOW_S = 1_800_000_000
WEB = replica_set("web", 9)


class Outcome(NamedTuple):
    """A decision as plain names."""

    decision: plan_pb2.ReplacementDecision
    answer: plan_pb2.PlanResponse

    @property
    def cost(self) -> Money:
        """Return what the cluster costs."""
        return money_of(self.answer)

    @property
    def waves(self) -> list[tuple[list[str], list[str]]]:
        """Return the nodes that leave, and the groups of the new nodes, wave by wave."""
        return [
            (sorted(one.node for one in wave.leaving), sorted(one.node_group for one in wave.new_nodes))
            for wave in self.decision.waves
        ]

    @property
    def result(self) -> str:
        return reason_pb2.ReplacementResult.Code.Name(self.decision.result).removeprefix("REPLACEMENT_")

    @property
    def kept(self) -> dict[str, str]:
        """Return why nodes stay."""
        name = reason_pb2.ReplacementLimit.Code.Name
        return {one.node: name(one.not_replaced.reason) for one in not_replaced(self.answer)}


def plan(
    *objects: Json | Sequence[Json],
    settings: Json | None = None,
    more: Json | None = None,
    state: plan_pb2.PlanState | None = None,
    now_s: int = NOW_S,
    time_left: Callable[[], bool] | None = None,
) -> Outcome:
    """Decide on Kubernetes objects. settings : of replacement; more : other settings."""
    message = snapshot_of(*objects)
    given = ParseDict({"replacement": settings or {}} | (more or {}), plan_pb2.PlanSettings())
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.REPLACEMENT], settings=given)
    request.now.seconds = now_s
    snapshot = planned_snapshot(canonicalize(message)).snapshot
    answer = take_decisions(snapshot, request, state, Work(time_left=time_left))
    assert (bad := offences(message, given, answer, now_s)) == [], (bad, answer.replacement.detail)
    return Outcome(answer.replacement, answer)


def web(name: str, node_name: str, cpu: str = "1", memory: str = "1Gi", **more: object) -> Json:
    """Return a pod of a ReplicaSet on a node."""
    return pod(name, cpu, memory, **({"node": node_name, "owner": WEB} | more))


def group(
    name: str, cpu: str, memory: str, price: float | None, nodes: Sequence[str] = (), **more: object
) -> list[Json]:
    """Return a node group with its nodes, all of the size of its template."""
    sizes = {"min_size": 0, "max_size": 20, "target": len(nodes)} | more
    priced = {} if price is None else {"price": price}
    made = node_group(name, nodes=list(nodes), template=node("t", cpu, memory), **priced, **sizes)  # type: ignore[arg-type]
    return [made, *(node(one, cpu, memory) for one in nodes)]


class Size(NamedTuple):
    """A node of a node group: cores in millis, memory in MiB, price per hour."""

    cpu_milli: int
    memory_mib: int
    price: float


SIZES = {
    "s": Size(4000, 16384, 0.2),
    "m": Size(8000, 32768, 0.41),
    "l": Size(16000, 65536, 0.78),
    "c": Size(8000, 16384, 0.30),
    "r": Size(4000, 32768, 0.27),
}


class SmallCluster(NamedTuple):
    """nodes : group of each; pods : (cores in millis, memory in MiB) of the pods of each node."""

    nodes: list[str]
    pods: list[list[tuple[int, int]]]

    def objects(self) -> list[Json]:
        """Return the cluster as Kubernetes objects."""
        found: list[Json] = [WEB]
        for name, size in SIZES.items():
            mine = [f"n{i}" for i, one in enumerate(self.nodes) if one == name]
            found += group(name, f"{size.cpu_milli}m", f"{size.memory_mib}Mi", size.price, mine)
        found += [
            web(f"p{i}-{j}", f"n{i}", f"{cpu}m", f"{memory}Mi")
            for i, pods in enumerate(self.pods)
            for j, (cpu, memory) in enumerate(pods)
        ]
        return found


def small_cluster(random: Random, most_nodes: int = 6, most_pods: int = 12) -> SmallCluster:
    """Return nodes of several sizes, hardly used."""
    nodes = [random.choice(sorted(SIZES)) for _ in range(random.randint(2, most_nodes))]
    pods, left = [], most_pods
    for name in nodes:
        cpu_left, memory_left, here = SIZES[name].cpu_milli, SIZES[name].memory_mib, []
        for _ in range(random.randint(0, min(4, left))):
            cpu, memory = random.choice([250, 500, 1000, 2000, 3000]), random.choice([512, 1024, 2048, 4096, 8192])
            if cpu <= cpu_left and memory <= memory_left:
                here.append((cpu, memory))
                cpu_left, memory_left, left = cpu_left - cpu, memory_left - memory, left - 1
        pods.append(here)
    return SmallCluster(nodes, pods)


class StayingNodes(NamedTuple):
    """Some nodes stay. pods : those of the others, largest first; free : room of each node; price : of all of them."""

    pods: list[tuple[int, int]]
    free: list[tuple[int, int]]
    price: float


def all_choices(cluster: SmallCluster) -> Iterator[StayingNodes]:
    """Yield every set of nodes that may stay."""
    count = len(cluster.nodes)
    for bits in range(1 << count):
        stays = [i for i in range(count) if bits >> i & 1]
        moved = sorted((one for i in range(count) if i not in stays for one in cluster.pods[i]), reverse=True)
        free = [
            (
                SIZES[cluster.nodes[i]].cpu_milli - sum(cpu for cpu, _ in cluster.pods[i]),
                SIZES[cluster.nodes[i]].memory_mib - sum(memory for _, memory in cluster.pods[i]),
            )
            for i in stays
        ]
        yield StayingNodes(moved, free, sum(SIZES[cluster.nodes[i]].price for i in stays))


def least_price(cluster: SmallCluster) -> float:
    """Return the price of the cheapest cluster that some set of leaving nodes leads to, by trying everything."""
    best = sum(SIZES[one].price for one in cluster.nodes)
    for one in all_choices(cluster):
        best = _packed(one.pods, one.free, one.price, best, {})
    return best


def fewest_moves(cluster: SmallCluster, price: float) -> int:
    """Return how many pods must move for the cluster to cost no more than this, by trying everything."""
    best = sum(map(len, cluster.pods)) + 1
    for one in all_choices(cluster):
        if len(one.pods) < best and _packed(one.pods, one.free, one.price, price + 1e-6, {}) <= price + 1e-9:
            best = len(one.pods)
    return best


def _packed(
    pods: list[tuple[int, int]],
    free: list[tuple[int, int]],
    price: float,
    best: float,
    seen: dict[tuple[int, tuple[tuple[int, int], ...]], float],
) -> float:
    """Return the least price at which all pods have a place, or `best` if that is not lower."""
    if price >= best - 1e-12:
        return best
    if not pods:
        return price
    key = (len(pods), tuple(sorted(free)))
    if seen.get(key, price + 1) <= price:
        return best
    seen[key] = price
    (cpu, memory), rest = pods[0], pods[1:]
    for room in sorted(set(free)):
        if cpu <= room[0] and memory <= room[1]:
            others = list(free)
            others.remove(room)
            best = _packed(rest, [*others, (room[0] - cpu, room[1] - memory)], price, best, seen)
    for size in SIZES.values():
        if cpu <= size.cpu_milli and memory <= size.memory_mib:
            opened = [*free, (size.cpu_milli - cpu, size.memory_mib - memory)]
            best = _packed(rest, opened, price + size.price, best, seen)
    return best
