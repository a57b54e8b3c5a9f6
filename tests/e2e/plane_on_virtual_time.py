"""A scenario of the simulator on a real control plane, where only time is virtual.

API server, controllers and scheduler are the real ones, kwok plays the kubelets; planner, loop and actuator are those
of the simulator, in this process. Time goes on once the cluster has come to rest: what a busy machine needs to get
there does not count. At rest, controllers have what they ask for, every pod runs, or waits because no node has room,
and the loop has seen it all. For pods that ask for cpu above all.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from tests.e2e.actuator_process import apply
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.actuator.cloud.kwok.cloud import KwokCloud
from trimtab.actuator.cloud.kwok.groups import read_group
from trimtab.actuator.cloud.table import KwokSettings
from trimtab.actuator.kube.api import Call, KubeApi, connect
from trimtab.actuator.kube.live import KubeCluster
from trimtab.clients.cli.planners import open_link
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundResult, RoundRunner, RoundSettings
from trimtab.clients.simulation import ClusterSimulation
from trimtab.clients.simulation.loads import changes
from trimtab.clients.simulation.local_actuator import LocalActuator
from trimtab.clients.simulation.objects import budget, controller, node_group
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.virtual_time import VirtualTime
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.kubernetes.selectors import selects
from trimtab.common.objects import decode_objects
from trimtab.common.objects.pod_rows import FLAG_READY, FLAG_UNSCHEDULABLE
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
SLOW_S = 300.0
AHEAD_S = 3600.0
"""Virtual time is ahead of the control plane's, which runs slower: nothing is younger than it seems."""


class Objects(NamedTuple):
    """What the API server has, by name: all in the namespace `default`."""

    pods: dict[str, Json]
    nodes: dict[str, Json]
    controllers: dict[str, Json]
    budgets: dict[str, Json]

    @property
    def is_at_rest(self) -> bool:
        """Return whether nothing will happen by itself."""
        return all(
            (
                all(map(_is_up, self.nodes.values())),
                all(_is_satisfied(one) for one in self.controllers.values()),
                not any("deletionTimestamp" in pod["metadata"] for pod in self.pods.values()),
                self._are_placed(),
                all(self._is_counted(one) for one in self.budgets.values()),
            )
        )

    def load(self) -> Counter[str]:
        """Cpu that pods request on each node, in milli-cores; on the node "", of those that wait."""
        found: Counter[str] = Counter()
        for pod in self.pods.values():
            found[pod["spec"].get("nodeName", "")] += _requested(pod)
        return found

    def _most_room(self) -> int:
        """Most cpu that a pod can have, of what is left of any node."""
        load = self.load()
        open_nodes = (name for name, node in self.nodes.items() if not _is_closed(node))
        return max((_allocatable(self.nodes[name]) - load[name] for name in open_nodes), default=0)

    def _are_placed(self) -> bool:
        """Whether every pod runs, or waits because it has no room; else the scheduler will look at it yet."""
        waiting = [pod for pod in self.pods.values() if not pod["spec"].get("nodeName")]
        if not all(_has(pod, "PodScheduled", "False") for pod in waiting):
            return False
        if waiting and min(map(_requested, waiting)) <= self._most_room():
            return False
        return all(_has(pod, "Ready", "True") for pod in self.pods.values() if pod["spec"].get("nodeName"))

    def _is_counted(self, one: Json) -> bool:
        """Whether a budget knows its pods as they are."""
        selector, status = one["spec"]["selector"], one.get("status", {})
        members = [pod for pod in self.pods.values() if selects(selector, pod["metadata"]["labels"])]
        ready = sum(_has(pod, "Ready", "True") for pod in members)
        allowed = max(0, ready - status.get("desiredHealthy", 0))
        known = [status.get(key) for key in ("expectedPods", "currentHealthy", "disruptionsAllowed")]
        return known == [len(members), ready, allowed]


