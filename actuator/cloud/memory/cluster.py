"""The in-memory cluster behind the interfaces of a real one.

Decides what its API answers: evictions are refused with "too many requests" when a PodDisruptionBudget would be
violated. Every method is one transaction: it lets pass what is due, then acts, then writes to the database.
Thread-safe.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actuator.cloud.memory.controllers import Controllers, Delays, write_owner_status
from actuator.cloud.memory.database import Database, JournalEntry
from actuator.cloud.memory.faults import Faults
from actuator.cloud.memory.objects import Object
from actuator.cloud.memory.pods import Pod, PodKey
from actuator.cloud.memory.scheduler import Room
from actuator.cloud.memory.world import World
from actuator.kube.cluster import (
    POD_COST_ANNOTATION,
    NodeView,
    NotFoundError,
    PodCost,
    PodView,
    RefusedError,
    Taint,
    TooManyRequestsError,
)


class MemoryCluster:
    """A `Cluster` (see `actuator.kube.cluster`)."""

    def __init__(
        self,
        objects: Sequence[Object] = (),
        path: Path | None = None,
        delays: Delays | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Go on with the cluster in the file at `path`; only if it holds none, start from `objects`.

        Raises `ObjectError`.
        """
        self.world = World(Database(path))
        self.controllers = Controllers(self.world, delays or Delays())
        self.faults = Faults(sleep)
        self._clock = clock
        self._lock = threading.RLock()
        self.restored = self.world.restore()
        if not self.restored:
            self.world.fill(objects)
        with self.transaction() as world:
            self.controllers.finish_terminating()
            self._write_statuses(world)

    @contextmanager
    def transaction(self, operation: str = "", subject: str = "") -> Iterator[World]:
        """Alone with the world, at its present time; changes are written at the end, also when it raises."""
        if operation:
            self.faults.strike(operation, subject)
        with self._lock:
            self.controllers.advance(int(self._clock() * 1000))
            try:
                yield self.world
                self.controllers.schedule()
            finally:
                self.world.flush()
        if operation:
            self.faults.after(operation, subject)

    def get_node(self, name: str, recent: bool = False) -> NodeView:
        """One node, as it is now."""
        del recent
        with self.transaction("get_node", name) as world:
            return _view(_room(world, name))

    def list_nodes(self) -> Sequence[NodeView]:
        """All nodes, sorted by name."""
        with self.transaction("list_nodes") as world:
            return [_view(room) for _, room in sorted(world.rooms.items())]

    def add_taint(self, node: str, taint: Taint) -> bool:
        """Add a taint."""
        with self.transaction("add_taint", node) as world:
            room = _room(world, node)
            if _view(room).taint(taint.key) is not None:
                return False
            spec = room.node.setdefault("spec", {})
            spec["taints"] = [*(spec.get("taints") or ()), taint._asdict()]
            world.node_changed(room)
            world.note("tainted", f"{node} {taint.key}")
            return True

    def remove_taint(self, node: str, key: str) -> bool:
        """Take a taint away."""
        with self.transaction("remove_taint", node) as world:
            room = _room(world, node)
            if _view(room).taint(key) is None:
                return False
            taints = room.node["spec"]["taints"]
            room.node["spec"]["taints"] = [taint for taint in taints if taint.get("key") != key]
            world.node_changed(room)
            world.note("untainted", f"{node} {key}")
            return True

    def list_pods(self, node: str, recent: bool = False) -> Sequence[PodView]:
        """The pods bound to a node, as they are now, sorted by namespace and name."""
        del recent
        with self.transaction("list_pods", node) as world:
            room = world.rooms.get(node)
            return [pod.view() for _, pod in sorted(room.pods.items())] if room else []

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Evict a pod, if its budget allows."""
        with self.transaction("evict", pod.key) as world:
            found = world.pods.get((pod.namespace, pod.name))
            if found is None or found.uid != pod.uid:
                raise NotFoundError(f"pod {pod.key} with uid {pod.uid} does not exist")
            if found.terminating:
                world.note("evicted_twice", found.uid)
                return
            self._check_budget(world, found)
            world.note("daemon_evicted" if found.daemon else "evicted", found.uid)
            self.controllers.terminate(found, found.grace_s if grace_s is None else grace_s)

    def delete_node(self, name: str) -> None:
        """Delete a node object; its pods go with it."""
        with self.transaction("delete_node", name):
            self.controllers.lose_node(name)

    def pod_costs(self, keys: Sequence[str]) -> Mapping[str, PodCost]:
        """Those of the pods that exist."""
        with self.transaction("pod_costs") as world:
            pods = (world.pods.get(_pod_key(key)) for key in keys)
            return {"/".join(pod.key): _cost(pod) for pod in pods if pod is not None}

    def write_pod_cost(self, pod: PodCost, cost: str | None) -> None:
        """Write a pod's deletion cost, or take it away."""
        with self.transaction("write_pod_cost", pod.key) as world:
            found = world.pods.get((pod.namespace, pod.name))
            if found is None or found.uid != pod.uid:
                raise NotFoundError(f"pod {pod.key} with uid {pod.uid} does not exist")
            annotations = {name: text for name, text in found.annotations.items() if name != POD_COST_ANNOTATION}
            found.item["metadata"]["annotations"] = annotations | ({} if cost is None else {POD_COST_ANNOTATION: cost})
            world.put_pod(found)
            world.note("cost_written", pod.key)

    def objects(self) -> list[Object]:
        """All objects with their status as the controllers would have written it, sorted by kind, namespace, name."""
        with self.transaction() as world:
            self._write_statuses(world)
            found: list[Object] = [*world.groups.values(), *world.budgets.items.values(), *world.others.values()]
            found += [room.node for room in world.rooms.values()]
            found += [pod.item for pod in world.pods.values()]
            found.sort(key=lambda o: (o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"]))
            # Through JSON: what is handed out does not change with the cluster.
            copied: list[Object] = msgspec.json.decode(msgspec.json.encode(found))
            return copied

    def journal(self) -> list[JournalEntry]:
        """What happened so far: tainted, untainted, evicted, daemon_evicted, evicted_twice, recreated, pod_lost, grown,
        deleted, cost_written.
        """
        with self.transaction() as world:
            world.flush()
            return world.journal()

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self.world.close()

    def _check_budget(self, world: World, pod: Pod) -> None:
        """Raise unless the eviction API would grant the eviction.

        Source: Kubernetes, pkg/registry/core/pod/storage/eviction.go.
        """
        if pod.terminal or pod.phase == "Pending":
            return
        keys = world.budgets.of(pod)
        if not keys:
            return
        if len(keys) > 1:
            raise RefusedError(f"pod {pod.key[0]}/{pod.key[1]} is covered by {len(keys)} PodDisruptionBudgets")
        status = world.budgets.status(keys[0])
        if not pod.ready:
            policy = (world.budgets.items[keys[0]].get("spec") or {}).get("unhealthyPodEvictionPolicy")
            if policy == "AlwaysAllow" or status.current_healthy >= status.desired_healthy > 0:
                return
        if status.disruptions_allowed < 1:
            raise TooManyRequestsError(
                f"budget {keys[0][0]}/{keys[0][1]} needs {status.desired_healthy} healthy pods and has"
                f" {status.current_healthy}"
            )

    def _write_statuses(self, world: World) -> None:
        world.budgets.write_statuses()
        for uid, owner in world.owners.items():
            if owner["kind"] not in ("Deployment", "DaemonSet"):
                write_owner_status(owner, list(world.pods_by_owner.get(uid, {}).values()))


def _pod_key(key: str) -> PodKey:
    namespace, _, name = key.partition("/")
    return namespace, name


def _cost(pod: Pod) -> PodCost:
    return PodCost(*pod.key, pod.uid, pod.annotations.get(POD_COST_ANNOTATION))


def _room(world: World, name: str) -> Room:
    room = world.rooms.get(name)
    if room is None:
        raise NotFoundError(f"node {name} does not exist")
    return room


def _view(room: Room) -> NodeView:
    spec = room.node.get("spec") or {}
    taints = [Taint(t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in spec.get("taints") or ()]
    gpu = any(name.endswith("/gpu") and amount > 0 for name, amount in room.allocatable.items())
    return NodeView(room.name, spec.get("providerID") or "", tuple(taints), gpu)
