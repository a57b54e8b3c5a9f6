"""The controllers of the simulated cluster: pods become ready and end, owners replace them, the scheduler places them,
machines start and end.

Deterministic: the same calls at the same times give the same cluster. Times are Unix
milliseconds.
"""

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.objects import desired_replicas, made_uid
from trimtab.clients.simulation.cluster.pod_groups import SchedulingTurn, fitting_kind, place
from trimtab.clients.simulation.cluster.pods import RECREATED_KINDS, SimulatedPod, format_time
from trimtab.clients.simulation.cluster.preemptor import Preemptor
from trimtab.clients.simulation.cluster.state import ClusterState, SimulatedInstance, made_provider_id
from trimtab.clients.simulation.cluster.tallies import OwnerTally
from trimtab.clients.simulation.cluster.volumes import csi_node
from trimtab.common.kubernetes.object_files import Object
from trimtab.common.kubernetes.signals import well_known

# Letters of generated name suffixes; they cannot form words.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
HOSTNAME_LABEL = well_known.HOSTNAME.key


@dataclass(frozen=True)
class Delays:
    """Durations of operations, seconds."""

    # From binding to ready: pulling an image and starting take a few.
    pod_start_s: float = 2.0
    # From the start of the termination to its end, at most the pod's grace period.
    pod_stop_s: float = 1.0
    # From the accepted request to a ready node.
    node_start_s: float = 5.0
    # From the accepted request to the deleted instance.
    instance_delete_s: float = 2.0

    def pod_start_of(self, pod: SimulatedPod) -> float:
        """Return how long one pod takes to become ready, seconds."""
        del pod
        return self.pod_start_s

    def node_start_of(self, name: str, group: str) -> float:
        """Return how long one machine takes to become a ready node, seconds."""
        del name, group
        return self.node_start_s

    def is_broken(self, name: str, group: str) -> bool:
        """Return whether a machine never becomes a node: it disappears at the time when it would become one."""
        del name, group
        return False