class PlaneOnVirtualTime:
    """The scenario under way; make one with `scenario_on`. `load` is that of the nodes when the cluster last rested,
    `evicted` the uids of pods that drains have evicted."""

    def __init__(self, plane: ControlPlane, simulation: ClusterSimulation, stack: ExitStack) -> None:
        self._plane, self._scenario = plane, simulation.scenario
        self.load: Mapping[str, int] = {}
        self.evicted: set[str] = set()
        self.round_count = 0
        self._time = VirtualTime(time.time() + AHEAD_S)
        self._begin_s = self._time.now_s
        self._steps = _steps(self._scenario, self._begin_s)
        self._api = connect(plane.kubeconfig("admin"), "", 30.0)
        stack.callback(self._api.close)
        self._writes = 0
        self._api.http.guard = self._note
        self._cloud = self._start_cloud()
        # Their timers are the scenario's.
        settings = simulation._actuator_settings()
        self._actuator = LocalActuator(KubeCluster(self._api), self._time, settings, self._cloud)  # type: ignore[arg-type]
        self._live = stack.enter_context(
            LiveCluster(Api(connect_cluster(ConnectionSettings(plane.kubeconfig("admin")))))
        )
        assert self._live.wait_until_listed(SLOW_S)
        groups = decode_objects([node_group(group) for group in self._scenario.node_groups]).of("NodeGroup")
        decisions = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)
        chosen = RoundSettings(self._scenario.name, decisions, simulation.settings, tuple(groups))
        session = PlannerSession(stack.enter_context(open_link(None)))
        self._runner = RoundRunner(self._live, session, self._actuator, chosen)

    def run_for(self, seconds: float) -> "PlaneOnVirtualTime":
        """Let so much time pass; return itself. At each moment: cloud, workloads, actuator, round, as simulated."""
        end_s = self._until_s + seconds
        while (due_s := self._next_s()) <= end_s:
            self._time.now_s = max(self._time.now_s, due_s)
            self._happen()
        self._time.now_s = max(self._time.now_s, end_s)
        self._until_s = end_s
        return self

    def _next_s(self) -> float:
        """Return when something is due; the cloud's delays end with a round."""
        moments = [self._round_s, *(self._steps[:1] and [self._steps[0][0]])]
        task_s = self._time.next_s()
        return min([*moments, task_s] if task_s is not None else moments)

    def _start_cloud(self) -> KwokCloud:
        """Start the cloud with its first nodes, and the controllers without pods."""
        models = self._scenario.node_groups
        groups = {}
        for model in models:
            item = node_group(model)
            item["spec"]["targetSize"] = model.min_size if model.size is None else model.size
            groups[model.name] = read_group(item)
        (start_s,) = {model.start for model in models}
        settings = KwokSettings(node_start_s=start_s, instance_delete_s=self._scenario.timing.instance_delete)
        self._time.now_s -= start_s
        cloud = KwokCloud(self._api, groups, settings, self._time.clock, self._time.clock)
        cloud.open()
        self._time.now_s = self._until_s = self._round_s = self._begin_s
        cloud.resync()
        apply(self._plane, *_objects(self._scenario))
        return cloud

    def _note(self) -> None:
        self._writes += 1

    def _happen(self) -> None:
        """Do everything that is due."""
        now_s = self._time.now_s
        self._cloud.resync()
        while self._steps and self._steps[0][0] <= now_s:
            _, name, replicas = self._steps.pop(0)
            self._plane.kubectl("scale", "-n", "default", f"--replicas={replicas}", f"replicaset/{name}")
            self._note()
        self._rest()
        while (due_s := self._time.next_s()) is not None and due_s <= now_s:
            self._time.step()
        self._rest()
        if self._round_s <= now_s:
            self._round_s += self._scenario.timing.interval
            self._round()
            self._rest()

    def _round(self) -> RoundResult:
        moment = Timestamp()
        moment.FromMilliseconds(int(self._time.now_s * 1000))
        self.round_count += 1
        done = self._runner.run(f"r{self.round_count}", moment, lambda: True)
        if done.status is not None:
            self.evicted.update(one.uid for one in done.status.recent_evictions)
        return done

    def _rest(self) -> None:
        """Wait until the cluster is at rest, if anything was written, and the loop has seen it."""
        if not self._writes:
            return
        self._writes = 0
        end_s = time.monotonic() + SLOW_S
        # The watches cost less than lists: those only prove that nothing is missing.
        while not (self._may_rest() and (found := read_objects(self._api)).is_at_rest and self._is_seen(found)):
            assert time.monotonic() < end_s, f"not at rest after {SLOW_S} s"
            time.sleep(0.2)
        load = found.load()
        self.load = {name: load[name] for name in found.nodes}
        self.pending = load[""]

    def _may_rest(self) -> bool:
        """Whether by what the watches have brought every pod runs, or waits for good, and none ends."""
        rows = dict(self._live.store.pods).values()
        return all(row.deletion_s == 0 and row.flags & (FLAG_READY if row.node else FLAG_UNSCHEDULABLE) for row in rows)

    def _is_seen(self, found: Objects) -> bool:
        """Whether the loop's watches have brought all of it."""
        store = self._live.store
        rows = {row.name: (row.uid, row.node, bool(row.flags & FLAG_READY)) for row in dict(store.pods).values()}
        pods = {
            name: (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), _has(pod, "Ready", "True"))
            for name, pod in found.pods.items()
        }
        tainted = {one.metadata.name: _keys(one.spec.taints) for one in dict(store.objects["Node"]).values()}
        allowed = {
            one.metadata.name: one.status.disruptions_allowed
            for one in dict(store.objects["PodDisruptionBudget"]).values()
        }
        return (
            rows == pods
            and tainted == {name: _keys(node["spec"].get("taints")) for name, node in found.nodes.items()}
            and allowed == {name: one["status"]["disruptionsAllowed"] for name, one in found.budgets.items()}
        )


