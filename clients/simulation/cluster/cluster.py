"""The simulated cluster behind the interface of a live one.

Decides what its API answers: evictions are refused with "too many requests" when they would violate a
PodDisruptionBudget. Every method is one transaction: it runs due events, acts, then writes to the database.
Thread-safe.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from trimtab.actuator.kube.cluster import (
    POD_COST_TIME_ANNOTATION,
    POD_COST_UNFINISHED_ANNOTATION,
    POD_RANK_ANNOTATION,
    ConflictError,
    CostWrite,
    ForeignCostError,
    GroupCost,
    GroupCostStatus,
    KnownBuffer,
    KnownCapacityRequest,
    KnownGroupCost,
    NodeView,
    NotFoundError,
    PodCost,
    PodView,
    RefusedError,
    TaintView,
    TooManyRequestsError,
    deletion_delayed,
    instance_type,
    node_quantities,
)
from trimtab.clients.simulation.cluster.controllers import Controllers, Delays, write_owner_status
from trimtab.clients.simulation.cluster.database import Database, JournalEntry, ObjectStore
from trimtab.clients.simulation.cluster.faults import Faults
from trimtab.clients.simulation.cluster.node_info import NodeInfo
from trimtab.clients.simulation.cluster.objects import controller_of
from trimtab.clients.simulation.cluster.pods import PodKey, SimulatedPod, parse_time_ms
from trimtab.clients.simulation.cluster.replicas import scale
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.clients.simulation.cluster.state import ClusterState
from trimtab.common.kubernetes.names import POD_COST_ANNOTATION
from trimtab.common.kubernetes.object_files import Object


class SimulatedCluster:
    """A `Cluster` (see `trimtab.actuator.kube.cluster`)."""

    def __init__(
        self,
        objects: Iterable[Object] = (),
        store: ObjectStore | Path | None = None,
        delays: Delays | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        scheduler: KubeScheduler | None = None,
    ) -> None:
        """Restore the cluster from the store or file; read `objects` and start from them only if it holds none.

        store : None = in memory; scheduler : None = one that packs pods densely, without chance. Raises `ObjectError`.
        """
        database = Database(store) if store is None or isinstance(store, Path) else store
        self.state = ClusterState(database, scheduler)
        self.controllers = Controllers(self.state, delays or Delays())
        self.faults = Faults(sleep)
        self._clock = clock
        self._lock = threading.RLock()
        # PodGroupCost objects by namespace and name; not kept in the file: their writer writes them again.
        self._group_costs: dict[tuple[str, str], KnownGroupCost] = {}
        self._buffers: dict[str, KnownBuffer] = {}
        # The nodes as last listed, and how often nodes had changed by then.
        self._listed: list[NodeView] = []
        self._listed_at = -1
        self.restored = self.state.restore()
        if not self.restored:
            self.state.fill(objects)
        with self.transaction() as state:
            self.controllers.finish_terminating()
            self._write_statuses(state)

    @contextmanager
    def transaction(self, operation: str = "", subject: str = "") -> Iterator[ClusterState]:
        """Run a block with exclusive access to the present state; changes are saved at its end, also on an error."""
        if operation:
            self.faults.strike(operation, subject)
        with self._lock:
            self.controllers.advance(int(self._clock() * 1000))
            try:
                yield self.state
                self.controllers.schedule()
            finally:
                self.state.flush()
        if operation:
            self.faults.after(operation, subject)

    def get_node(self, name: str, from_cache: bool = False) -> NodeView:
        """Return one node, as it is now."""
        del from_cache
        with self.transaction("get_node", name) as state:
            return _view(_node_info(state, name))

    def list_nodes(self) -> Sequence[NodeView]:
        """Return all nodes, sorted by name."""
        with self.transaction("list_nodes") as state:
            if self._listed_at != state.node_changes:
                self._listed = [_view(info) for _, info in sorted(state.nodes.items())]
                self._listed_at = state.node_changes
            return list(self._listed)

    def add_taint(self, node: str, taint: TaintView, uid: str = "") -> bool:
        """Add a taint."""
        with self.transaction("add_taint", node) as state:
            info = _node_info(state, node, uid)
            if _view(info).taint(taint.key) is not None:
                return False
            spec = info.node.setdefault("spec", {})
            spec["taints"] = [*(spec.get("taints") or ()), taint._asdict()]
            state.node_changed(info)
            state.note("tainted", f"{node} {taint.key}")
            return True

    def remove_taint(self, node: str, key: str, uncordon: bool = False, uid: str = "") -> bool:
        """Remove a taint, and uncordon with it."""
        with self.transaction("remove_taint", node) as state:
            info = _node_info(state, node, uid)
            if _view(info).taint(key) is None:
                return False
            taints = info.node["spec"]["taints"]
            info.node["spec"]["taints"] = [taint for taint in taints if taint.get("key") != key]
            if uncordon:
                info.node["spec"].pop("unschedulable", None)
            state.node_changed(info)
            state.note("untainted", f"{node} {key}")
            return True

    def list_pods(self, node: str, from_cache: bool = False) -> Sequence[PodView]:
        """Return the pods bound to a node, as they are now, sorted by namespace and name."""
        del from_cache
        with self.transaction("list_pods", node) as state:
            info = state.nodes.get(node)
            return [pod.view() for _, pod in sorted(info.pods.items())] if info else []

    def evict(self, pod: PodView, grace_s: int | None) -> None:
        """Evict a pod if its budget allows it."""
        with self.transaction("evict", pod.key) as state:
            found = state.pods.get((pod.namespace, pod.name))
            if found is None or found.uid != pod.uid:
                raise NotFoundError(f"pod {pod.key} with uid {pod.uid} does not exist")
            if found.terminating:
                state.note("evicted_twice", found.uid)
                return
            self._check_budget(state, found)
            state.note("daemon_evicted" if found.daemon else "evicted", found.uid)
            self.controllers.terminate(found, found.grace_s if grace_s is None else grace_s)

    def delete_node(self, name: str, uid: str) -> None:
        """Delete exactly this node object; its pods go with it."""
        with self.transaction("delete_node", name) as state:
            info = state.nodes.get(name)
            if info is not None and _view(info).uid == uid:
                self.controllers.lose_node(name)

    def pod_costs(self, keys: Sequence[str]) -> Mapping[str, PodCost]:
        """Return those of the pods that exist."""
        with self.transaction("pod_costs") as state:
            pods = (state.pods.get(_pod_key(key)) for key in keys)
            return {"/".join(pod.key): _cost(pod) for pod in pods if pod is not None}

    def own_pod_costs(self) -> Sequence[PodCost]:
        """Return all pods with a cost of ours."""
        with self.transaction("own_pod_costs") as state:
            return [cost for _, pod in sorted(state.pods.items()) if (cost := _cost(pod)).made is not None]

    def write_pod_cost(self, pod: PodCost, cost: CostWrite | None) -> None:
        """Write or remove a pod's deletion cost; another client's cost stays."""
        with self.transaction("write_pod_cost", pod.key) as state:
            found = state.pods.get((pod.namespace, pod.name))
            if found is None or found.uid != pod.uid:
                raise NotFoundError(f"pod {pod.key} with uid {pod.uid} does not exist")
            if _cost(found).is_foreign:
                raise ForeignCostError(f"pod {pod.key}: another client has set its cost")
            ours = CostWrite(0, "", unfinished=True).annotations()
            texts = {name: text for name, text in found.annotations.items() if name not in ours}
            found.item["metadata"]["annotations"] = texts | (cost.annotations() if cost is not None else {})
            state.put_pod(found)
            state.note("cost_written", pod.key)

    def group_costs(self) -> Sequence[KnownGroupCost]:
        """Return all PodGroupCost objects."""
        with self.transaction("group_costs"):
            return [known for _, known in sorted(self._group_costs.items())]

    def write_group_cost(self, cost: GroupCost) -> int:
        """Write a PodGroupCost."""
        with self.transaction("write_group_cost", cost.name):
            known = self._group_costs.get((cost.namespace, cost.name))
            generation = known.generation + 1 if known else 1
            self._group_costs[cost.namespace, cost.name] = KnownGroupCost(cost, generation, None)
            return generation

    def write_group_cost_status(self, cost: GroupCost, generation: int, status: GroupCostStatus) -> None:
        """Write the status of a PodGroupCost."""
        with self.transaction("write_group_cost_status", cost.name):
            known = self._group_costs[cost.namespace, cost.name]
            if known.generation == generation:
                self._group_costs[cost.namespace, cost.name] = known._replace(status=status)

    def delete_group_cost(self, namespace: str, name: str) -> None:
        """Delete a PodGroupCost."""
        with self.transaction("delete_group_cost", name):
            self._group_costs.pop((namespace, name), None)

    def put_buffer(self, buffer: KnownBuffer) -> None:
        """Create or replace a CapacityBuffer, as its user does."""
        with self.transaction("put_buffer", buffer.key):
            self._buffers[buffer.key] = buffer

    def buffers(self) -> Sequence[KnownBuffer]:
        """Return all CapacityBuffers."""
        with self.transaction("buffers"):
            return [one for _, one in sorted(self._buffers.items())]

    def write_buffer_status(self, buffer: KnownBuffer, status: Mapping[str, Any]) -> None:
        """Write the status of a CapacityBuffer."""
        with self.transaction("write_buffer_status", buffer.key):
            if buffer.key not in self._buffers:
                raise NotFoundError(f"CapacityBuffer {buffer.key} does not exist")
            self._buffers[buffer.key] = self._buffers[buffer.key]._replace(status=dict(status))

    def put_capacity_request(self, request: KnownCapacityRequest) -> None:
        """Create or replace a ProvisioningRequest, as its user does."""
        with self.transaction("put_capacity_request", request.key) as state:
            state.put(request_object(request))

    def capacity_requests(self) -> Sequence[KnownCapacityRequest]:
        """Return all ProvisioningRequests."""
        with self.transaction("capacity_requests") as state:
            return [known_request(item) for _, item in sorted(state.others.items()) if item["kind"] == REQUEST]

    def write_capacity_conditions(self, request: KnownCapacityRequest, conditions: Sequence[Mapping[str, Any]]) -> None:
        """Write the conditions of a ProvisioningRequest that has not changed since it was read."""
        with self.transaction("write_capacity_conditions", request.key) as state:
            item = state.others.get(f"{REQUEST}/{request.key}")
            if item is None:
                raise NotFoundError(f"ProvisioningRequest {request.key} does not exist")
            stored = known_request(item)
            if (stored.uid, stored.resource_version) != (request.uid, request.resource_version):
                raise ConflictError(f"ProvisioningRequest {request.key} has changed")
            state.put(with_conditions(item, conditions))

    def scale(self, namespace: str, name: str, replicas: int) -> None:
        """Set the size of a ReplicaSet and of the Deployment that owns it. Raises `NotFoundError`."""
        with self.transaction("scale", name) as state:
            owner = state.others.get(f"ReplicaSet/{namespace}/{name}")
            if owner is None:
                raise NotFoundError(f"ReplicaSet {namespace}/{name} does not exist")
            scale(state, self.controllers, owner, replicas)
            above = state.owners.get(str(controller_of(owner).get("uid") or ""))
            if above is not None:
                above["spec"]["replicas"] = replicas
                state.put(above)

    def objects(self) -> list[Object]:
        """Return all objects, with the status that controllers would write, sorted by kind, namespace, name."""
        # Copied through JSON: the result does not change with the cluster.
        copied: list[Object] = msgspec.json.decode(self.encoded_objects())
        return copied

    def encoded_objects(self) -> bytes:
        """Return `objects()` as a JSON array."""
        with self.transaction() as state:
            self._write_statuses(state)
            found: list[Object] = [*state.groups.values(), *state.budgets.items.values(), *state.others.values()]
            found += [info.node for info in state.nodes.values()]
            found += [pod.item for pod in state.pods.values()]
            found.sort(key=lambda o: (o["kind"], o["metadata"].get("namespace") or "", o["metadata"]["name"]))
            return msgspec.json.encode(found)

    def journal(self) -> list[JournalEntry]:
        """Return the events so far: tainted, untainted, evicted, daemon_evicted, evicted_twice, preempted, recreated,
        pod_lost, grown, deleted, reclaimed, cost_written.
        """
        with self.transaction() as state:
            state.flush()
            return state.journal()

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self.state.close()

    def _check_budget(self, state: ClusterState, pod: SimulatedPod) -> None:
        """Raise unless the eviction API would grant the eviction.

        Source: Kubernetes, pkg/registry/core/pod/storage/eviction.go.
        """
        if pod.terminal or pod.phase == "Pending":
            return
        keys = state.budgets.of(pod)
        if not keys:
            return
        if len(keys) > 1:
            raise RefusedError(f"pod {pod.key[0]}/{pod.key[1]} is covered by {len(keys)} PodDisruptionBudgets")
        status = state.budgets.status(keys[0])
        if not pod.ready:
            policy = (state.budgets.items[keys[0]].get("spec") or {}).get("unhealthyPodEvictionPolicy")
            if policy == "AlwaysAllow" or status.current_healthy >= status.desired_healthy > 0:
                return
        if status.disruptions_allowed < 1:
            raise TooManyRequestsError(
                f"budget {keys[0][0]}/{keys[0][1]} needs {status.desired_healthy} healthy pods and has"
                f" {status.current_healthy}"
            )

    def _write_statuses(self, state: ClusterState) -> None:
        state.budgets.write_statuses()
        for uid, owner in state.owners.items():
            if owner["kind"] not in ("Deployment", "DaemonSet"):
                write_owner_status(owner, state.tallies.of(uid))


def _pod_key(key: str) -> PodKey:
    namespace, _, name = key.partition("/")
    return namespace, name


def _cost(pod: SimulatedPod) -> PodCost:
    texts, owner = pod.annotations, pod.owner
    return PodCost(
        *pod.key,
        pod.uid,
        texts.get(POD_COST_ANNOTATION),
        texts.get(POD_RANK_ANNOTATION),
        texts.get(POD_COST_TIME_ANNOTATION),
        f"{owner['kind']}/{pod.key[0]}/{owner['name']}" if owner else "",
        POD_COST_UNFINISHED_ANNOTATION in texts,
    )


def _node_info(state: ClusterState, name: str, uid: str = "") -> NodeInfo:
    info = state.nodes.get(name)
    if info is None or (uid and _view(info).uid != uid):
        raise NotFoundError(f"node {name} does not exist{uid and f' with uid {uid}'}")
    return info


def _view(info: NodeInfo) -> NodeView:
    if info.view is None:
        info.view = _read_view(info)
    return info.view


def _read_view(info: NodeInfo) -> NodeView:
    spec = info.node.get("spec") or {}
    taints = [TaintView(t.get("key", ""), t.get("value") or "", t.get("effect", "")) for t in spec.get("taints") or ()]
    gpu = any(name.endswith("/gpu") and amount > 0 for name, amount in info.allocatable.items())
    metadata = info.node["metadata"]
    delayed = deletion_delayed(metadata.get("annotations"))
    status = info.node.get("status") or {}
    conditions = status.get("conditions") or ()
    return NodeView(
        name=info.name,
        uid=str(metadata.get("uid") or ""),
        provider_id=spec.get("providerID") or "",
        taints=tuple(taints),
        gpu=gpu,
        deletion_delayed=delayed,
        ready=any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions),
        created_ms=parse_time_ms(metadata.get("creationTimestamp")),
        instance_type=instance_type(metadata.get("labels")),
        capacity=node_quantities(status.get("capacity")),
        allocatable=node_quantities(status.get("allocatable")),
    )


REQUEST: Final = "ProvisioningRequest"
"""See kubernetes/autoscaler, cluster-autoscaler/apis. The content of conditions is not decided here."""


def known_request(item: Object) -> KnownCapacityRequest:
    """Return a request as the actuator reads it."""
    metadata = item["metadata"]
    return KnownCapacityRequest(
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
        int(metadata.get("generation") or 0),
        metadata.get("resourceVersion") or "",
        tuple((item.get("status") or {}).get("conditions") or ()),
    )


def request_object(request: KnownCapacityRequest) -> Object:
    """Return the object of a request, without pods."""
    metadata = {
        "namespace": request.namespace,
        "name": request.name,
        "uid": request.uid,
        "generation": request.generation,
        "resourceVersion": request.resource_version,
    }
    status = {"conditions": [dict(each) for each in request.conditions]}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": REQUEST,
        "metadata": metadata,
        "spec": {},
        "status": status,
    }


def with_conditions(item: Object, conditions: Sequence[Mapping[str, Any]]) -> Object:
    """Return a request with all its conditions replaced, in its next version."""
    version = str(int(item["metadata"].get("resourceVersion") or "0") + 1)
    status = {**(item.get("status") or {}), "conditions": [dict(condition) for condition in conditions]}
    return {**item, "metadata": {**item["metadata"], "resourceVersion": version}, "status": status}
