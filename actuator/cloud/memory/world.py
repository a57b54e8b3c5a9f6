"""All objects of the in-memory cluster, their indices, and their persistence.

Decides nothing of what happens (that is `controllers`), only that indices agree with objects and that every change
reaches the database. Not thread-safe: the cluster's lock guards it. Times are Unix milliseconds; 0 = never.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from actuator.cloud.memory.database import Database, JournalEntry
from actuator.cloud.memory.disruption import Budgets
from actuator.cloud.memory.objects import Object, ObjectError, check, desired_replicas, labels_of, made_uid
from actuator.cloud.memory.pods import Pod, PodKey
from actuator.cloud.memory.scheduler import Room
from actuator.cloud.memory.selectors import matches

OWNER_KINDS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job", "Deployment", "DaemonSet"})


@dataclass
class Instance:
    """A machine of the cloud, named like its node. It becomes a node at `start_due_ms` and ends at `gone_due_ms`."""

    name: str
    group: str
    start_due_ms: int = 0
    gone_due_ms: int = 0


class World:
    """The objects. `now_ms` is the time of the transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.now_ms = 0
        self.rooms: dict[str, Room] = {}
        self.pods: dict[PodKey, Pod] = {}
        self.pods_by_namespace: dict[str, dict[PodKey, Pod]] = {}
        self.pods_by_owner: dict[str, dict[PodKey, Pod]] = {}
        # Pods that wait for a node.
        self.pending: dict[PodKey, Pod] = {}
        self.groups: dict[str, Object] = {}
        self.instances: dict[str, Instance] = {}
        self.owners: dict[str, Object] = {}
        self.budgets = Budgets(self._scale)
        # Everything else, by "Kind/namespace/name".
        self.others: dict[str, Object] = {}
        # Tokens of growths already made, and the number of names made up so far.
        self.tokens: set[str] = set()
        self.name_count = 0
        # Whether something has changed that may help a pending pod.
        self.schedule_needed = True
        self._due: list[tuple[int, str]] = []
        self._changed: dict[str, Any] = {}
        self._entries: list[JournalEntry] = []

    def restore(self) -> bool:
        """Take everything out of the database; False = it is empty."""
        found = False
        for key, (item, more) in self._database.load():
            found = True
            self._restore(key, item, more)
        return found

    def fill(self, items: Iterable[Object]) -> None:
        """Take in objects from files. Raises `ObjectError` naming the object."""
        seen: set[str] = set()
        for item in items:
            metadata = item.get("metadata") or {}
            place = f"{item.get('kind')} {metadata.get('namespace', '')}/{metadata.get('name')}"
            check(item, place)
            key = _key(item)
            if key in seen:
                raise ObjectError(f"{place}: given twice")
            seen.add(key)
            # A recording without uids: from here on it has some, the same for every reader.
            metadata.setdefault("uid", made_uid(key, 0))
            try:
                self.put(item)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ObjectError(f"{place}: {error!r}") from error
        self._enlist()

    def put(self, item: Object) -> None:
        """Add any object."""
        key = _key(item)
        match item["kind"]:
            case "Node":
                self.put_node(item)
            case "Pod":
                self.put_pod(Pod(item))
            case "NodeGroup":
                self.groups[item["metadata"]["name"]] = item
                self._changed[key] = (item, {})
            case "PodDisruptionBudget":
                namespace = item["metadata"].get("namespace") or "default"
                self.budgets.put(item, self.pods_by_namespace.get(namespace, {}).values())
                self._changed[key] = (item, {})
            case kind:
                if kind in OWNER_KINDS and item["metadata"].get("uid"):
                    self.owners[item["metadata"]["uid"]] = item
                self.others[key] = item
                self._changed[key] = (item, {})

    def put_node(self, item: Object) -> None:
        """Add a node."""
        room = Room(item)
        self.rooms[room.name] = room
        for pod in self.pods.values():
            if pod.node == room.name:
                room.add(pod)
        self.node_changed(room)

    def node_changed(self, room: Room) -> None:
        """Call after a change of a node's object."""
        room.forget_static()
        self.schedule_needed = True
        self._changed[f"Node//{room.name}"] = (room.node, {})

    def drop_node(self, name: str) -> None:
        """Remove a node; its pods have gone before."""
        if self.rooms.pop(name, None) is not None:
            self._changed[f"Node//{name}"] = None

    def put_pod(self, pod: Pod) -> None:
        """Add a pod, or tell that it has changed (its node and requests excepted: use `bind`)."""
        self.pods[pod.key] = pod
        self.pods_by_namespace.setdefault(pod.key[0], {})[pod.key] = pod
        self.pods_by_owner.setdefault(pod.owner_uid, {})[pod.key] = pod
        self.budgets.pod_changed(pod)
        waits = not pod.node and pod.active and not pod.spec.get("schedulingGates")
        if waits:
            self.pending[pod.key] = pod
            self.schedule_needed = True
        else:
            self.pending.pop(pod.key, None)
        if pod.node in self.rooms and pod.key not in self.rooms[pod.node].pods:
            self.rooms[pod.node].add(pod)
        key = f"Pod/{pod.key[0]}/{pod.key[1]}"
        for due_ms in (pod.ready_due_ms, pod.gone_due_ms):
            if due_ms:
                heapq.heappush(self._due, (due_ms, key))
        self._changed[key] = (pod.item, {"ready_due_ms": pod.ready_due_ms, "gone_due_ms": pod.gone_due_ms})

    def drop_pod(self, pod: Pod) -> None:
        """Remove a pod."""
        self.budgets.pod_gone(pod)
        del self.pods_by_owner[pod.owner_uid][pod.key]
        del self.pods[pod.key]
        del self.pods_by_namespace[pod.key[0]][pod.key]
        self.pending.pop(pod.key, None)
        if pod.node in self.rooms:
            self.rooms[pod.node].remove(pod)
        self.schedule_needed = True
        self._changed[f"Pod/{pod.key[0]}/{pod.key[1]}"] = None

    def put_instance(self, instance: Instance) -> None:
        """Add a machine, or tell that it has changed."""
        self.instances[instance.name] = instance
        key = f"Instance//{instance.name}"
        for due_ms in (instance.start_due_ms, instance.gone_due_ms):
            if due_ms:
                heapq.heappush(self._due, (due_ms, key))
        self._changed[key] = (asdict(instance), {})

    def drop_instance(self, name: str) -> None:
        """Remove a machine."""
        if self.instances.pop(name, None) is not None:
            self._changed[f"Instance//{name}"] = None

    def group_changed(self, group: str) -> None:
        """Call after a change of a node group's object."""
        self._changed[f"NodeGroup//{group}"] = (self.groups[group], {})

    def remember_token(self, token: str) -> None:
        """Note that a growth was made."""
        self.tokens.add(token)
        self._changed[f"Token//{token}"] = (token, {})

    def next_number(self) -> int:
        """A number that no name was made of yet."""
        self.name_count += 1
        self._changed["NameCount//"] = (self.name_count, {})
        return self.name_count

    def note(self, what: str, subject: str) -> None:
        """Write a line of the journal."""
        self._entries.append(JournalEntry(self.now_ms, what, subject))

    def journal(self) -> list[JournalEntry]:
        """What happened so far."""
        return self._database.journal()

    def next_due(self, until_ms: int) -> Iterator[tuple[int, str]]:
        """Take out what is due by then, in order of time: when, and the key of a pod or an instance."""
        while self._due and self._due[0][0] <= until_ms:
            yield heapq.heappop(self._due)

    def flush(self) -> None:
        """Write all changes since the last time, in one transaction."""
        if self._changed or self._entries:
            self._database.save(self._changed, self._entries)
            self._changed, self._entries = {}, []

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _restore(self, key: str, item: Any, more: dict[str, int]) -> None:
        kind = key.split("/", 1)[0]
        match kind:
            case "Instance":
                self.put_instance(Instance(**item))
            case "Token":
                self.tokens.add(item)
            case "NameCount":
                self.name_count = item
            case "Pod":
                self.put_pod(Pod(item, **more))
            case _:
                self.put(item)
        self._changed.pop(key, None)

    def _enlist(self) -> None:
        """Find the machines and sizes of the node groups just read."""
        for name, group in sorted(self.groups.items()):
            spec = group.setdefault("spec", {})
            nodes = [node for node in sorted(self.rooms) if self._is_member(node, spec)]
            for node in nodes:
                self.put_instance(Instance(node, name))
            spec.setdefault("targetSize", len(nodes))
            spec.setdefault("minSize", 0)
            spec.setdefault("maxSize", max(1000, spec["targetSize"]))
            for field in ("minSize", "maxSize", "targetSize"):
                if type(spec[field]) is not int or spec[field] < 0:
                    raise ObjectError(f"NodeGroup {name}: spec.{field} must be a whole number, not {spec[field]!r}")
            self.group_changed(name)

    def _scale(self, owner_uid: str) -> int | None:
        owner = self.owners.get(owner_uid)
        return desired_replicas(owner) if owner else None

    def _is_member(self, node: str, spec: Object) -> bool:
        if node in self.instances:
            return False
        if node in (spec.get("nodes") or ()):
            return True
        selector = spec.get("nodeSelector")
        if not selector:
            return False
        if not ({"matchLabels", "matchExpressions"} & selector.keys()):
            selector = {"matchLabels": selector}
        return matches(selector, labels_of(self.rooms[node].node))


def _key(item: Object) -> str:
    """ "Kind/namespace/name"; nodes and node groups have no namespace, pods and budgets always one."""
    kind, metadata = item["kind"], item["metadata"]
    if kind in ("Node", "NodeGroup"):
        return f"{kind}//{metadata['name']}"
    default = "default" if kind in ("Pod", "PodDisruptionBudget") else ""
    return f"{kind}/{metadata.get('namespace') or default}/{metadata['name']}"
