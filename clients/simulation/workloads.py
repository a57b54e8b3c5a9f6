"""External events of a simulated cluster: workloads change their size, jobs arrive and end.

Decides their times, only from the scenario and the trace; the cluster decides which pods go and where new ones run. A
pod's lifetime starts when it is ready: it starts again for an evicted pod. Units: seconds, Unix time.
"""

import copy
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.pod_groups import group_of
from trimtab.clients.simulation.cluster.pods import SimulatedPod, format_time
from trimtab.clients.simulation.cluster.replicas import scale
from trimtab.clients.simulation.loads import arrivals, changes
from trimtab.clients.simulation.objects import (
    budget,
    controller,
    gang_name,
    job,
    pod_group,
    pod_template,
    provisioning_request,
    requested_template,
)
from trimtab.clients.simulation.recorded import RecordedCluster
from trimtab.clients.simulation.scenario import Batch, PodModel, Scenario, TraceModel, WorkloadModel
from trimtab.clients.simulation.scenario_values import JobRequestModel
from trimtab.clients.simulation.traces.arrivals import Arrival, TracedObjects, TracedSize

Json = dict[str, Any]


class _NewJob(NamedTuple):
    """A job that arrives. least : fewest of its pods that start together, 0 = each by itself; request : None = its pods
    are created at once."""

    namespace: str
    name: str
    labels: Json
    pod: PodModel
    pods: int
    lifetime_s: float | None
    least: int
    request: JobRequestModel | None


