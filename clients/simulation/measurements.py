"""What a simulation measures: times to schedule, node-hours and money, evictions, churn, samples over time.

Decides what counts:
- time to schedule: from a pod's creation to its binding; pods of DaemonSets aside. A pod that still waits at the end
  has the time that it has waited, and is counted as pending.
- time to full gang: see `waiting_times`; time to provisioned: so, too.
- node-hours and money: from the accepted request for a machine until the machine is gone.
- added for nothing: nodes that came and went without ever having had a pod of a workload.
- evictions a pod-hour: evictions of workloads' pods by the hours that such pods were on nodes.
- waits for budgets: evictions that a disruption budget had refused before it let them.
- reclaims: machines that the cloud took back, with the pods on them (these are among the lost ones too), and how long
  the pods created in their place waited for a node; preemptions: the same of pods that gave way to others.
- removed for nothing: nodes whose group grew again within half an hour of their removal, one growth for one removal.
Units: seconds, Unix time; money in the currency of the prices.

Slack: room is the requests of placeholders on nodes, from one round that decides on slack to the next; a placeholder
was used if the next answer has pushed it out from a node that stays. Maps of nodes are in the order group, then name;
small nodes of very large clusters are left out. Amounts: cpu in milli-cores, memory in bytes, time in seconds, Unix
time, money in the currency of the prices.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.cluster.database import JournalEntry
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.cluster.state import ClusterState
from trimtab.clients.simulation.drains import Displacements, SimulatedRemovals
from trimtab.clients.simulation.waiting_times import GangTimes, RequestTimes, percentiles
from trimtab.v1 import plan_pb2

MOST_NODES: Final = 400


def packing(state: ClusterState, now_s: float) -> dict[str, Any]:
    """Return the nodes of a cluster with what workloads request on each, and how many nodes are left out. O(pods)."""
    nodes = []
    group_of = {name: instance.group for name, instance in state.instances.items()}
    chosen = sorted(state.nodes, key=lambda name: (group_of.get(name, ""), name))
    for name in chosen[:MOST_NODES]:
        info = state.nodes[name]
        cpu: dict[str, int] = defaultdict(int)
        for pod in info.pods.values():
            if not pod.terminal:
                cpu[_workload(pod)] += pod.requests.get("cpu", 0)
        nodes.append(
            {
                "name": name,
                "group": group_of.get(name, ""),
                "cpu": info.allocatable.get("cpu", 0),
                "cpuRequested": dict(sorted(cpu.items())),
                "memory": info.allocatable.get("memory", 0),
                "memoryRequested": info.used.get("memory", 0),
                "pods": len(info.pods),
            }
        )
    return {"time": now_s, "nodes": nodes, "leftOut": max(0, len(chosen) - MOST_NODES)}


def _workload(pod: SimulatedPod) -> str:
    """Return the name of the workload to which a pod belongs: its label `app`, else its controller, else
    its own name.
    """
    return str(pod.labels.get("app") or pod.owner.get("name") or pod.key[1])


class _Placed(NamedTuple):
    """A placeholder on a node. node : its name; cpu_milli : milli-cores that it keeps free."""

    node: str
    cpu_milli: int


class SlackUse:
    """The slack of one simulation."""

    def __init__(self) -> None:
        self.cpu_milli = 0
        """The amounts kept free now."""
        self._price_per_hour = 0.0
        self._since_s = 0.0
        self._milli_s = self._money = 0.0
        self._placed: dict[str, _Placed] = {}
        self._taken_count = self._taken_milli = 0

    def add(self, now_s: float, slack: plan_pb2.SlackDecision, staying: Container[str]) -> None:
        """Record an answer. staying : existing nodes that are not being deleted."""
        for name in slack.pushed_out:
            before = self._placed.get(name)
            if before is not None and before.node in staying:
                self._taken_count += 1
                self._taken_milli += before.cpu_milli
        self._placed = {one.name: _Placed(one.node, one.cpu_milli) for one in slack.placeholders if one.node}
        cpu_milli = slack.present.get("cpu", 0)
        if (cpu_milli, slack.price_per_hour) != (self.cpu_milli, self._price_per_hour):
            self._milli_s, self._money = self._until(now_s)
            self.cpu_milli, self._price_per_hour, self._since_s = cpu_milli, slack.price_per_hour, now_s

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return core-hours and money of the room that was kept, and the part used by pods: placeholders and cores."""
        milli_s, money = self._until(now_s)
        return {
            "slackCpuHours": round(milli_s / 3_600_000, 6),
            "slackMoney": round(money, 6),
            "slackTaken": self._taken_count,
            "slackTakenCpu": self._taken_milli / 1000,
        }

    def _until(self, now_s: float) -> tuple[float, float]:
        """Return milli-core-seconds and money up to a given time."""
        passed_s = now_s - self._since_s if self.cpu_milli or self._price_per_hour else 0.0
        return self._milli_s + self.cpu_milli * passed_s, self._money + self._price_per_hour * passed_s / 3600