@contextmanager
def scenario_on(plane: ControlPlane, simulation: ClusterSimulation) -> Iterator[PlaneOnVirtualTime]:
    """Set up a simulation's scenario, with its settings, on a control plane that has nothing yet; yield it."""
    with ExitStack() as stack:
        yield PlaneOnVirtualTime(plane, simulation, stack)


def read_objects(api: KubeApi) -> Objects:
    """Read all that counts."""
    paths = (
        *("/api/v1/namespaces/default/pods", "/api/v1/nodes"),
        *("/apis/apps/v1/namespaces/default/replicasets", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"),
    )
    lists = (api.json(Call("GET", path, {"resourceVersion": "0"}))["items"] for path in paths)
    return Objects(*({item["metadata"]["name"]: item for item in items} for items in lists))


def _objects(scenario: Scenario) -> list[Json]:
    """The controllers, without pods yet, and budgets, as a user would create them."""
    made = []
    for workload in scenario.workloads:
        item = controller(workload)
        item["spec"]["template"]["spec"]["containers"][0]["image"] = "none"
        made.append(item)
        if workload.budget is not None:
            made.append(budget(workload, workload.budget))
    for item in made:
        del item["metadata"]["uid"]
    return made


def _steps(scenario: Scenario, begin_s: float) -> list[tuple[float, str, int]]:
    """When which controllers get how many replicas."""
    found = [
        (begin_s + change.at_s, workload.name, change.replicas)
        for workload in scenario.workloads
        for change in changes(scenario, workload)
    ]
    return sorted(found)


def _is_up(node: Json) -> bool:
    taints = _keys(node["spec"].get("taints"))
    return _has(node, "Ready", "True") and not any(key.startswith("node.kubernetes.io/") for key in taints)


def _is_satisfied(item: Json) -> bool:
    status = item.get("status", {})
    seen = status.get("observedGeneration") == item["metadata"]["generation"]
    return seen and status.get("replicas") == item["spec"]["replicas"]


def _has(item: Json, condition: str, status: str) -> bool:
    found = item.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == status for one in found)


def _is_closed(node: Json) -> bool:
    return any(one["effect"] != "PreferNoSchedule" for one in node["spec"].get("taints", ()))


def _allocatable(node: Json) -> int:
    return _milli(node["status"]["allocatable"]["cpu"])


def _requested(pod: Json) -> int:
    return sum(_milli(one["resources"]["requests"]["cpu"]) for one in pod["spec"]["containers"])


@cache
def _milli(text: str) -> int:
    return counted_amount("cpu", text)


def _keys(taints: Any) -> list[str]:
    """Return the keys of taints, of a node as JSON or as a struct."""
    return sorted(one["key"] if isinstance(one, dict) else one.key for one in taints or ())
