"""A random cluster of nodes of several sizes that lives loop by loop: waves of replacement are carried out, in part, or
not at all; pods arrive, leave and ask for more, nodes come and prices move.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from tests.builders.kubernetes import (
    Json,
    anti_affinity,
    labelled,
    node,
    node_group,
    pdb,
    pod,
    replica_set,
    snapshot_of,
)
from tests.builders.replacement import NOW_S, SIZES
from trimtab.places import moves_by_node
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2

STEP_S = 120
CPUS_MILLI, MEMORIES_MIB = (250, 500, 1000, 2000, 3000), (512, 1024, 2048, 4096, 8192)
Stage, NodeState = actuator_pb2.ReplacementStage, actuator_pb2.ReplacementNewNodeState


@dataclass
class Workload:
    """A pod: of which workload, what it requests, where it is."""

    app: str
    cpu_milli: int
    memory_mib: int
    node: str


@dataclass
class ReplacedCluster:
    """The cluster: group of each node, pods by name, prices and maxima by group, allowed disruptions by workload."""

    random: Random
    loop: int = 0
    serial: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    pods: dict[str, Workload] = field(default_factory=dict)
    prices: dict[str, float] = field(default_factory=lambda: {name: size.price for name, size in SIZES.items()})
    most: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIZES, 12))
    budgets: dict[str, int] = field(default_factory=lambda: {"w": 2})

    def __post_init__(self) -> None:
        for _ in range(self.random.randint(3, 7)):
            self._number(self.random.choice("lmr"))
        for _ in range(self.random.randint(4, 18)):
            self.arrive()

    @property
    def now_s(self) -> int:
        """The time of this loop."""
        return NOW_S + STEP_S * self.loop

    def price(self) -> float:
        """Return what the cluster costs for one hour."""
        return sum(self.prices[group] for group in self.nodes.values())

    def arrive(self) -> None:
        """Add a pod where there is room, as a scheduler would do; no two pods of workload "y" share a node."""
        one = Workload(self.random.choice("wxyz"), self.random.choice(CPUS_MILLI), self.random.choice(MEMORIES_MIB), "")
        where = [name for name in self.nodes if self._has_room(name, one)]
        if where:
            one.node = self.random.choice(where)
            self.serial += 1
            self.pods[f"p{self.serial:03}"] = one

    def message(self) -> snapshot_pb2.ClusterSnapshot:
        """Return the snapshot of this loop."""
        count = Counter(one.app for one in self.pods.values())
        owners = {app: replica_set(app, count[app]) for app in "wxyz"}
        objects: list[Json] = list(owners.values())
        for name, size in SIZES.items():
            amounts = (f"{size.cpu_milli}m", f"{size.memory_mib}Mi")
            members = sorted(one for one, group in self.nodes.items() if group == name)
            template = node("t", *amounts)
            objects.append(
                node_group(
                    name, 0, max(self.most[name], len(members)), nodes=members, target=len(members),
                    price=self.prices[name], template=template,
                )
            )  # fmt: skip
            objects += [node(one, *amounts) for one in members]
        for name, one in self.pods.items():
            affinity = anti_affinity(labelled(app="y")) if one.app == "y" else None
            objects.append(
                pod(
                    name, f"{one.cpu_milli}m", f"{one.memory_mib}Mi", node=one.node, owner=owners[one.app],
                    labels={"app": one.app}, affinity=affinity,
                )
            )  # fmt: skip
        for app, allowed in sorted(self.budgets.items()):
            healthy = count[app]
            objects.append(
                pdb(
                    app, min(allowed, healthy), labels={"app": app}, healthy=healthy, expected=healthy,
                    desired=max(0, healthy - allowed), max_unavailable=allowed,
                )
            )  # fmt: skip
        return snapshot_of(objects)

    def carry_out(self, wave: plan_pb2.ReplacementWave, share: float = 1.0) -> actuator_pb2.Replacement:
        """Carry out a wave, each node leaving with this probability; return what an actuator tells of it."""
        ended = actuator_pb2.Replacement(request_id=f"r{self.loop}", stage=Stage.DONE)
        ended.stage_time.FromSeconds(self.now_s)
        leaving = [one for one in wave.leaving if self.random.random() < share]
        moves = {one.node: moves_by_node(wave.places).get(one.node, {}) for one in leaving}
        needed = {to for of_node in moves.values() for to in of_node.values()}
        names: dict[str, str] = {}
        for new in wave.new_nodes:
            if new.name in needed:
                names[new.name] = self._number(new.node_group)
                ended.new_nodes.add(node=names[new.name], node_group=new.node_group, state=NodeState.READY)
        for one in leaving:
            for key, to in moves[one.node].items():
                old = self.pods.pop(key.removeprefix("default/"))
                old.node = names.get(to, to)
                self.serial += 1
                self.pods[f"p{self.serial:03}"] = old
            del self.nodes[one.node]
        return ended

    def out_of_stock(self, wave: plan_pb2.ReplacementWave) -> actuator_pb2.Replacement:
        """Return what an actuator tells of a wave whose groups had no nodes to give."""
        ended = actuator_pb2.Replacement(request_id=f"r{self.loop}", stage=Stage.FAILED)
        ended.stage_time.FromSeconds(self.now_s)
        for new in wave.new_nodes:
            ended.new_nodes.add(node_group=new.node_group, state=NodeState.MISSING, failed_node_groups=[new.node_group])
        return ended

    def live(self) -> None:
        """Let pods leave, arrive and ask for other amounts, nodes come, prices, maxima and budgets move."""
        random = self.random
        for name in [name for name in self.pods if random.random() < 0.06]:
            del self.pods[name]
        for _ in range(random.choice((0, 0, 1, 2))):
            self.arrive()
        for one in self.pods.values():
            if random.random() < 0.05:  # resized in place, where there is room
                asked = Workload(one.app, random.choice(CPUS_MILLI), random.choice(MEMORIES_MIB), one.node)
                node_of, one.node = one.node, ""
                if self._has_room(node_of, asked):
                    one.cpu_milli, one.memory_mib = asked.cpu_milli, asked.memory_mib
                one.node = node_of
        if random.random() < 0.15:
            self._number(random.choice("lmr"))
        if random.random() < 0.2:
            name = random.choice(sorted(SIZES))
            self.prices[name] = SIZES[name].price * random.choice((0.7, 0.95, 1.0, 1.05, 1.3))
        if random.random() < 0.15:
            self.most[random.choice(sorted(SIZES))] = random.choice((0, 2, 12))
        if random.random() < 0.3:
            self.budgets[random.choice("wx")] = random.randint(0, 4)

    def _number(self, group: str) -> str:
        """Add a node of a group; return its name."""
        self.serial += 1
        self.nodes[f"n{self.serial:03}"] = group
        return f"n{self.serial:03}"

    def _has_room(self, name: str, one: Workload) -> bool:
        size, there = SIZES[self.nodes[name]], [other for other in self.pods.values() if other.node == name]
        return (
            sum(other.cpu_milli for other in there) + one.cpu_milli <= size.cpu_milli
            and sum(other.memory_mib for other in there) + one.memory_mib <= size.memory_mib
            and not (one.app == "y" and any(other.app == "y" for other in there))
        )


def leaving_of(waves: Iterable[plan_pb2.ReplacementWave]) -> set[str]:
    """Return the nodes that leave in waves."""
    return {one.node for wave in waves for one in wave.leaving}
