"""What happens by itself in the in-memory cluster: pods become ready and vanish, owners replace them, the scheduler
places them, machines start and end.

Decides by time alone and deterministically: the same calls at the same times give the same cluster. Times are Unix
milliseconds.
"""

import copy
import hashlib
from dataclasses import dataclass

from actuator.cloud.memory.objects import Object, condition, desired_replicas, made_uid
from actuator.cloud.memory.pods import RECREATED_KINDS, Pod, format_time
from actuator.cloud.memory.scheduler import Room, choose
from actuator.cloud.memory.world import Instance, World

# What pod and node names made up here end in: letters that make no words.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
HOSTNAME_LABEL = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Delays:
    """How long things take, seconds."""

    # From binding to ready: pulling an image and starting take a few.
    pod_start_s: float = 2.0
    # From being told to go to gone, at most the pod's grace period.
    pod_stop_s: float = 1.0
    # From the cloud's yes to a ready node.
    node_start_s: float = 5.0
    # From the cloud's yes to an instance that is gone.
    instance_delete_s: float = 2.0


class Controllers:
    """The controllers of one world."""

    def __init__(self, world: World, delays: Delays) -> None:
        self._world = world
        self._delays = delays

    def advance(self, now_ms: int) -> None:
        """Let everything happen that is due, in order of time."""
        for due_ms, key in self._world.next_due(now_ms):
            # A clock that went back does not take back what has happened.
            self._world.now_ms = max(self._world.now_ms, due_ms)
            kind, namespace, name = key.split("/", 2)
            if kind == "Pod":
                self._pod_due(self._world.pods.get((namespace, name)), due_ms)
            else:
                self._instance_due(self._world.instances.get(name), due_ms)
            self.schedule()
        self._world.now_ms = max(self._world.now_ms, now_ms)
        self.schedule()

    def terminate(self, pod: Pod, grace_s: int) -> None:
        """Tell a pod to go. Owners other than StatefulSets replace it at once, as theirs counts active pods only."""
        world = self._world
        pod.item["metadata"]["deletionTimestamp"] = format_time(world.now_ms + grace_s * 1000)
        pod.item["metadata"]["deletionGracePeriodSeconds"] = grace_s
        pod.ready_due_ms = 0
        pod.gone_due_ms = world.now_ms + int(min(grace_s, self._delays.pod_stop_s) * 1000)
        world.put_pod(pod)
        if pod.owner.get("kind") != "StatefulSet":
            self._replace(pod)

    def finish_terminating(self) -> None:
        """Let pods go that were being told so when the cluster was recorded."""
        for pod in list(self._world.pods.values()):
            if pod.terminating and not pod.gone_due_ms:
                pod.gone_due_ms = self._world.now_ms + max(1, int(self._delays.pod_stop_s * 1000))
                self._world.put_pod(pod)

    def grow(self, group: str, delta: int) -> None:
        """Start machines."""
        for _ in range(delta):
            name = f"{group}-{_suffix(group, self._world.next_number())}"
            due_ms = self._world.now_ms + max(1, int(self._delays.node_start_s * 1000))
            self._world.put_instance(Instance(name, group, start_due_ms=due_ms))

    def end_instance(self, instance: Instance) -> None:
        """Begin to end a machine."""
        instance.gone_due_ms = self._world.now_ms + max(1, int(self._delays.instance_delete_s * 1000))
        self._world.put_instance(instance)

    def schedule(self) -> None:
        """Place what can be placed: by priority, then age, then name."""
        world = self._world
        if not world.schedule_needed:
            return
        world.schedule_needed = False
        for pod in sorted(world.pending.values(), key=_scheduling_order):
            room = choose(pod, world.rooms.values())
            if room is not None:
                self._bind(pod, room)

    def _bind(self, pod: Pod, room: Room) -> None:
        pod.spec["nodeName"] = room.name
        pod.item["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        pod.ready_due_ms = self._world.now_ms + max(1, int(self._delays.pod_start_s * 1000))
        self._world.put_pod(pod)

    def _pod_due(self, pod: Pod | None, due_ms: int) -> None:
        if pod is None:
            return
        if pod.gone_due_ms == due_ms:
            self._world.drop_pod(pod)
            if pod.owner.get("kind") == "StatefulSet":
                self._replace(pod)
        elif pod.ready_due_ms == due_ms and not pod.terminating:
            started = format_time(due_ms)
            kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            pod.item["status"] = {
                "phase": "Running",
                "startTime": started,
                "conditions": [{"type": kind, "status": "True", "lastTransitionTime": started} for kind in kinds],
            }
            pod.ready_due_ms = 0
            self._world.put_pod(pod)

    def _replace(self, pod: Pod) -> None:
        """Let the owner create a pod in the place of one that goes, unless it has enough."""
        if pod.owner.get("kind") not in RECREATED_KINDS or not self._wants_more(pod):
            return
        world, number = self._world, self._world.next_number()
        new = copy.deepcopy(pod.item)
        metadata = new["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = made_uid(pod.uid, number)
        metadata["creationTimestamp"] = format_time(world.now_ms)
        if pod.owner.get("kind") != "StatefulSet":
            prefix = metadata.get("generateName") or f"{pod.owner.get('name')}-"
            metadata["generateName"] = prefix
            metadata["name"] = prefix + _suffix(pod.uid, number)
        new["spec"].pop("nodeName", None)
        new["status"] = {"phase": "Pending"}
        world.put_pod(Pod(new))
        world.note("recreated", f"{pod.key[0]}/{metadata['name']}")

    def _wants_more(self, pod: Pod) -> bool:
        owner = self._world.owners.get(pod.owner_uid)
        wanted = desired_replicas(owner) if owner else None
        if wanted is None:
            return True
        siblings = self._world.pods_by_owner.get(pod.owner_uid, {}).values()
        return len([other for other in siblings if other.active]) < wanted

    def _instance_due(self, instance: Instance | None, due_ms: int) -> None:
        if instance is None:
            return
        if instance.gone_due_ms == due_ms:
            self.lose_node(instance.name)
            self._world.drop_instance(instance.name)
        elif instance.start_due_ms == due_ms:
            instance.start_due_ms = 0
            self._world.put_instance(instance)
            self._start_node(instance)

    def lose_node(self, name: str) -> None:
        """Take a node away with the pods still on it; owners replace those, and the journal names them."""
        world = self._world
        room = world.rooms.get(name)
        for pod in sorted(room.pods.values(), key=lambda pod: pod.key) if room else ():
            if not pod.stays_with_node and pod.active:
                world.note("pod_lost", f"{pod.key[0]}/{pod.key[1]}")
            world.drop_pod(pod)
            if pod.active or pod.owner.get("kind") == "StatefulSet":
                self._replace(pod)
        world.drop_node(name)
        instance = world.instances.get(name)
        members = world.groups[instance.group]["spec"].get("nodes") if instance else None
        if instance and members and name in members:
            members.remove(name)
            world.group_changed(instance.group)

    def _start_node(self, instance: Instance) -> None:
        """Turn a machine into a node with its DaemonSet pods."""
        world = self._world
        group = world.groups[instance.group]
        node = self._new_node(instance, group)
        if group["spec"].get("nodes") is not None:
            group["spec"]["nodes"].append(instance.name)
            world.group_changed(instance.group)
        world.put_node(node)
        self._start_daemons(world.rooms[instance.name])

    def _new_node(self, instance: Instance, group: Object) -> Object:
        template = copy.deepcopy(group["spec"].get("template") or self._like_a_member(instance.group))
        status = template.get("status") or {}
        selector = group["spec"].get("nodeSelector") or {}
        labels = {**((template.get("metadata") or {}).get("labels") or {}), **(selector.get("matchLabels") or selector)}
        now = format_time(self._world.now_ms)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": instance.name,
                "uid": made_uid(instance.name, 0),
                "creationTimestamp": now,
                "labels": {**labels, HOSTNAME_LABEL: instance.name},
            },
            "spec": {
                "providerID": f"memory:///{instance.name}",
                "taints": (template.get("spec") or {}).get("taints") or [],
            },
            "status": {
                "capacity": status.get("capacity") or status.get("allocatable") or {},
                "allocatable": status.get("allocatable") or status.get("capacity") or {},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            },
        }

    def _like_a_member(self, group: str) -> Object:
        """A template made of the first node of the group; {} when it has none."""
        for name, instance in sorted(self._world.instances.items()):
            if instance.group == group and name in self._world.rooms:
                return {**self._world.rooms[name].node, "spec": {}}
        return {}

    def _start_daemons(self, room: Room) -> None:
        """One pod of every DaemonSet that has a pod elsewhere and tolerates the node, made like that pod."""
        models: dict[str, Pod] = {}
        for key in sorted(self._world.pods):
            pod = self._world.pods[key]
            if pod.owner.get("kind") == "DaemonSet" and pod.active:
                models.setdefault(str(pod.owner.get("uid")), pod)
        for model in models.values():
            new = copy.deepcopy(model.item)
            new["spec"].pop("nodeName", None)
            (new["spec"].get("affinity") or {}).pop("nodeAffinity", None)
            number = self._world.next_number()
            prefix = new["metadata"].get("generateName") or f"{model.owner.get('name')}-"
            new["metadata"].update(name=prefix + _suffix(model.uid, number), uid=made_uid(model.uid, number))
            pod = Pod(new)
            if room.static_fit(pod)[0] and room.fits(pod):
                self._bind(pod, room)


def write_owner_status(owner: Object, pods: list[Pod]) -> None:
    """Write how many pods a controller has into its status, as it would itself."""
    active = sum(pod.active for pod in pods)
    ready = sum(pod.active and condition(pod.item, "Ready") for pod in pods)
    fields = {"active": active} if owner["kind"] == "Job" else {"replicas": active, "readyReplicas": ready}
    owner["status"] = {**(owner.get("status") or {}), **fields}


def _scheduling_order(pod: Pod) -> tuple[int, str, tuple[str, str]]:
    created = str(pod.item["metadata"].get("creationTimestamp") or "")
    return -int(pod.spec.get("priority") or 0), created, pod.key


def _suffix(seed: str, number: int) -> str:
    """Five letters."""
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    return "".join(SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)] for byte in digest[:5])