class Controllers:
    """The controllers of one cluster."""

    def __init__(self, state: ClusterState, delays: Delays) -> None:
        self._state = state
        self._delays = delays
        # Attach limits of new nodes, by node group and driver.
        self.attach_limits: dict[str, Mapping[str, int]] = {}

    def advance(self, now_ms: int) -> None:
        """Run everything that is due, in order of time."""
        for due_ms, key in self._state.next_due(now_ms):
            # A clock that jumps back does not undo anything.
            self._state.now_ms = max(self._state.now_ms, due_ms)
            kind, namespace, name = key.split("/", 2)
            if kind == "Pod":
                self._pod_due(self._state.pods.get((namespace, name)), due_ms)
            else:
                self._instance_due(self._state.instances.get(name), due_ms)
            self.schedule()
        self._state.now_ms = max(self._state.now_ms, now_ms)
        self.schedule()

    def terminate(self, pod: SimulatedPod, grace_s: int) -> None:
        """Terminate a pod. Owners other than StatefulSets replace it at once, as they count only active pods."""
        state = self._state
        pod.item["metadata"]["deletionTimestamp"] = format_time(state.now_ms + grace_s * 1000)
        pod.item["metadata"]["deletionGracePeriodSeconds"] = grace_s
        pod.ready_due_ms = 0
        pod.gone_due_ms = state.now_ms + int(min(grace_s, self._delays.pod_stop_s) * 1000)
        state.put_pod(pod)
        if pod.owner.get("kind") != "StatefulSet":
            self._replace(pod)

    def finish_terminating(self) -> None:
        """Terminate the pods that were terminating when the cluster was recorded."""
        for pod in list(self._state.pods.values()):
            if pod.terminating and not pod.gone_due_ms:
                pod.gone_due_ms = self._state.now_ms + max(1, int(self._delays.pod_stop_s * 1000))
                self._state.put_pod(pod)

    def grow(self, group: str, delta: int) -> None:
        """Start machines."""
        for _ in range(delta):
            name = self._new_name(group)
            due_ms = self._state.now_ms + max(1, int(self._delays.node_start_of(name, group) * 1000))
            self._state.put_instance(SimulatedInstance(name, group, made_provider_id(name), start_due_ms=due_ms))

    def _new_name(self, group: str) -> str:
        """Return a name that no machine has."""
        while True:
            name = f"{group}-{_suffix(group, self._state.next_number())}"
            if name not in self._state.instances and name not in self._state.nodes:
                return name

    def start_at_once(self, group: str, count: int) -> None:
        """Add machines that are nodes at once, as at the beginning of a simulation."""
        spec = self._state.groups[group]["spec"]
        spec["targetSize"] += count
        self._state.group_changed(group)
        for _ in range(count):
            name = self._new_name(group)
            instance = SimulatedInstance(name, group, made_provider_id(name))
            self._state.put_instance(instance)
            self._start_node(instance)

    def create_pod(self, owner: Object, template: Object, number: int | None = None) -> None:
        """Create a pending pod of a controller; the name of a StatefulSet's pod ends with its number."""
        item = pod_of_template(owner, template)
        metadata = item["metadata"]
        while True:
            serial = self._state.next_number()
            uid = made_uid(owner["metadata"]["uid"], serial)
            name = metadata["generateName"] + (_suffix(uid, serial) if number is None else str(number))
            if number is not None or (metadata["namespace"], name) not in self._state.pods:
                break
        metadata.update(name=name, uid=uid, creationTimestamp=format_time(self._state.now_ms))
        item["spec"] = dict(item["spec"])
        self._state.volumes.add_claims(owner, item)
        self._state.put_pod(SimulatedPod(item))

    def end_instance(self, instance: SimulatedInstance) -> None:
        """Begin the deletion of a machine."""
        instance.gone_due_ms = self._state.now_ms + max(1, int(self._delays.instance_delete_s * 1000))
        self._state.put_instance(instance)

    def schedule(self) -> None:
        """Schedule pending pods where possible: by priority, then age, then name; those of a gang together."""
        state = self._state
        if not state.schedule_needed:
            return
        state.schedule_needed = False
        # Pods like one that fits nowhere fit nowhere either, until another pod changes the counts of affinity and
        # spread.
        hopeless: set[tuple[object, ...]] = set()
        preemptor = Preemptor(state, self.terminate)
        for turn in state.group_members.turns(state):
            if turn.is_gang:
                self._schedule_gang(turn, hopeless)
                continue
            pod = turn.pods[0]
            alike = fitting_kind(pod)
            info = None if alike in hopeless and not pod.nominated_node else state.scheduler.choose(pod)
            if info is not None:
                self._bind(pod, info)
                # A pod whose affinity waits for another pod is tried again.
                state.schedule_needed = bool(hopeless)
                continue
            hopeless.add(alike)
            state.mark_unschedulable(pod)
            preemptor.preempt(pod, alike)
        if preemptor.has_preempted:
            # The pods created in place of the victims are tried now.
            self.schedule()

    def _schedule_gang(self, gang: SchedulingTurn, hopeless: set[tuple[object, ...]]) -> None:
        """Bind the pods of a gang that have a place, or none. hopeless : gets a mark if some have none."""
        found = place(self._state.scheduler, gang)
        for pod, info in found.places:
            self._bind(pod, info)
        for pod in found.rejected:
            self._state.mark_unschedulable(pod)
            hopeless.add(("gang", pod.key))
        if found.places:
            self._state.schedule_needed = bool(hopeless)

    def _bind(self, pod: SimulatedPod, info: NodeInfo) -> None:
        if pod.claims:
            self._state.volumes.bind(pod, info)
        pod.spec["nodeName"] = info.name
        pod.item["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        pod.ready_due_ms = self._state.now_ms + max(1, int(self._delays.pod_start_of(pod) * 1000))
        self._state.put_pod(pod)

    def _pod_due(self, pod: SimulatedPod | None, due_ms: int) -> None:
        if pod is None:
            return
        if pod.gone_due_ms == due_ms:
            self._state.drop_pod(pod)
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
            self._state.put_pod(pod)

    def _replace(self, pod: SimulatedPod) -> None:
        """Create a pod in place of one that terminates, unless its owner has enough."""
        if pod.owner.get("kind") not in RECREATED_KINDS or not self._wants_more(pod):
            return
        state, number = self._state, self._state.next_number()
        new = copy.deepcopy(pod.item)
        metadata = new["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = made_uid(pod.uid, number)
        metadata["creationTimestamp"] = format_time(state.now_ms)
        if pod.owner.get("kind") != "StatefulSet":
            prefix = metadata.get("generateName") or f"{pod.owner.get('name')}-"
            metadata["generateName"] = prefix
            metadata["name"] = prefix + _suffix(pod.uid, number)
        new["spec"].pop("nodeName", None)
        new["status"] = {"phase": "Pending"}
        state.put_pod(SimulatedPod(new))
        state.note("recreated", f"{pod.key[0]}/{metadata['name']}")

    def _wants_more(self, pod: SimulatedPod) -> bool:
        owner = self._state.owners.get(pod.owner_uid)
        wanted = desired_replicas(owner) if owner else None
        if wanted is None:
            return True
        return self._state.tallies.of(pod.owner_uid).active < wanted

    def _instance_due(self, instance: SimulatedInstance | None, due_ms: int) -> None:
        if instance is None:
            return
        if instance.gone_due_ms == due_ms:
            self.lose_node(instance.name)
            self._state.drop_instance(instance.name)
        elif instance.start_due_ms == due_ms:
            if self._delays.is_broken(instance.name, instance.group):
                self._give_up(instance)
                return
            instance.start_due_ms = 0
            self._state.put_instance(instance)
            self._start_node(instance)

    def _give_up(self, instance: SimulatedInstance) -> None:
        """Drop a machine that never became a node, as a cloud without capacity does."""
        group = self._state.groups[instance.group]
        group["spec"]["targetSize"] -= 1
        self._state.group_changed(instance.group)
        self._state.note("start_failed", instance.name)
        self._state.drop_instance(instance.name)

    def lose_node(self, name: str) -> None:
        """Remove a node with the pods still on it; owners replace those, and the journal names them."""
        state = self._state
        info = state.nodes.get(name)
        for pod in sorted(info.pods.values(), key=lambda pod: pod.key) if info else ():
            if not pod.stays_with_node and pod.active:
                state.note("pod_lost", f"{pod.key[0]}/{pod.key[1]}")
            state.drop_pod(pod)
            if pod.active or pod.owner.get("kind") == "StatefulSet":
                self._replace(pod)
        state.drop_node(name)
        drivers = state.others.get(f"CSINode//{name}")
        if drivers is not None:
            state.drop(drivers)
        instance = state.instances.get(name)
        members = state.groups[instance.group]["spec"].get("nodes") if instance else None
        if instance and members and name in members:
            members.remove(name)
            state.group_changed(instance.group)

    def _start_node(self, instance: SimulatedInstance) -> None:
        """SchedulingTurn a machine into a node with its DaemonSet pods."""
        state = self._state
        group = state.groups[instance.group]
        node = self._new_node(instance)
        if group["spec"].get("nodes") is not None:
            group["spec"]["nodes"].append(instance.name)
            state.group_changed(instance.group)
        state.put_node(node)
        limits = self.attach_limits.get(instance.group)
        if limits:
            state.put(csi_node(instance.name, limits))
        self._start_daemons(state.nodes[instance.name])

    def template_of(self, group: str) -> tuple[Object, dict[str, str]]:
        """Return the Node object of the group's new nodes ({} = not known), and the additional labels that they get."""
        spec = self._state.groups[group]["spec"]
        selector = spec.get("nodeSelector") or {}
        return spec.get("template") or self._like_a_member(group), selector.get("matchLabels") or selector

    def _new_node(self, instance: SimulatedInstance) -> Object:
        template, selected = self.template_of(instance.group)
        template = copy.deepcopy(template)
        status = template.get("status") or {}
        labels = {**((template.get("metadata") or {}).get("labels") or {}), **selected}
        now = format_time(self._state.now_ms)
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
                "providerID": instance.provider_id,
                "taints": (template.get("spec") or {}).get("taints") or [],
            },
            "status": {
                "capacity": status.get("capacity") or status.get("allocatable") or {},
                "allocatable": status.get("allocatable") or status.get("capacity") or {},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            },
        }

    def _like_a_member(self, group: str) -> Object:
        """Return a template made from the group's first node; {} if it has none."""
        for name, instance in sorted(self._state.instances.items()):
            if instance.group == group and name in self._state.nodes:
                return {**self._state.nodes[name].node, "spec": {}}
        return {}

    def start_daemons_everywhere(self, owner: Object) -> None:
        """Create the pods of a new DaemonSet."""
        model = SimulatedPod(pod_of_template(owner, owner["spec"]["template"]))
        for info in list(self._state.nodes.values()):
            self._start_daemon(info, model)

    def _start_daemons(self, info: NodeInfo) -> None:
        """Create a pod of every DaemonSet that tolerates the node: a copy of another one, or from its template."""
        for model in self._daemon_models():
            self._start_daemon(info, model)

    def _start_daemon(self, info: NodeInfo, model: SimulatedPod) -> None:
        new = copy.deepcopy(model.item)
        new["spec"].pop("nodeName", None)
        (new["spec"].get("affinity") or {}).pop("nodeAffinity", None)
        number = self._state.next_number()
        prefix = new["metadata"].get("generateName") or f"{model.owner.get('name')}-"
        new["metadata"].update(
            name=prefix + _suffix(model.uid, number),
            uid=made_uid(model.uid, number),
            creationTimestamp=format_time(self._state.now_ms),
        )
        pod = SimulatedPod(new)
        if info.static_fit(pod)[0] and info.fits(pod):
            self._bind(pod, info)

    def _daemon_models(self) -> list[SimulatedPod]:
        """Return a pod of each DaemonSet, sorted by namespace and name: the first found, or one from its template."""
        state = self._state
        models = []
        for uid, owner in state.owners.items():
            if owner["kind"] == "DaemonSet" and uid not in state.pods_by_owner:
                template = (owner.get("spec") or {}).get("template")
                if template:
                    models.append(SimulatedPod(pod_of_template(owner, template)))
        for pods in state.pods_by_owner.values():
            if next(iter(pods.values())).owner.get("kind") == "DaemonSet":
                active = [pod for pod in pods.values() if pod.active]
                if active:
                    models.append(min(active, key=lambda pod: pod.key))
        return sorted(models, key=lambda pod: pod.key)


def pod_of_template(owner: Object, template: Object) -> Object:
    """Return a pending pod of a controller, named like it; the caller gives it its name and uid."""
    about = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": about["name"], "uid": about["uid"]}
    metadata = {
        **(template.get("metadata") or {}),
        "name": about["name"],
        "namespace": about.get("namespace") or "default",
        "uid": about["uid"],
        "generateName": f"{about['name']}-",
        "ownerReferences": [{**reference, "controller": True}],
    }
    spec = template.get("spec") or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def write_owner_status(owner: Object, pods: OwnerTally) -> None:
    """Write a controller's number of pods into its status, as the controller would."""
    is_job = owner["kind"] == "Job"
    fields = {"active": pods.active} if is_job else {"replicas": pods.active, "readyReplicas": pods.ready}
    owner["status"] = {**(owner.get("status") or {}), **fields}


def _suffix(seed: str, number: int) -> str:
    """Return five letters."""
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    return "".join(SUFFIX_LETTERS[byte % len(SUFFIX_LETTERS)] for byte in digest[:5])
