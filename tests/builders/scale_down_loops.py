"""A random cluster that lives loop by loop: scale-down's decisions are executed, pods arrive and leave, nodes
fail.
"""

from dataclasses import dataclass, field
from random import Random

from google.protobuf.timestamp_pb2 import Timestamp

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
    spread,
)
from tests.builders.scale_down import NOW_S, Outcome
from trimtab.places import moves_by_node
from trimtab.v1 import snapshot_pb2

LOOPS = 20

STEP_S = 60

SETTINGS: Json = {
    "unneededTime": "120s", "unreadyTime": "180s", "maxScaleDownParallelism": 4, "maxDrainParallelism": 3,
    "delayAfterAdd": "0s", "delayAfterFailure": "0s",
}  # fmt: skip


@dataclass
class ShrinkingCluster:
    """The cluster: pods as name to (app, cpu, node); nodes as name to group; deletions as node to (loop, drain)."""

    random: Random
    loop: int = 0
    serial: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    pods: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    deletions: dict[str, tuple[int, bool, dict[str, str]]] = field(default_factory=dict)
    evicted: dict[str, tuple[str, int]] = field(default_factory=dict)
    unready: set[str] = field(default_factory=set)
    prices: dict[str, float] = field(default_factory=lambda: {"a": 1.0, "b": 1.0})
    happened: dict[str, dict[str, int]] = field(default_factory=lambda: {"a": {}, "b": {}})
    minimum: int = 1
    budgets: dict[str, int] = field(default_factory=lambda: {"w": 1})

    def __post_init__(self) -> None:
        for i in range(self.random.randint(4, 9)):
            self.nodes[f"n{i}"] = self.random.choice("ab")
        for _ in range(self.random.randint(4, 20)):
            self.arrive()

    def free(self, name: str) -> int:
        return 4000 - sum(cpu for _, cpu, at in self.pods.values() if at == name)

    def arrive(self) -> None:
        """Add a pod where there is room, as a scheduler without constraints would do."""
        cpu = self.random.choice((100, 300, 500, 900))
        where = [name for name in self.nodes if self.free(name) >= cpu and name not in self.deletions]
        if where:
            self.serial += 1
            self.pods[f"p{self.serial:03}"] = (self.random.choice("wxyz"), cpu, self.random.choice(where))

    def message(self) -> snapshot_pb2.ClusterSnapshot:
        count = {app: sum(one[0] == app for one in self.pods.values()) for app in "wxyz"}
        missing = {app: sum(one == app for one, _ in self.evicted.values()) for app in "wxyz"}
        owners = {app: replica_set(app, count[app] + missing[app], current=count[app]) for app in "wxyz"}
        objects: list[Json] = list(owners.values())
        objects += [
            node(name, zone="uv"[int(name[1:]) % 2], ready=name not in self.unready) for name in sorted(self.nodes)
        ]
        for group in "ab":
            members = [name for name, of in self.nodes.items() if of == group]
            least, price = min(self.minimum, len(members)), self.prices[group]
            objects.append(node_group(group, least, nodes=members, target=len(members), price=price))
        objects += [self._pod(name, owners) for name in self.pods]
        objects += [pdb(app, left, labels={"app": app}) for app, left in sorted(self.budgets.items())]
        message = snapshot_of(objects)
        self._actuation(message)
        for row in message.node_groups:
            for name, loop in self.happened[row.id].items():
                getattr(row, name).FromSeconds(NOW_S + STEP_S * loop)
        return message

    def _pod(self, name: str, owners: dict[str, Json]) -> Json:
        app, cpu, where = self.pods[name]
        extra: Json = {}
        if app == "x":
            extra["spread"] = [spread(labelled(app="x"), max_skew=3)]
        if app == "y":
            extra["affinity"] = anti_affinity(labelled(app="y"))
        return pod(name, f"{cpu}m", "1Mi", node=where, owner=owners[app], labels={"app": app}, **extra)

    def _actuation(self, message: snapshot_pb2.ClusterSnapshot) -> None:
        status = message.actuation_status
        for name, (since, drain, _) in self.deletions.items():
            start = Timestamp(seconds=NOW_S + STEP_S * since)
            status.deletions.add(node=name, node_group=self.nodes.get(name, "a"), drain=drain, start_time=start)
        for name, (app, at) in self.evicted.items():
            uid = next(owner.uid for owner in message.owners if owner.name == app)
            when = Timestamp(seconds=NOW_S + STEP_S * at)
            status.recent_evictions.add(
                namespace="default", name=name, uid=name, spec=0, owner=uid, evict_time=when
            )  # fmt: skip

    def live(self, found: Outcome) -> None:
        """Execute the decisions, finish or fail started deletions, add and remove pods."""
        self.evicted.clear()
        for name in [*found.decision.delete_empty, *found.decision.drain]:
            where = {
                pod.removeprefix("default/"): target
                for pod, target in moves_by_node(found.decision.places).get(name, {}).items()
            }
            self.deletions[name] = (self.loop, name in found.decision.drain, where)
            self.happened[self.nodes[name]]["last_deletion_time"] = self.loop
        for name, (_, _, where) in list(self.deletions.items()):
            fate = self.random.random()
            if fate < 0.5:
                self._finish(name, where)
            elif fate < 0.65:
                del self.deletions[name]
                self.happened[self.nodes[name]]["last_failure_time"] = self.loop
        for name in [name for name in self.pods if self.random.random() < 0.04]:
            del self.pods[name]
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            self.arrive()
        if self.random.random() < 0.1:
            self.serial += 1
            group = self.nodes[f"n{self.serial:03}"] = self.random.choice("ab")
            self.happened[group]["last_scale_up_time"] = self.loop
        self.suffer()

    def suffer(self) -> None:
        """Make nodes unready or ready; sometimes one dies with its pods, which then are pending or gone."""
        for name in sorted(self.nodes):
            if self.random.random() < (0.3 if name in self.unready else 0.03):
                self.unready ^= {name}
        if self.random.random() < 0.08 and len(self.nodes) > 2:
            dead = self.random.choice(sorted(self.nodes))
            for old, (app, cpu, at) in list(self.pods.items()):
                if at == dead:
                    del self.pods[old]
                    self.serial += 1
                    self.pods[f"p{self.serial:03}"] = (app, cpu, "")
            self.unready.discard(dead)
            self.deletions.pop(dead, None)
            del self.nodes[dead]
        for waiting, (app, cpu, at) in list(self.pods.items()):
            room = [name for name in sorted(self.nodes) if self.free(name) >= cpu and name not in self.deletions]
            if not at and room and self.random.random() < 0.7:
                self.pods[waiting] = (app, cpu, self.random.choice(room))

    def _finish(self, name: str, where: dict[str, str]) -> None:
        """Remove the node; each of its pods restarts on its planned node, or has just been evicted."""
        for old, (app, cpu, at) in list(self.pods.items()):
            if at != name:
                continue
            del self.pods[old]
            target = where.get(old, "")
            if target in self.nodes and self.free(target) >= cpu and self.random.random() < 0.8:
                self.serial += 1
                self.pods[f"p{self.serial:03}"] = (app, cpu, target)
            else:
                self.evicted[old] = (app, self.loop)
        self.unready.discard(name)
        del self.deletions[name], self.nodes[name]


def since(found: Outcome) -> dict[str, int]:
    return {entry.node: entry.since.seconds for entry in found.going}
