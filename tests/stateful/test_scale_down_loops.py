"""Twenty loops of a random cluster that lives: pods come and go, nodes are deleted, some deletions fail.

Every plan is proven by the certificate (`plan_message` does). Between loops the test is scheduler and actuator in one:
a node that goes loses its pods to the places the plan gave them, or keeps them when its deletion fails.
"""

from dataclasses import dataclass, field
from random import Random

from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab.v1 import plan_pb2, snapshot_pb2

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
from tests.builders.scale_down import NOW_S, Outcome, plan_message

LOOPS = 20
STEP_S = 60
SETTINGS = {"unneededTime": "120s", "unreadyTime": "180s", "maxScaleDownParallelism": 4, "maxDrainParallelism": 3}


@dataclass
class World:
    """What is there: pods as name to (app, cpu, node); nodes as name to group; deletions as node to (loop, drain)."""

    random: Random
    loop: int = 0
    serial: int = 0
    nodes: dict[str, str] = field(default_factory=dict)
    pods: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    deletions: dict[str, tuple[int, bool, dict[str, str]]] = field(default_factory=dict)
    evicted: dict[str, tuple[str, int]] = field(default_factory=dict)
    minimum: int = 1

    def __post_init__(self) -> None:
        for i in range(self.random.randint(4, 9)):
            self.nodes[f"n{i}"] = self.random.choice("ab")
        for _ in range(self.random.randint(4, 20)):
            self.arrive()

    def free(self, name: str) -> int:
        return 4000 - sum(cpu for _, cpu, at in self.pods.values() if at == name)

    def arrive(self) -> None:
        """A new pod where there is room, as a scheduler without constraints would have it."""
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
        objects += [node(name, zone="uv"[i % 2]) for i, name in enumerate(sorted(self.nodes))]
        for group in "ab":
            members = [name for name, of in self.nodes.items() if of == group]
            objects.append(node_group(group, min(self.minimum, len(members)), nodes=members, target=len(members)))
        objects += [self._pod(name, owners) for name in self.pods]
        objects.append(pdb("w", 1, labels={"app": "w"}))
        message = snapshot_of(objects)
        self._actuation(message)
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
        """Carry out what was decided, finish or fail what was begun, let pods come and go."""
        self.evicted.clear()
        for name in [*found.decision.delete_empty, *found.decision.drain]:
            where = {
                pod.removeprefix("default/"): target
                for entry in found.decision.unneeded
                if entry.node == name
                for pod, target in entry.destinations.items()
            }
            self.deletions[name] = (self.loop, name in found.decision.drain, where)
        for name, (_, _, where) in list(self.deletions.items()):
            fate = self.random.random()
            if fate < 0.5:
                self._finish(name, where)
            elif fate < 0.65:
                del self.deletions[name]
        for name in [name for name in self.pods if self.random.random() < 0.04]:
            del self.pods[name]
        for _ in range(self.random.choice((0, 0, 0, 1, 2))):
            self.arrive()
        if self.random.random() < 0.1:
            self.serial += 1
            self.nodes[f"n{self.serial:03}"] = self.random.choice("ab")

    def _finish(self, name: str, where: dict[str, str]) -> None:
        """The node goes; each of its pods starts anew where the plan had it, or has just been evicted."""
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
        del self.deletions[name], self.nodes[name]


def since(found: Outcome) -> dict[str, int]:
    return {entry.node: entry.since.seconds for entry in found.decision.unneeded}


def assert_timers_go_on(now_s: int, before: dict[str, int], found: Outcome) -> None:
    """A node that stays unneeded keeps its time; one that is new starts now."""
    for name, start in since(found).items():
        assert start == before.get(name, now_s)


def assert_nothing_flaps(world: World, found: Outcome, now_s: int) -> None:
    """Asked again at once, the answer is the same, from memory alone."""
    again = plan_message(world.message(), SETTINGS, found.state, now_s + 1)
    assert again.unneeded == found.unneeded
    assert again.decision.searches == 0
    assert again.destinations == found.destinations
    assert since(again) == since(found)


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_a_living_cluster_gets_a_proven_plan_in_every_loop(seed: int) -> None:
    world = World(Random(seed))
    state: plan_pb2.PlanState | None = None
    before: dict[str, int] = {}
    for loop in range(LOOPS):
        world.loop = loop
        now_s = NOW_S + STEP_S * loop
        found = plan_message(world.message(), SETTINGS, state, now_s)
        assert_timers_go_on(now_s, before, found)
        if found.result != "ERROR":
            assert_nothing_flaps(world, found, now_s)
        world.live(found)
        state, before = found.state, since(found)


def test_such_clusters_do_shrink_and_do_fail() -> None:
    """The loops above would prove little if nothing happened in them."""
    results: set[str] = set()
    drained = 0
    for seed in range(6):
        world = World(Random(seed))
        state = None
        for loop in range(LOOPS):
            world.loop = loop
            found = plan_message(world.message(), SETTINGS, state, NOW_S + STEP_S * loop)
            results.add(found.result)
            drained += len(found.decision.drain)
            world.live(found)
            state = found.state
    assert drained > 10
    assert {"NODE_DELETE_STARTED", "NO_NODE_DELETED", "IN_PROGRESS"} <= results