REGRET_S: Final = 1800.0


AMOUNTS: Final = {"cpu": "Milli", "memory": ""}
"""The resources of samples, with the unit in the names of their amounts: milli-cores, bytes."""
SERIES: Final = (
    *("pricePerHour", "pods", "pending", "slackCpuMilli"),
    *(f"{resource}{what}{unit}" for resource, unit in AMOUNTS.items() for what in ("Allocatable", "Requested")),
)
"""The numbers of a sample beside its time: price of all machines, pods, those without a node, and amounts."""


def columns_of(samples: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Any]:
    """Return samples as a result has them: a series for the time, each of some numbers, and each "group/zone"."""
    zones = sorted({zone for sample in samples for zone in sample["nodes"]})
    series: dict[str, Any] = {name: [sample[name] for sample in samples] for name in ("time", *names)}
    return {**series, "nodes": {zone: [sample["nodes"].get(zone, 0) for sample in samples] for zone in zones}}


class _MachineUse(NamedTuple):
    """A machine that runs. group : id of its node group; since_s : when it started."""

    group: str
    since_s: float


class Measurements:
    """Watches the cluster's writes. `state` is set once there is a cluster."""

    def __init__(self) -> None:
        self.state: ClusterState | None = None
        self.samples: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        self._waits_since: dict[str, tuple[str, float]] = {}
        # Workloads' pods on nodes, by uid: since when, and on which.
        self._on_since: dict[str, float] = {}
        self._node_of: dict[str, str] = {}
        self._pod_s = 0.0
        self.drains = SimulatedRemovals()
        self.displacements = Displacements()
        self.gangs = GangTimes()
        self.requests = RequestTimes()
        self.slack = SlackUse()
        self.maps: list[dict[str, Any]] = []
        self._waited: list[float] = []
        self._uid_of: dict[str, str] = {}
        self._machines: dict[str, _MachineUse] = {}
        # Node groups of all machines that ever existed, and prices per hour by group.
        self.group_of: dict[str, str] = {}
        self.prices: dict[str, float] = {}
        self._node_s: dict[str, float] = defaultdict(float)
        self._zone_of: dict[str, str] = {}
        # Nodes added during the simulation that have not had a pod of a workload yet.
        self._unused: set[str] = set()
        self._removals: dict[str, deque[float]] = defaultdict(deque)
        self.running: list[str] = []

    def add_group(self, name: str, zone: str, price: float | None) -> None:
        """Record the price per hour of a group's node."""
        self._zone_of[name] = zone
        if price is not None:
            self.prices[name] = price

    def begin_here(self) -> None:
        """Record that pods now on nodes were scheduled before, with unknown waiting time."""
        self._waited.clear()
        self.gangs.begin_here()

    def watch(self, things: Mapping[str, Any], entries: list[JournalEntry]) -> None:
        """Record a transaction."""
        now_s = self._now_s()
        for key, value in things.items():
            if key.startswith("Pod/"):
                self._pod(key, value, now_s)
            elif key.startswith("Instance//"):
                self._machine(key.removeprefix("Instance//"), value, now_s)
        self.gangs.add(things, now_s)
        self.requests.add(things, now_s)
        for entry in entries:
            self._entry(entry, now_s)
        self.displacements.add(entries, self._uid_of, self._node_of, now_s)

    def sample(self, now_s: float) -> None:
        """Add a sample."""
        state = self.state
        assert state is not None, "there is a cluster"
        if not self.maps and self._on_since:
            self.maps.append(packing(state, now_s))
        groups = (machine.group if (machine := self._machines.get(name)) else "" for name in state.nodes)
        nodes = Counter(f"{group}/{self._zone_of.get(group, '')}" for group in groups)
        price = sum(self.prices.get(machine.group, 0.0) for machine in self._machines.values())
        sample: dict[str, Any] = {"time": now_s, "nodes": dict(sorted(nodes.items())), "pricePerHour": round(price, 6)}
        sample |= {"pods": len(state.pods), "pending": len(state.pending), "slackCpuMilli": self.slack.cpu_milli}
        for name, unit in AMOUNTS.items():
            infos = state.nodes.values()
            sample[f"{name}Allocatable{unit}"] = sum(info.allocatable.get(name, 0) for info in infos)
            sample[f"{name}Requested{unit}"] = sum(info.used.get(name, 0) for info in infos)
        self.samples.append(sample)

    def summary(self, begin_s: float, now_s: float) -> dict[str, Any]:
        """Return the figures of the whole simulation so far."""
        waits = [*self._waited, *(now_s - since_s for _, since_s in self._waits_since.values())]
        node_s = dict(self._node_s)
        for machine in self._machines.values():
            node_s[machine.group] = node_s.get(machine.group, 0.0) + now_s - max(machine.since_s, begin_s)
        hours = {group: round(seconds / 3600, 6) for group, seconds in sorted(node_s.items())}
        pod_hours = (self._pod_s + sum(now_s - since_s for since_s in self._on_since.values())) / 3600
        money = sum(self.prices.get(group, 0.0) * amount for group, amount in hours.items())
        return {
            "nodeHours": round(sum(hours.values()), 6),
            "nodeHoursByGroup": hours,
            "money": round(money, 6),
            "timeToScheduleS": percentiles(waits),
            "podsScheduled": len(self._waited),
            "podsPendingAtEnd": len(self._waits_since),
            "evictions": self.counts["evicted"],
            "podHours": round(pod_hours, 6),
            "evictionsPerPodHour": round(self.counts["evicted"] / pod_hours, 6) if pod_hours else 0.0,
            "budgetWaits": self.drains.wait_count,
            "budgetWaitS": round(self.drains.waited_s, 3),
            "cpuRequestedShare": self._share("cpu"),
            "memoryRequestedShare": self._share("memory"),
            **self.slack.summary(now_s),
            "podsLost": self.counts["pod_lost"],
            **self.displacements.summary(now_s),
            **self.gangs.summary(now_s),
            **self.requests.summary(now_s),
            "nodesAdded": self.counts["nodes_added"],
            "nodesRemoved": self.counts["nodes_removed"],
            "startsFailed": self.counts["start_failed"],
            "addedForNothing": self.counts["added_for_nothing"],
            "removedForNothing": self.counts["removed_for_nothing"],
            "nodesAtEnd": len(self.state.nodes) if self.state else 0,
        }

    def map_of_end(self, now_s: float) -> list[dict[str, Any]]:
        """Return the maps of the cluster at the first time with pods of workloads, and now."""
        assert self.state is not None, "there is a cluster"
        return [*self.maps, packing(self.state, now_s)]

    def refused(self, uid: str) -> None:
        """Record that a disruption budget has refused an eviction."""
        self.drains.refused(uid, self._now_s())

    def _share(self, resource: str) -> float:
        """Return the requested share of a resource over all samples."""
        whole = sum(sample[f"{resource}Allocatable{AMOUNTS[resource]}"] for sample in self.samples)
        used = sum(sample[f"{resource}Requested{AMOUNTS[resource]}"] for sample in self.samples)
        return round(used / whole, 6) if whole else 0.0

    def _now_s(self) -> float:
        return self.state.now_ms / 1000 if self.state is not None else 0.0

    def _pod(self, key: str, value: Any, now_s: float) -> None:
        if value is None:
            uid = self._uid_of.pop(key, "")
            self._forget(uid, now_s)
            return
        item = value[0]
        uid, node = item["metadata"]["uid"], item["spec"].get("nodeName")
        before = self._uid_of.get(key)
        if before != uid:
            if before is not None:
                self._forget(before, now_s)
            self._uid_of[key] = uid
            is_daemon = any(one.get("kind") == "DaemonSet" for one in item["metadata"].get("ownerReferences") or ())
            if not is_daemon:
                self._waits_since[uid] = (key, now_s)
        if node and uid in self._waits_since:
            self._waited.append(round(now_s - self._waits_since.pop(uid)[1], 3))
            self._unused.discard(node)
            self._on_since[uid], self._node_of[uid] = now_s, node
            self.displacements.ended(uid, now_s)
        if item["status"].get("phase") == "Running" and not value[1]["ready_due_ms"]:
            self.running.append(key)

    def _forget(self, uid: str, now_s: float) -> None:
        """Record that a pod is gone."""
        self.displacements.ended(uid, now_s)
        self._waits_since.pop(uid, None)
        self._node_of.pop(uid, None)
        since_s = self._on_since.pop(uid, None)
        if since_s is not None:
            self._pod_s += now_s - since_s

    def _machine(self, name: str, value: Any, now_s: float) -> None:
        known = self._machines.get(name)
        if value is None:
            if known is None:
                return
            del self._machines[name]
            self.drains.machine_gone(name, now_s)
            self._node_s[known.group] += now_s - known.since_s
            if name in self._unused:
                self._unused.discard(name)
                self.counts["added_for_nothing"] += 1
            return
        if known is None:
            machine = value[0]
            self._machines[name] = _MachineUse(machine["group"], now_s)
            self.group_of[name] = machine["group"]
            if machine["start_due_ms"]:
                self._unused.add(name)
                self._regret(machine["group"], now_s)

    def _regret(self, group: str, now_s: float) -> None:
        """Count an added node as the replacement of one removed shortly before."""
        self.counts["nodes_added"] += 1
        removals = self._removals[group]
        while removals and removals[0] < now_s - REGRET_S:
            removals.popleft()
        if removals:
            removals.popleft()
            self.counts["removed_for_nothing"] += 1

    def _entry(self, entry: JournalEntry, now_s: float) -> None:
        self.drains.entry(entry, now_s, self._node_of)
        if entry.what in ("evicted", "pod_lost", "start_failed"):
            self.counts[entry.what] += 1
        elif entry.what == "deleted":
            self.counts["nodes_removed"] += 1
            machine = self._machines.get(entry.subject)
            if machine is not None:
                self._removals[machine.group].append(now_s)