class Workloads:
    """All workloads of one simulation, ordered by time, then by declaration."""

    def __init__(
        self, cluster: SimulatedCluster, scenario: Scenario, begin_s: float, pod_starts: dict[str, float]
    ) -> None:
        """`pod_starts` : seconds from binding to ready by uid of the owner, filled in here."""
        self._cluster, self._scenario, self._begin_s = cluster, scenario, begin_s
        self._due: list[tuple[float, int, Json, Any]] = []
        self._count = 0
        self._lifetimes: dict[str, float] = {}
        # Owners of recorded pods that have arrived, by namespace and name of the pod.
        self._owner_of_recorded: dict[tuple[str, str], str] = {}
        # What is created once a ProvisioningRequest is provisioned, by its "namespace/name": a job, and before it its
        # PodGroup.
        self._requested: dict[str, list[tuple[Json, Any]]] = {}
        self.pod_starts = pod_starts

    def add(self, workload: WorkloadModel, now_s: float) -> None:
        """Add a controller; its replicas change from now on by its load."""
        item = controller(workload)
        self.pod_starts[item["metadata"]["uid"]] = workload.pod.start
        with self._cluster.transaction() as state:
            state.put(item)
            if workload.gang is not None:
                least, version = workload.gang.min_count, self._scenario.scheduler.pod_groups
                self._put_group(pod_group(workload.namespace, gang_name(workload), least, workload.pod, version))
            if workload.budget is not None:
                state.put(budget(workload, workload.budget))
            if workload.kind == "DaemonSet":
                self._cluster.controllers.start_daemons_everywhere(item)
        if workload.kind != "DaemonSet":
            for change in changes(self._scenario, workload):
                self._push(max(now_s, self._begin_s + change.at_s), item, change.replicas)

    def add_batch(self, batch: Batch) -> None:
        """Add jobs that arrive."""
        least = 0 if batch.gang is None else batch.gang.min_count or batch.pods
        for arrival in arrivals(self._scenario, batch):
            new = _NewJob(
                batch.namespace,
                f"{batch.name}-{arrival.number}",
                {"app": batch.name},
                batch.pod,
                batch.pods,
                arrival.lifetime_s,
                least,
                batch.provisioning_request,
            )
            self._add_job(arrival.at_s, new)

    def add_trace(self, model: TraceModel, trace: Sequence[Arrival]) -> None:
        """Add the pods of a trace."""
        for number, one in enumerate(trace):
            spec = {**model.pod.spec, **(json.loads(one.spec) if one.spec else {})}
            new = _NewJob(
                one.namespace or model.namespace,
                f"trace-{number}",
                {"app": "trace", **dict(one.labels)},
                model.pod.model_copy(update={"cpu": one.cpu, "memory": one.memory, "spec": spec}),
                one.pods,
                one.lifetime_s,
                one.gang,
                model.provisioning_request,
            )
            self._add_job(one.at_s, new)

    def add_recorded(self, recorded: RecordedCluster) -> None:
        """Add the pods of a recording, and how controllers change."""
        for size in recorded.sizes:
            self._push(self._begin_s + size.at_s, {"kind": "Size", "owner": size.owner}, size.replicas)
        for group in recorded.pod_groups:
            self._push(self._begin_s + group.at_s, group.item, None)
        for arrival in recorded.arrivals:
            metadata = arrival.item["metadata"]
            key = metadata.get("namespace") or "default", metadata["name"]
            self._push(self._begin_s + arrival.at_s, {"kind": "Arrival"}, arrival.item)
            if arrival.until_s is not None:
                self._push(self._begin_s + arrival.until_s, {"kind": "Departure", "key": key}, None)

    def add_traced(self, traced: TracedObjects, pod_start_s: float) -> None:
        """Add the controllers and pods of a trace of objects."""
        for controller_ in traced.controllers:
            # Copied: the simulation modifies them, and other settings use the same trace.
            item = copy.deepcopy(controller_.item)
            self.pod_starts[item["metadata"]["uid"]] = pod_start_s
            for size in controller_.sizes:
                self._push(self._begin_s + size.at_s, {"kind": "Traced", "item": item}, size)
        for pod in traced.pods:
            item = copy.deepcopy(pod.item)
            if pod.is_replaced:
                self._push_job(self._begin_s + pod.at_s, item, pod.lifetime_s, pod_start_s)
                continue
            key = item["metadata"]["namespace"], item["metadata"]["name"]
            if pod.lifetime_s is not None:
                self._lifetimes[item["metadata"]["uid"]] = pod.lifetime_s
            self._push(self._begin_s + pod.at_s, {"kind": "Arrival"}, item)
            if pod.until_s is not None:
                self._push(self._begin_s + pod.until_s, {"kind": "Departure", "key": key}, None)

    def scale(self, item: Json, replicas: int) -> None:
        """Change the number of replicas of a controller now."""
        with self._cluster.transaction() as state:
            scale(state, self._cluster.controllers, item, replicas)

    def started(self, keys: Sequence[str], now_s: float) -> None:
        """Record that pods have become ready: "Pod/namespace/name"."""
        for key in keys:
            _, namespace, name = key.split("/", 2)
            pod = self._cluster.state.pods.get((namespace, name))
            lifetime_s = self._lifetimes.get(pod.owner_uid or pod.uid) if pod is not None else None
            if pod is not None and lifetime_s is not None:
                self._push(now_s + lifetime_s, {"kind": "Pod", "key": (namespace, name)}, pod.uid)

    def answered(self, requests: Mapping[str, bool], now_s: float) -> None:
        """Start the jobs whose ProvisioningRequests, by "namespace/name", are provisioned; those whose requests have
        failed never start, and these requests go."""
        for key, is_provisioned in requests.items():
            parts = self._requested.pop(key, ())
            if is_provisioned:
                for item, value in parts:
                    self._push(now_s, item, value)
            elif parts:
                uid = parts[-1][0]["metadata"]["uid"]
                self._lifetimes.pop(uid, None)
                del self.pod_starts[uid]
                with self._cluster.transaction():
                    self._drop_of_job(key)

    def next_s(self) -> float | None:
        """Return the time of the next event, None = there is none."""
        return self._due[0][0] if self._due else None

    def run(self, now_s: float) -> None:
        """Execute everything that is due, in one transaction."""
        with self._cluster.transaction() as state:
            for item, value in self._taken(now_s):
                if item["kind"] == "Pod":
                    self._end(item["key"], value)
                elif item["kind"] == "Arrival":
                    self._arrive(value)
                elif item["kind"] == "Departure":
                    self._depart(item["key"])
                elif item["kind"] == "PodGroup":
                    self._put_group(item)
                elif item["kind"] == "ProvisioningRequest":
                    self._ask(item, value)
                elif item["kind"] == "Size":
                    self._resize(item["owner"], value)
                elif item["kind"] == "Traced":
                    self._resize_traced(item["item"], value)
                else:
                    scale(state, self._cluster.controllers, item, value)

    def _taken(self, now_s: float) -> Iterator[tuple[Json, Any]]:
        while self._due and self._due[0][0] <= now_s:
            _, _, item, value = heapq.heappop(self._due)
            yield item, value

    def _end(self, key: tuple[str, str], uid: str) -> None:
        """End a pod of a job, and the job with its last pod; or a pod without owner."""
        state = self._cluster.state
        pod = state.pods.get(key)
        if pod is None or pod.uid != uid or pod.terminating:
            return
        if not pod.owner_uid:
            state.drop_pod(pod)
            return
        owner = state.owners[pod.owner_uid]
        owner["spec"]["parallelism"] -= 1
        state.drop_pod(pod)
        if owner["spec"]["parallelism"] > 0:
            state.put(owner)
            return
        state.drop(owner)
        group = state.others.get(f"PodGroup/{key[0]}/{group_of(pod.spec)}")
        if group is not None:
            state.drop(group)
        self._drop_of_job(f"{key[0]}/{owner['metadata']['name']}")
        del self._lifetimes[owner["metadata"]["uid"]], self.pod_starts[owner["metadata"]["uid"]]

    def _put_group(self, group: Json) -> None:
        """Create a PodGroup now, unless there is one of that name."""
        state, metadata = self._cluster.state, group["metadata"]
        if f"PodGroup/{metadata['namespace']}/{metadata['name']}" not in state.others:
            state.put({**group, "metadata": {**metadata, "creationTimestamp": format_time(state.now_ms)}})

    def _ask(self, request: Json, template: Json) -> None:
        """Create a ProvisioningRequest now, with its PodTemplate."""
        state = self._cluster.state
        state.put(template)
        created = {"creationTimestamp": format_time(state.now_ms)}
        state.put({**request, "metadata": {**request["metadata"], **created}})

    def _drop_of_job(self, key: str) -> None:
        """Remove the ProvisioningRequest of a job and its PodTemplate, if it has them: "namespace/name" of the job."""
        others = self._cluster.state.others
        for item in [others.get(f"{kind}/{key}") for kind in ("ProvisioningRequest", "PodTemplate")]:
            if item is not None:
                self._cluster.state.drop(item)

    def _arrive(self, item: Json) -> None:
        """Create a recorded pod."""
        state = self._cluster.state
        metadata = {**item["metadata"], "creationTimestamp": format_time(state.now_ms)}
        key = metadata.get("namespace") or "default", metadata["name"]
        if key in state.pods:
            # One of the beginning, or a StatefulSet's that was created again under its own name.
            self._owner_of_recorded[key] = state.pods[key].owner_uid
            return
        pod = SimulatedPod({**item, "metadata": metadata, "spec": dict(item["spec"]), "status": {"phase": "Pending"}})
        self._owner_of_recorded[key] = pod.owner_uid
        state.put_pod(pod)

    def _resize(self, key: str, replicas: int) -> None:
        """Record the number of pods of a recorded controller; the pods that it created are in the recording."""
        owner = self._cluster.state.others.get(key)
        if owner is not None:
            owner["spec"]["parallelism" if owner["kind"] == "Job" else "replicas"] = replicas
            self._cluster.state.put(owner)

    def _resize_traced(self, item: Json, size: TracedSize) -> None:
        """Create a traced controller, or change its size and the template of its later pods."""
        state, controllers = self._cluster.state, self._cluster.controllers
        item["spec"]["template"] = copy.deepcopy(size.template)
        if item["kind"] != "DaemonSet":
            scale(state, controllers, item, size.replicas)
            return
        pods = list(state.pods_by_owner.get(item["metadata"]["uid"], {}).values())
        if size.replicas:
            state.put(item)
            if not pods:
                controllers.start_daemons_everywhere(item)
            return
        for pod in pods:
            state.drop_pod(pod)
        state.drop(item)

    def _depart(self, key: tuple[str, str]) -> None:
        """Remove a recorded pod; if it was evicted meanwhile, its younger replacement goes instead."""
        state = self._cluster.state
        pod = state.pods.get(key)
        if pod is None:
            alike = state.pods_by_owner.get(self._owner_of_recorded.get(key) or "", {}).values()
            others = [one for one in alike if one.active and one.key not in self._owner_of_recorded]
            pod = min(others, key=lambda one: one.key, default=None)
        if pod is not None:
            state.drop_pod(pod)

    def _add_job(self, at_s: float, new: _NewJob) -> None:
        """Add a job that arrives, or the ProvisioningRequest that it waits for. at_s : since the beginning."""
        namespace, name, begin_s = new.namespace, new.name, self._begin_s + at_s
        template = pod_template(new.pod, new.labels, name if new.least else "", name if new.request else "")
        item = job(namespace, name, template, new.pods)
        parts: list[tuple[Json, Any]] = []
        if new.least:
            version = self._scenario.scheduler.pod_groups
            parts.append((pod_group(namespace, name, new.least, new.pod, version), None))
        parts.append((item, self._prepare_job(item, new.lifetime_s, new.pod.start)))
        if new.request is None:
            for part, value in parts:
                self._push(begin_s, part, value)
            return
        self._requested[f"{namespace}/{name}"] = parts
        wanted = requested_template(namespace, name, pod_template(new.pod, new.labels))
        self._push(begin_s, provisioning_request(namespace, name, new.request, new.pods), wanted)

    def _push_job(self, at_s: float, item: Json, lifetime_s: float | None, pod_start_s: float) -> None:
        self._push(at_s, item, self._prepare_job(item, lifetime_s, pod_start_s))

    def _prepare_job(self, item: Json, lifetime_s: float | None, pod_start_s: float) -> int:
        """Note the times of a job's pods; return how many it will have, and leave it without any."""
        uid, pods = item["metadata"]["uid"], item["spec"]["parallelism"]
        self.pod_starts[uid] = pod_start_s
        if lifetime_s is not None:
            self._lifetimes[uid] = lifetime_s
        item["spec"]["parallelism"] = 0
        return int(pods)

    def _push(self, at_s: float, item: Json, value: Any) -> None:
        self._count += 1
        heapq.heappush(self._due, (at_s, self._count, item, value))
