"""One simulation: a cluster, its loop, planner and actuator on virtual time, and their measurements.

Decides the order of events at one time: the cluster, workloads, reclaims, the actuator, a sample, a round of the loop.
Rounds in which nothing can be new are skipped: no timer has ended, and since the last round the only changes are that
pods became ready, or concern pods on nodes that all remain too full to be removed (see `observed_cluster`). Times are
Unix seconds; durations are seconds or text as in Go ("1h30m").
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.actuator.cloud.provider import CloudRefusedError
from trimtab.actuator.service.settings import ActuatorSettings, WriteLimits
from trimtab.actuator.settings import DrainSettings, WorkSettings
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.clients.decisions import NAMES
from trimtab.clients.in_process_planner import InProcessLink, WithoutIdleGrowth
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRecorder, RoundRunner, RoundSettings
from trimtab.clients.planner_client import PlannerLink
from trimtab.clients.simulation.cluster.database import JournalEntry
from trimtab.clients.simulation.cluster.scheduler import KubeScheduler
from trimtab.clients.simulation.decisions import Decisions
from trimtab.clients.simulation.drains import WatchedCluster
from trimtab.clients.simulation.local_actuator import LocalActuator
from trimtab.clients.simulation.measurements import Measurements
from trimtab.clients.simulation.objects import node_group, storage_class
from trimtab.clients.simulation.observed_cluster import FullCluster, ObservedCluster
from trimtab.clients.simulation.reclaims import Reclaims
from trimtab.clients.simulation.recorded import RecordedCluster, group_model
from trimtab.clients.simulation.scenario import NodeGroupModel, PodModel, RecordingModel, Scenario, WorkloadModel
from trimtab.clients.simulation.scenario_values import ScenarioError, seconds
from trimtab.clients.simulation.timers import ScenarioDelays, next_due
from trimtab.clients.simulation.traces.arrivals import Arrival, TracedObjects
from trimtab.clients.simulation.virtual_time import VirtualTime
from trimtab.clients.simulation.workloads import Workloads
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.object_files import ObjectFileError
from trimtab.v1 import plan_pb2

SAMPLES: Final = 288
"""Samples of a whole scenario, unless they would be less than a minute apart."""
UNLIMITED: Final = 100_000


@dataclass(frozen=True)
class SimulationRunOptions:
    """How a simulation runs. None changes what it shows.

    link : the planner, None = one in this process
    skip_idle : leave out rounds, and decisions on growth, in which nothing can be new
    recorder : records the rounds
    """

    link: PlannerLink | None = None
    skip_idle: bool = True
    recorder: RoundRecorder | None = None


class ClusterSimulation:
    """A simulated cluster. See the package for an example."""

    def __init__(
        self,
        scenario: Scenario | None = None,
        trace: Sequence[Arrival] | RecordedCluster | TracedObjects = (),
        *,
        settings: plan_pb2.PlanSettings | None = None,
        seed: int | None = None,
        options: SimulationRunOptions | None = None,
    ) -> None:
        """Set up a scenario (by default an empty one) with its trace or recording. `seed` replaces the scenario's."""
        _silence_logs()
        scenario = scenario or Scenario()
        self.scenario = scenario if seed is None else scenario.model_copy(update={"seed": seed})
        self.settings = settings or plan_pb2.PlanSettings()
        self._options = options or SimulationRunOptions()
        self.begin_s = self.scenario.start.timestamp()
        self._time = VirtualTime(self.begin_s)
        self.measurements = Measurements()
        self.decisions = Decisions(self.measurements.group_of, self.measurements.prices)
        self.reclaims = Reclaims(self.scenario)
        self._observed = ObservedCluster(self._watch)
        self._groups: dict[str, NodeGroupModel] = {}
        delays = self._delays()
        scheduling = self.scenario.scheduler
        self._scheduler = KubeScheduler(self.scenario.seed, scheduling.scoring, preempts=scheduling.preemption)
        self.cluster = WatchedCluster((), self._observed, delays, self._time.clock, self._time.sleep, self._scheduler)
        self._observed.observe(self.cluster)
        self.cluster.on_refusal = self.measurements.refused
        self.measurements.state = self.cluster.state
        self.cluster.faults.before = self._refuse_growth
        self.workloads = Workloads(self.cluster, self.scenario, self.begin_s, delays.pod_starts)
        self._actuator = LocalActuator(self.cluster, self._time, self._actuator_settings())
        self._runner: RoundRunner | None = None
        self._declared: list[NodeGroup] = []
        # Time of the next round; time at which a timer requires one.
        self._round_s = self.begin_s
        self._timer_s = self.begin_s
        self._full = FullCluster()
        # Slack, pod costs and replacements depend on more of a pod than its node.
        self._only_scales = set(self.scenario.taken_decisions) <= {"scale-up", "scale-down"}
        self.round_count = 0
        self._sample_s = self.begin_s
        self._sample_every_s = max(60.0, self.scenario.duration / SAMPLES)
        self._fill(trace)
        self.reclaims.draw(self.cluster.state, self.begin_s)

    @property
    def now_s(self) -> float:
        """Return the current time."""
        return self._time.now_s

    @property
    def pending(self) -> list[str]:
        """Return the pods that wait for a node, as "namespace/name", sorted."""
        return sorted("/".join(key) for key in self.cluster.state.pending)

    def node_count(self, group: str | None = None) -> int:
        """Return how many nodes there are, of one group or of all."""
        state = self.cluster.state
        members = [name for name, instance in state.instances.items() if group is None or instance.group == group]
        return len([name for name in members if name in state.nodes])

    def pod_count(self, workload: str | None = None, *, node: str | None = None) -> int:
        """Return how many pods run: of one workload, on one node, or all."""
        pods = [pod for pod in self.cluster.state.pods.values() if pod.node and pod.active]
        of_workload = [pod for pod in pods if workload is None or pod.labels.get("app") == workload]
        return len([pod for pod in of_workload if node is None or pod.node == node])

    def add_group(self, name: str, **fields: Any) -> None:
        """Add a node group before the first round; fields as in
        `trimtab.clients.simulation.scenario.NodeGroupModel`."""
        if self._runner is not None:
            raise ValueError(f"node group {name}: the loop runs already; add groups before")
        self._add_group(NodeGroupModel.model_validate({"name": name, **fields}))

    def add_workload(self, name: str, **fields: Any) -> None:
        """Add a controller now; fields as in `WorkloadModel`, and of its pods as in `PodModel`."""
        of_pod = {key: fields.pop(key) for key in list(fields) if key in PodModel.model_fields}
        pod = PodModel.model_validate({**of_pod, **dict(fields.pop("pod", None) or {})})
        self.workloads.add(WorkloadModel.model_validate({"name": name, "pod": pod, **fields}), self.now_s)

    def scale(self, workload: str, replicas: int, *, namespace: str = "default") -> None:
        """Change the number of replicas of a ReplicaSet or StatefulSet now. Raises KeyError."""
        for owner in self.cluster.state.owners.values():
            metadata = owner["metadata"]
            if metadata["name"] == workload and metadata.get("namespace") == namespace and "replicas" in owner["spec"]:
                self.workloads.scale(owner, replicas)
                return
        raise KeyError(f"{namespace}/{workload}: there is no such ReplicaSet or StatefulSet")

    def run_for(self, duration: str | float) -> "ClusterSimulation":
        """Let the given time pass; return itself."""
        return self.run_until(self.now_s + seconds(duration))

    def run_until(self, moment_s: float) -> "ClusterSimulation":
        """Let time pass until a given time, Unix seconds; return itself. Raises TrimtabError of the planner."""
        while (due_s := self._next_s()) <= moment_s:
            self._time.now_s = max(self._time.now_s, due_s)
            self._happen()
        self._time.now_s = max(self._time.now_s, moment_s)
        with self.cluster.transaction():
            pass
        return self

    def run(self) -> "ClusterSimulation":
        """Run the scenario to its end, and sample the end."""
        self.run_until(self.begin_s + self.scenario.duration)
        if self.measurements.samples and self.measurements.samples[-1]["time"] < self.now_s:
            self.measurements.sample(self.now_s)
        return self

    def summary(self) -> dict[str, Any]:
        """Return the figures so far; see `trimtab.clients.simulation.measurements`."""
        return {**self.measurements.summary(self.begin_s, self.now_s), "rounds": self.round_count}

    def _next_s(self) -> float:
        """Return the next moment at which something is due."""
        due_ms = self.cluster.state.next_due_ms()
        moments = [math.inf if due_ms is None else due_ms / 1000, self._sample_s, self._round_s]
        others = (self.workloads.next_s(), self.reclaims.next_s(), self._time.next_s())
        moments += [moment for moment in others if moment is not None]
        return min(moments)

    def _happen(self) -> None:
        """Run the first thing that is due now."""
        now_s = self.now_s
        due_ms = self.cluster.state.next_due_ms()
        if due_ms is not None and due_ms / 1000 <= now_s:
            with self.cluster.transaction():
                pass
        elif _is_due(self.workloads.next_s(), now_s):
            self.workloads.run(now_s)
        elif _is_due(self.reclaims.next_s(), now_s):
            self.reclaims.run(self.cluster, now_s)
        elif _is_due(self._time.next_s(), now_s):
            self._time.step()
        elif self._sample_s <= now_s:
            self.measurements.sample(now_s)
            self._sample_s += self._sample_every_s
        else:
            self._round_or_skip(now_s)
        if self.measurements.running:
            running, self.measurements.running = self.measurements.running, []
            self.workloads.started(running, now_s)
        answered = self.measurements.requests.take_answered()
        if answered:
            self.workloads.answered(answered, now_s)
        self.reclaims.draw(self.cluster.state, now_s)

    def _watch(self, things: Mapping[str, Any], entries: list[JournalEntry]) -> None:
        """Pass on the writes of a transaction."""
        self.measurements.watch(things, entries)
        self.reclaims.watch(things)

    def _round_or_skip(self, now_s: float) -> None:
        self._round_s += self.scenario.timing.interval
        if self._options.skip_idle and now_s < self._timer_s and not self._has_news():
            return
        done = self._runner_of().run(f"r{self.round_count}", _timestamp(now_s), lambda: True)
        self.round_count += 1
        status = done.status
        assert status is not None, "there is an actuator"
        requests = self.measurements.requests.open
        self._timer_s = next_due(now_s, done.request.settings, done.answer, status, requests)
        self._full.add(done)
        self.decisions.add(now_s, done)
        if done.answer.HasField("slack"):
            going = {deletion.node for deletion in status.deletions}
            self.measurements.slack.add(now_s, done.answer.slack, self.cluster.state.nodes.keys() - going)

    def _has_news(self) -> bool:
        """Return whether a round may find anything that the last one did not."""
        if self._actuator.has_changed:
            return True
        if not self._observed.has_changed or (self._only_scales and self._observed.has_only_started()):
            return False
        waiting = self._full.waiting
        if self._observed.has_more_than_pods or not self._full.lasts(self._scheduler.least_use(waiting)):
            return True
        return self._observed.has_touched(waiting) or not self._is_idle()

    def _runner_of(self) -> RoundRunner:
        if self._runner is None:
            link = self._options.link or InProcessLink()
            session = PlannerSession(WithoutIdleGrowth(link, self._is_idle) if self._options.skip_idle else link)
            settings = RoundSettings(
                cluster=self.scenario.name,
                decisions=tuple(NAMES[name] for name in self.scenario.taken_decisions),
                plan=self.settings,
                groups=tuple(self._declared),
                apply_pod_costs="pod-costs" in self.scenario.decisions,
                replace="replacement" in self.scenario.decisions,
            )
            self._runner = RoundRunner(self._observed, session, self._actuator, settings, self._options.recorder)
        return self._runner

    def _is_idle(self) -> bool:
        """Return whether no pod waits for a node, and no node comes or goes."""
        state = self.cluster.state
        if state.pending or not self._actuator.is_idle or len(state.instances) != len(state.nodes):
            return False
        return not any(instance.start_due_ms or instance.gone_due_ms for instance in state.instances.values())

    def _fill(self, trace: Sequence[Arrival] | RecordedCluster | TracedObjects) -> None:
        """Set up the objects of the scenario; DaemonSets first, before other pods can take their room."""
        if isinstance(trace, RecordedCluster):
            self._fill_recorded(trace)
        zones = [node_group.zone for node_group in self.scenario.node_groups]
        with self.cluster.transaction() as state:
            for of_class in self.scenario.storage_classes:
                state.put(storage_class(of_class, zones))
        for group in self.scenario.node_groups:
            self._add_group(group)
        for workload in sorted(self.scenario.workloads, key=lambda workload: workload.kind != "DaemonSet"):
            self.workloads.add(workload, self.begin_s)
        for batch in self.scenario.batches:
            self.workloads.add_batch(batch)
        if isinstance(trace, TracedObjects):
            self.workloads.add_traced(trace, self.scenario.trace.pod.start if self.scenario.trace else PodModel().start)
        elif self.scenario.trace is not None and not isinstance(trace, RecordedCluster):
            self.workloads.add_trace(self.scenario.trace, trace)

    def _fill_recorded(self, recorded: RecordedCluster) -> None:
        """Set up the objects that a recording has from its beginning. Raises ScenarioError."""
        model = self.scenario.recording or RecordingModel(file="")
        with self.cluster.transaction() as state:
            try:
                # Copied: the simulation modifies them, and other settings use the same recording.
                state.fill(copy.deepcopy(recorded.objects))
            except ObjectFileError as error:
                raise ScenarioError(f"{model.file}: {error}") from None
            self.cluster.controllers.finish_terminating()
            for name, item in sorted(state.groups.items()):
                members = [instance.name for instance in state.instances.values() if instance.group == name]
                group = group_model(item, [state.nodes[node].node for node in members if node in state.nodes], model)
                self._groups[name] = group
                if group.price is not None:
                    item["spec"]["price"] = group.price
                self._declared.append(msgspec.convert(item, NodeGroup))
                self.measurements.add_group(name, group.zone, group.price)
        if recorded.is_under_way:
            self.measurements.begin_here()
        self.workloads.add_recorded(recorded)

    def _add_group(self, group: NodeGroupModel) -> None:
        if group.name in self._groups:
            raise ValueError(f"node group {group.name} is there already")
        self._groups[group.name] = group
        self.cluster.controllers.attach_limits[group.name] = group.attach_limits
        item = node_group(group)
        self._declared.append(msgspec.convert(item, NodeGroup))
        self.measurements.add_group(group.name, group.zone, group.price)
        with self.cluster.transaction() as state:
            state.put(item)
            self.cluster.controllers.start_at_once(group.name, group.min_size if group.size is None else group.size)

    def _delays(self) -> ScenarioDelays:
        timing = self.scenario.timing
        return ScenarioDelays(
            pod_stop_s=timing.pod_stop,
            instance_delete_s=timing.instance_delete,
            groups=self._groups,
            seed=self.scenario.seed,
        )

    def _actuator_settings(self) -> ActuatorSettings:
        """Return the settings of the actuator: nothing in them depends on how fast the machine is."""
        timing = self.scenario.timing
        return ActuatorSettings(
            work=WorkSettings(
                drain=DrainSettings(timeout_s=timing.drain_timeout),
                delay_after_taint_s=timing.delay_after_taint,
                taint_thread_count=1,
            ),
            limits=DeletionLimits(UNLIMITED, UNLIMITED, 300.0),
            soft_taints=WriteLimits(10, math.inf),
            pod_costs=WriteLimits(max_s=math.inf),
        )

    def _refuse_growth(self, operation: str, subject: str) -> None:
        """Refuse to grow a group in its outages. Raises CloudRefusedError."""
        if operation != "set_size":
            return
        since_s = self.now_s - self.begin_s
        for outage in self._groups[subject].outages:
            if outage.start <= since_s < outage.end:
                raise CloudRefusedError(f"node group {subject} is out of capacity")


def _silence_logs() -> None:
    """Drop the log lines of the simulated planner and actuator, which would go to stdout, unless the caller has
    configured logging.
    """
    if not structlog.is_configured():
        structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


def _is_due(moment_s: float | None, now_s: float) -> bool:
    return moment_s is not None and moment_s <= now_s


def _timestamp(moment_s: float) -> Timestamp:
    moment = Timestamp()
    moment.FromMilliseconds(int(moment_s * 1000))
    return moment
