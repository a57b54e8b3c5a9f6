"""All objects of the simulated cluster, their indices, and their persistence.

Keeps the indices consistent with the objects and writes every change to the database; `controllers` decides the
changes. Not thread-safe: the cluster's lock guards it. Times are Unix milliseconds; 0 = never.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from trimtab.clients.simulation.cluster.database import JournalEntry, ObjectStore
from trimtab.clients.simulation.cluster.disruption import BudgetIndex
from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.objects import condition_reason, desired_replicas, labels_of, made_uid
from trimtab.clients.simulation.cluster.pod_groups import PodGroupMembers
from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.clients.simulation.cluster.tallies import OwnerTallies
from trimtab.clients.simulation.cluster.volumes import PodVolumes
from trimtab.common.kubernetes.object_files import Object, ObjectFileError, check
from trimtab.common.kubernetes.registry import CONTROLLERS
from trimtab.common.kubernetes.selectors import selects

# Provider ids of deleted machines that are kept, the latest ones.
MAX_ENDED = 10_000


@dataclass
class SimulatedInstance:
    """A machine of the cloud, named like its node. It becomes a node at `start_due_ms` and ends at `gone_due_ms`.
    `name` : of the node; `group` : id of its node group; `provider_id` : as the cloud names it. Times are Unix
    milliseconds, 0 = not due.
    """

    name: str
    group: str
    provider_id: str
    start_due_ms: int = 0
    gone_due_ms: int = 0


class ClusterState:
    """The objects. `now_ms` is the time of the transaction."""

    def __init__(self, database: ObjectStore, scheduler: KubeScheduler | None = None) -> None:
        self._database = database
        self.scheduler = scheduler or KubeScheduler(None, "MostAllocated", default_spread=False)
        self.volumes = PodVolumes(self)
        self.scheduler.follow_volumes(self.volumes)
        self.now_ms = 0
        self.nodes: dict[str, NodeInfo] = {}
        # Pods that name a node that does not exist, by its name.
        self._astray: dict[str, dict[PodKey, SimulatedPod]] = {}
        self.pods: dict[PodKey, SimulatedPod] = {}
        self.pods_by_namespace: dict[str, dict[PodKey, SimulatedPod]] = {}
        self.pods_by_owner: dict[str, dict[PodKey, SimulatedPod]] = {}
        self.tallies = OwnerTallies()
        self.group_members = PodGroupMembers()
        # Pending pods.
        self.pending: dict[PodKey, SimulatedPod] = {}
        self.groups: dict[str, Object] = {}
        self.instances: dict[str, SimulatedInstance] = {}
        # Machines by group and name; how often machines, and how often nodes, have changed.
        self._instances_of: dict[str, dict[str, SimulatedInstance]] = {}
        self.instance_changes = 0
        self.node_changes = 0
        # Names of machines by provider id, and the provider ids of deleted ones.
        self._name_of: dict[str, str] = {}
        self.ended: dict[str, None] = {}
        self.owners: dict[str, Object] = {}
        self.budgets = BudgetIndex(self._scale)
        # Everything else, by "Kind/namespace/name".
        self.others: dict[str, Object] = {}
        # Tokens of scale-ups already made, and the number of names generated so far.
        self.tokens: set[str] = set()
        self.name_count = 0
        # Whether a change may have made room for a pending pod.
        self.schedule_needed = True
        self._due: list[tuple[int, str]] = []
        self._changed: dict[str, Any] = {}
        self._entries: list[JournalEntry] = []

    def restore(self) -> bool:
        """Load everything from the database; False = it is empty."""
        found = False
        for key, (item, more) in self._database.load():
            found = True
            self._restore(key, item, more)
        return found

    def fill(self, items: Iterable[Object]) -> None:
        """Add objects from files. Raises `ObjectFileError` naming the object."""
        seen: set[str] = set()
        for item in items:
            metadata = item.get("metadata") or {}
            place = f"{item.get('kind')} {metadata.get('namespace', '')}/{metadata.get('name')}"
            check(item, place)
            key = _key(item)
            if key in seen:
                raise ObjectFileError(f"{place}: given twice")
            seen.add(key)
            # A recording without uids gets generated ones, the same for every reader.
            metadata.setdefault("uid", made_uid(key, 0))
            try:
                self.put(item)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ObjectFileError(f"{place}: {error!r}") from error
        self._add_instances()

    def put(self, item: Object) -> None:
        """Add any object."""
        key = _key(item)
        match item["kind"]:
            case "Node":
                self.put_node(item)
            case "Pod":
                self.put_pod(SimulatedPod(item))
            case "NodeGroup":
                self.groups[item["metadata"]["name"]] = item
                self._changed[key] = (item, {})
            case "PodDisruptionBudget":
                namespace = item["metadata"].get("namespace") or "default"
                self.budgets.put(item, self.pods_by_namespace.get(namespace, {}).values())
                self._changed[key] = (item, {})
            case kind:
                if kind in CONTROLLERS and item["metadata"].get("uid"):
                    self.owners[item["metadata"]["uid"]] = item
                self.others[key] = item
                self._changed[key] = (item, {})
                # A group that its pods wait for, or one with another minimum.
                self.schedule_needed = self.schedule_needed or kind == "PodGroup"

    def drop(self, item: Object) -> None:
        """Remove an object that is not a node, pod, group or budget."""
        key = _key(item)
        self.owners.pop(item["metadata"].get("uid", ""), None)
        if self.others.pop(key, None) is not None:
            self._changed[key] = None

    def put_node(self, item: Object) -> None:
        """Add a node."""
        info = NodeInfo(item)
        self.nodes[info.name] = info
        self.node_changed(info)
        for pod in self._astray.pop(info.name, {}).values():
            info.add(pod)
            self.scheduler.pod_added(info, pod)

    def node_changed(self, info: NodeInfo) -> None:
        """Call after a change of a node's object."""
        info.view = None
        self.node_changes += 1
        self.scheduler.node_changed(info)
        self.schedule_needed = True
        self._changed[f"Node//{info.name}"] = (info.node, {})

    def drop_node(self, name: str) -> None:
        """Remove a node; its pods were removed before."""
        info = self.nodes.pop(name, None)
        if info is not None:
            self.node_changes += 1
            self.scheduler.node_gone(info)
            self._changed[f"Node//{name}"] = None

    def put_pod(self, pod: SimulatedPod) -> None:
        """Add or update a pod; its node and requests must not change otherwise."""
        self.pods[pod.key] = pod
        self.pods_by_namespace.setdefault(pod.key[0], {})[pod.key] = pod
        self.pods_by_owner.setdefault(pod.owner_uid, {})[pod.key] = pod
        self.tallies.put(pod)
        self.group_members.put(pod)
        self.budgets.pod_changed(pod)
        waits = not pod.node and pod.active and not pod.spec.get("schedulingGates")
        if waits:
            self.pending[pod.key] = pod
            self.schedule_needed = True
        else:
            self.pending.pop(pod.key, None)
            self.scheduler.withdraw(pod)
        self._put_on_node(pod)
        key = f"Pod/{pod.key[0]}/{pod.key[1]}"
        for due_ms in (pod.ready_due_ms, pod.gone_due_ms):
            if due_ms:
                heapq.heappush(self._due, (due_ms, key))
        self._changed[key] = (pod.item, _due_times(pod))

    def _put_on_node(self, pod: SimulatedPod) -> None:
        info = self.nodes.get(pod.node)
        if info is None:
            if pod.node:
                self._astray.setdefault(pod.node, {})[pod.key] = pod
        elif pod.key not in info.pods:
            info.add(pod)
            self.scheduler.pod_added(info, pod)

    def mark_unschedulable(self, pod: SimulatedPod) -> None:
        """Write the scheduler's failure into a pod's status, as kube-scheduler does."""
        if condition_reason(pod.item, "PodScheduled") != "Unschedulable":
            status = pod.item.get("status") or {}
            others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
            unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            pod.item["status"] = {"phase": "Pending", **status, "conditions": [*others, unscheduled]}
            self._changed[f"Pod/{pod.key[0]}/{pod.key[1]}"] = (pod.item, _due_times(pod))

    def nominate(self, pod: SimulatedPod, node: str) -> None:
        """Write into a pending pod's status on which node it has preempted other pods, "" = on none."""
        status = {name: value for name, value in (pod.item.get("status") or {}).items() if name != "nominatedNodeName"}
        pod.item["status"] = {**status, "nominatedNodeName": node} if node else status
        self._changed[f"Pod/{pod.key[0]}/{pod.key[1]}"] = (pod.item, _due_times(pod))

    def drop_pod(self, pod: SimulatedPod) -> None:
        """Remove a pod."""
        self.budgets.pod_gone(pod)
        self.tallies.drop(pod.key)
        self.group_members.drop(pod)
        del self.pods_by_owner[pod.owner_uid][pod.key]
        if not self.pods_by_owner[pod.owner_uid]:
            del self.pods_by_owner[pod.owner_uid]
        del self.pods[pod.key]
        del self.pods_by_namespace[pod.key[0]][pod.key]
        self.pending.pop(pod.key, None)
        self.scheduler.withdraw(pod)
        info = self.nodes.get(pod.node)
        if info is not None:
            info.remove(pod)
            self.scheduler.pod_removed(info, pod)
        else:
            self._astray.get(pod.node, {}).pop(pod.key, None)
        self.schedule_needed = True
        self._changed[f"Pod/{pod.key[0]}/{pod.key[1]}"] = None

    def put_instance(self, instance: SimulatedInstance) -> None:
        """Add or update a machine."""
        self.instances[instance.name] = instance
        self._instances_of.setdefault(instance.group, {})[instance.name] = instance
        self.instance_changes += 1
        self._name_of[instance.provider_id] = instance.name
        key = f"Instance//{instance.name}"
        for due_ms in (instance.start_due_ms, instance.gone_due_ms):
            if due_ms:
                heapq.heappush(self._due, (due_ms, key))
        self._changed[key] = (asdict(instance), {})

    def drop_instance(self, name: str) -> None:
        """Remove a machine; its provider id is kept."""
        instance = self.instances.pop(name, None)
        if instance is None:
            return
        del self._instances_of[instance.group][name]
        self.instance_changes += 1
        self._changed[f"Instance//{name}"] = None
        del self._name_of[instance.provider_id]
        self.ended[instance.provider_id] = None
        self._changed[f"Ended//{instance.provider_id}"] = (instance.provider_id, {})
        while len(self.ended) > MAX_ENDED:
            oldest = next(iter(self.ended))
            del self.ended[oldest]
            self._changed[f"Ended//{oldest}"] = None

    def instances_of(self, group: str) -> Collection[SimulatedInstance]:
        """Return the machines of a group, in order of creation."""
        return self._instances_of.get(group, {}).values()

    def instance_of(self, provider_id: str) -> SimulatedInstance | None:
        """Return the machine with that provider id; None = there is none."""
        name = self._name_of.get(provider_id)
        return None if name is None else self.instances[name]

    def group_changed(self, group: str) -> None:
        """Call after a change of a node group's object."""
        self._changed[f"NodeGroup//{group}"] = (self.groups[group], {})

    def remember_token(self, token: str) -> None:
        """Record that a scale-up was made."""
        self.tokens.add(token)
        self._changed[f"Token//{token}"] = (token, {})

    def next_number(self) -> int:
        """Return a number that is in no generated name yet."""
        self.name_count += 1
        self._changed["NameCount//"] = (self.name_count, {})
        return self.name_count

    def note(self, what: str, subject: str) -> None:
        """Write a line of the journal."""
        self._entries.append(JournalEntry(self.now_ms, what, subject))

    def journal(self) -> list[JournalEntry]:
        """Return the events so far."""
        return self._database.journal()

    def next_due_ms(self) -> int | None:
        """Return when the next event is due, None = none is."""
        return self._due[0][0] if self._due else None

    def next_due(self, until_ms: int) -> Iterator[tuple[int, str]]:
        """Remove and yield the events due by then, in order of time: due time and key of a pod or an instance."""
        while self._due and self._due[0][0] <= until_ms:
            yield heapq.heappop(self._due)

    def flush(self) -> None:
        """Write all changes since the last time, in one transaction."""
        if self._changed or self._entries:
            self._database.save(self._changed, self._entries)
            self._changed, self._entries = {}, []

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _restore(self, key: str, item: Any, more: dict[str, int]) -> None:
        kind = key.split("/", 1)[0]
        match kind:
            case "Instance":
                self.put_instance(SimulatedInstance(**item))
            case "Token":
                self.tokens.add(item)
            case "Ended":
                self.ended[item] = None
            case "NameCount":
                self.name_count = item
            case "Pod":
                self.put_pod(SimulatedPod(item, **more))
            case _:
                self.put(item)
        self._changed.pop(key, None)

    def _add_instances(self) -> None:
        """Add the machines and sizes of the node groups just read."""
        for name, group in sorted(self.groups.items()):
            spec = group.setdefault("spec", {})
            nodes = [node for node in sorted(self.nodes) if self._is_member(node, spec)]
            for node in nodes:
                self.put_instance(SimulatedInstance(node, name, self._provider_id(node)))
            spec.setdefault("targetSize", len(nodes))
            spec.setdefault("minSize", 0)
            spec.setdefault("maxSize", max(1000, spec["targetSize"]))
            for field in ("minSize", "maxSize", "targetSize"):
                if type(spec[field]) is not int or spec[field] < 0:
                    raise ObjectFileError(f"NodeGroup {name}: spec.{field} must be a whole number, not {spec[field]!r}")
            self.group_changed(name)

    def _provider_id(self, node: str) -> str:
        """Return the provider id of a node that was read; generate one if it has none. Raises `ObjectFileError`."""
        info = self.nodes[node]
        spec = info.node.setdefault("spec", {})
        if not spec.get("providerID"):
            spec["providerID"] = made_provider_id(node)
            self.node_changed(info)
        provider_id = str(spec["providerID"])
        if provider_id in self._name_of:
            raise ObjectFileError(
                f"Node {node}: spec.providerID {provider_id} is that of {self._name_of[provider_id]} too"
            )
        return provider_id

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
        return selects(selector, labels_of(self.nodes[node].node))


def _due_times(pod: SimulatedPod) -> dict[str, int]:
    """Return the data kept of a pod besides its object."""
    return {"ready_due_ms": pod.ready_due_ms, "gone_due_ms": pod.gone_due_ms}


def made_provider_id(node: str) -> str:
    """Return the provider id of a machine of this cloud."""
    return f"memory:///{node}"


def _key(item: Object) -> str:
    """Return "Kind/namespace/name"; nodes and node groups have no namespace, pods and budgets always one."""
    kind, metadata = item["kind"], item["metadata"]
    if kind in ("Node", "NodeGroup"):
        return f"{kind}//{metadata['name']}"
    default = "default" if kind in ("Pod", "PodDisruptionBudget") else ""
    return f"{kind}/{metadata.get('namespace') or default}/{metadata['name']}"
