"""A scenario: node groups, workloads and arrivals of a simulated cluster, as YAML files give them.

Decides which values can be meant; each field says its meaning and unit. Durations are text as in Go ("90s", "1h30m") or
seconds; in Python they are seconds. Quantities are those of Kubernetes. Raises pydantic's ValidationError.
"""

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, PlainSerializer, model_validator

from trimtab.clients.decisions import NAMES
from trimtab.clients.simulation.scenario_values import (
    MODEL_CONFIG,
    Duration,
    JobRequestModel,
    Json,
    Labels,
    Name,
    Namespace,
    Price,
    Quantity,
    ReclaimModel,
    StorageClassModel,
    VolumeModel,
    check_pod_spec,
    check_taints,
)

LAST_YEAR = 2254
"""First year that is too late for a planner's times, with the longest duration."""
CAPACITY_REQUESTS = "capacity-requests"
"""The decision on ProvisioningRequests."""
DEFAULT_START = datetime(2026, 3, 2, tzinfo=UTC)
"""A Monday, 00:00: loads by time of day begin at night."""


class _ScenarioModel(BaseModel):
    """Base of the parts of a scenario."""

    model_config = MODEL_CONFIG


class Outage(_ScenarioModel):
    """A period during which the cloud refuses to grow a group."""

    start: Duration = Field(alias="from")
    """Its start, counted from the start of the simulation."""
    end: Duration = Field(alias="to")
    """Its end, counted from the start of the simulation."""

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        if self.end <= self.start:
            raise ValueError(f"it ends at {self.end:g} s, not after its start at {self.start:g} s")
        return self


class NodeGroupModel(_ScenarioModel):
    """A node group with nodes of one kind."""

    name: Name
    """Id of the group, and the prefix of its nodes' names."""
    min_size: int = Field(default=0, ge=0)
    """Minimum size."""
    max_size: int = Field(default=100, ge=1, le=100_000)
    """Maximum size."""
    size: int | None = Field(default=None, ge=0)
    """Initial size; by default the minimum."""
    cpu: Quantity = "4"
    """Allocatable cpu of a node."""
    memory: Quantity = "16Gi"
    """Allocatable memory of a node."""
    pods: int = Field(default=110, ge=1)
    """Maximum number of pods on a node."""
    resources: dict[str, Quantity] = {}
    """Other allocatable resources of a node."""
    price: Price | None = None
    """Hourly price of a node."""
    zone: str = ""
    """Zone of the nodes; they get it as a label."""
    labels: Labels = {}
    """Other labels of the nodes."""
    taints: Annotated[list[Json], AfterValidator(check_taints)] = []
    """Taints of the nodes, as in Kubernetes."""
    start: Duration = 60.0
    """From the accepted request to a ready node."""
    start_spread: Duration = 0.0
    """Maximum additional start time of a node, drawn uniformly."""
    start_failure_rate: float = Field(default=0.0, ge=0, le=1)
    """Share of machines that disappear instead of becoming a node."""
    outages: list[Outage] = []
    """Periods during which the cloud refuses to grow the group."""
    attach_limits: dict[Name, Annotated[int, Field(ge=0, le=1000)]] = {}
    """Maximum number of volumes on a node, by CSI driver; none = no limit."""

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        if self.min_size > self.max_size:
            raise ValueError(f"minSize {self.min_size} is more than maxSize {self.max_size}")
        if self.size is not None and not self.min_size <= self.size <= self.max_size:
            raise ValueError(f"size {self.size} is not between minSize {self.min_size} and maxSize {self.max_size}")
        return self


class PodModel(_ScenarioModel):
    """The pods of a workload."""

    cpu: Quantity = "100m"
    """Requested cpu."""
    memory: Quantity = "128Mi"
    """Requested memory."""
    labels: Labels = {}
    """Labels besides `app`, which is the name of the workload."""
    annotations: dict[str, str] = {}
    """Annotations."""
    spec: Annotated[Json, AfterValidator(check_pod_spec)] = {}
    """Other fields of a pod's spec, as in Kubernetes: nodeSelector, tolerations, affinity, priority, …"""
    start: Duration = 5.0
    """From the binding to a node until the pod is ready."""


class BudgetModel(_ScenarioModel):
    """A PodDisruptionBudget for the pods of a workload: either minAvailable or maxUnavailable."""

    min_available: int | str | None = None
    """Minimum number or percentage of available pods."""
    max_unavailable: int | str | None = None
    """Maximum number or percentage of unavailable pods."""

    @model_validator(mode="after")
    def _is_one_of_the_two(self) -> Self:
        if (self.min_available is None) == (self.max_unavailable is None):
            raise ValueError("give either minAvailable or maxUnavailable")
        for value in (self.min_available, self.max_unavailable):
            text = "0" if value is None else str(value)
            if not text.removesuffix("%").isdecimal():
                raise ValueError(f'{value!r} is neither a number of pods nor a percentage such as "50%"')
        return self


class GangModel(_ScenarioModel):
    """A pod group whose pods are scheduled all or nothing."""

    min_count: int = Field(ge=1, le=1_000_000)
    """Fewest pods that start together."""
    name: Name | None = None
    """Name of the group, by default that of the workload; workloads of a namespace with the same name share it."""


class JobGangModel(_ScenarioModel):
    """A pod group for each job, whose pods are scheduled all or nothing."""

    min_count: int | None = Field(default=None, ge=1, le=100_000)
    """Fewest pods that start together; by default all of the job."""


class Step(_ScenarioModel):
    """A number of replicas from a given time on."""

    at: Duration
    """The time, counted from the start of the simulation."""
    replicas: int = Field(ge=0, le=1_000_000)
    """Number of replicas."""


class Diurnal(_ScenarioModel):
    """Replicas that follow the time of day, as a wave between two numbers."""

    low: int = Field(ge=0)
    """Replicas at the quietest time."""
    high: int = Field(ge=0)
    """Replicas at the busiest time."""
    peak: Duration = 14 * 3600.0
    """Time of day of the busiest time, since midnight UTC."""
    every: Duration = 900.0
    """Time between changes of the number."""
    noise: float = Field(default=0.0, ge=0, le=1)
    """Maximum relative deviation of each number, drawn uniformly."""

    @model_validator(mode="after")
    def _is_a_wave(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is more than high {self.high}")
        if self.every < 1:
            raise ValueError("every: at least 1s")
        return self


class Bursts(_ScenarioModel):
    """Replicas that rise for a while at regular intervals."""

    base: int = Field(default=0, ge=0)
    """Replicas between bursts."""
    size: int = Field(ge=1)
    """Additional replicas during a burst."""
    every: Duration
    """Time from the start of one burst to the start of the next."""
    length: Duration
    """Length of a burst."""
    first: Duration = 0.0
    """Start of the first burst."""

    @model_validator(mode="after")
    def _ends_before_the_next(self) -> Self:
        if not 0 < self.length < self.every:
            raise ValueError(f"length {self.length:g} s is not between 0 and every {self.every:g} s")
        return self


class WorkloadModel(_ScenarioModel):
    """A controller with replicas. At most one of `steps`, `diurnal`, `bursts` changes their number."""

    name: Name
    """Name of the controller."""
    kind: Literal["ReplicaSet", "StatefulSet", "DaemonSet"] = "ReplicaSet"
    """Kind of the controller; a DaemonSet has a pod on each node and no replicas."""
    namespace: Namespace = "default"
    """Its namespace."""
    replicas: int = Field(default=1, ge=0, le=1_000_000)
    """Initial number of replicas; not with `diurnal` or `bursts`."""
    pod: PodModel = PodModel()
    """Its pods."""
    budget: BudgetModel | None = None
    """Its PodDisruptionBudget."""
    gang: GangModel | None = None
    """The pod group of its pods."""
    volumes: list[VolumeModel] = []
    """Volumes of each pod, only of a StatefulSet."""
    steps: list[Step] = []
    """Replicas by time."""
    diurnal: Diurnal | None = None
    """Replicas by time of day."""
    bursts: Bursts | None = None
    """Replicas in bursts."""

    @model_validator(mode="after")
    def _has_one_load(self) -> Self:
        loads = [name for name in ("steps", "diurnal", "bursts") if getattr(self, name)]
        if len(loads) > 1:
            raise ValueError(f"{' and '.join(loads)} contradict each other; give one of them")
        has_replicas = "replicas" in self.model_fields_set
        if self.kind == "DaemonSet" and (loads or has_replicas):
            raise ValueError(f"a DaemonSet has a pod on each node; leave out {[*loads, 'replicas'][0]}")
        if self.volumes and self.kind != "StatefulSet":
            raise ValueError(
                f"volumes: only pods of a StatefulSet have volumes of their own, not those of a {self.kind}"
            )
        if self.gang is not None and self.kind == "DaemonSet":
            raise ValueError("gang: pods of a DaemonSet are not scheduled together; leave it out")
        if has_replicas and (self.diurnal or self.bursts):
            raise ValueError(f"replicas and {loads[0]} contradict each other; give one of them")
        times = [step.at for step in self.steps]
        if times != sorted(set(times)):
            raise ValueError("steps: each time must be later than the one before")
        return self


class Batch(_ScenarioModel):
    """Jobs that arrive and end. Arrivals are drawn uniformly over time, independently of each other."""

    name: Name
    """Prefix of the jobs' names."""
    namespace: Namespace = "default"
    """Namespace of the jobs."""
    per_hour: float = Field(gt=0, le=1_000_000)
    """Average number of jobs that arrive in an hour."""
    pods: int = Field(default=1, ge=1, le=100_000)
    """Pods of each job."""
    lifetime: Duration = 600.0
    """Average time that a pod runs once it is ready; drawn for each job from an exponential distribution."""
    gang: JobGangModel | None = None
    """The pod group of each job; it goes with the job."""
    provisioning_request: JobRequestModel | None = None
    """The ProvisioningRequest of each job, which starts once it is provisioned."""
    pod: PodModel = PodModel()
    """The pods."""

    @model_validator(mode="after")
    def _can_be_whole(self) -> Self:
        if self.gang is not None and (self.gang.min_count or 0) > self.pods:
            raise ValueError(f"gang: a job has {self.pods} pods, never the {self.gang.min_count} of minCount")
        return self


class TraceModel(_ScenarioModel):
    """Load from a file: arrivals as CSV or JSON Lines, or a trace of SimKube; see `docs/simulate.md`."""

    file: str
    """Path, relative to the scenario's file."""
    namespace: Namespace = "default"
    """Namespace of the pods whose line names none."""
    pod: PodModel = PodModel()
    """Properties of the pods that the trace does not give; of those of SimKube only `start` counts."""
    provisioning_request: JobRequestModel | None = None
    """The ProvisioningRequest of each line, whose pods are created once it is provisioned; not of SimKube's traces."""


class RecordingModel(_ScenarioModel):
    """A recorded cluster and its pods as they came and went: see `trimtab.clients.simulation.recorded`."""

    file: str
    """Path, relative to the scenario's file."""
    start: Duration = 60.0
    """From the accepted request to a ready node, of every recorded node group."""
    prices: dict[str, Price] = {}
    """Hourly price of a node by node group, instead of the recorded one."""


class SchedulerModel(_ScenarioModel):
    """The scheduler."""

    scoring: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    """Spread pods as kube-scheduler does by default, or pack them."""
    pod_groups: Literal["1.36", "1.37"] = "1.36"
    """Version of Kubernetes whose PodGroups the gangs are; in 1.37 each has the priority of its pods."""
    preemption: bool = True
    """Pods of a higher priority (`priority` in their spec) take the places of others, as with kube-scheduler."""


class PolicyModel(_ScenarioModel):
    """A program that decides instead of the planner: see `docs/simulate.md`."""

    external: Annotated[list[str], Field(min_length=1)]
    """Program and arguments; it reads and writes lines of JSON."""
    timeout: Duration = 60.0
    """Longest time for an answer."""


class Timing(_ScenarioModel):
    """Times of cluster and cloud."""

    interval: Duration = 10.0
    """Time between rounds of the autoscaler's loop."""
    pod_stop: Duration = 2.0
    """From the start of a pod's termination to its end, at most its grace period."""
    instance_delete: Duration = 30.0
    """From the accepted request to the deleted machine."""
    delay_after_taint: Duration = 5.0
    """The actuator's pause between taint and first eviction."""
    drain_timeout: Duration = 3600.0
    """Maximum duration of a drain."""

    @model_validator(mode="after")
    def _loop_goes_on(self) -> Self:
        if self.interval < 1:
            raise ValueError("interval: at least 1s")
        return self


Time = Annotated[datetime, PlainSerializer(lambda time: time.isoformat().replace("+00:00", "Z"))]


def _known_decision(name: str) -> str:
    if name not in NAMES:
        raise ValueError(f"{name!r} is no decision; use one of {', '.join(NAMES)}")
    return name


DecisionName = Annotated[str, AfterValidator(_known_decision), Field(json_schema_extra={"enum": list(NAMES)})]


class Scenario(_ScenarioModel):
    """A simulated cluster and what happens in it."""

    name: str = "scenario"
    """Name, for reports."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Seed of all random numbers; the same seed gives the same simulation."""
    start: Time = DEFAULT_START
    """Start time of the simulation."""
    duration: Duration = 86_400.0
    """Length of the simulation."""
    decisions: list[DecisionName] = ["scale-up", "scale-down"]
    """Decisions that the planner takes; `capacity-requests` always if jobs have ProvisioningRequests."""
    node_groups: list[NodeGroupModel] = []
    """The node groups."""
    workloads: list[WorkloadModel] = []
    """Controllers with replicas."""
    batches: list[Batch] = []
    """Jobs that arrive and end."""
    trace: TraceModel | None = None
    """Arrivals from a file."""
    recording: RecordingModel | None = None
    """A recorded cluster, whose nodes, node groups and pods are added to those of the scenario."""
    storage_classes: list[StorageClassModel] = []
    """Classes of the volumes of workloads."""
    reclaims: list[ReclaimModel] = []
    """Machines that the cloud takes back."""
    policy: PolicyModel | None = None
    """A program that decides instead of the planner."""
    scheduler: SchedulerModel = SchedulerModel()
    """The scheduler."""
    timing: Timing = Timing()
    """Times of cluster and cloud."""

    @property
    def taken_decisions(self) -> tuple[str, ...]:
        """Return the decisions that the planner takes, with that on ProvisioningRequests if jobs have some."""
        asks = any(one is not None and one.provisioning_request is not None for one in (*self.batches, self.trace))
        return tuple(dict.fromkeys([*self.decisions, *([CAPACITY_REQUESTS] if asks else ())]))

    def _check_policy(self) -> None:
        """Raise ValueError if something is to be decided that an external program does not decide."""
        others = sorted(set(self.decisions) - {"scale-up", "scale-down"})
        if others:
            raise ValueError(f"policy: an external program does not decide {others[0]}; leave it out of decisions")
        if CAPACITY_REQUESTS in self.taken_decisions:
            raise ValueError("policy: an external program answers no provisioningRequest; leave it out")

    @model_validator(mode="after")
    def _can_run(self) -> Self:
        if self.trace is not None and self.recording is not None:
            raise ValueError("trace and recording contradict each other; give one of them")
        if self.policy is not None:
            self._check_policy()
        if self.start.tzinfo is None:
            raise ValueError("start: give a time zone, such as Z")
        if not 1970 < self.start.year < LAST_YEAR:
            raise ValueError(f"start: {self.start.year} is no year between 1971 and {LAST_YEAR - 1}")
        if self.duration < self.timing.interval:
            raise ValueError(f"duration: {self.duration:g} s is shorter than timing.interval")
        groups = {one.name for one in self.node_groups}
        unknown = sorted({name for one in self.reclaims for name in one.node_groups} - groups)
        if unknown and self.recording is None:
            raise ValueError(f"reclaims: there is no node group {unknown[0]}")
        wanted = {volume.storage_class for one in self.workloads for volume in one.volumes}
        missing = sorted(wanted - {one.name for one in self.storage_classes})
        if missing:
            raise ValueError(f"workloads: there is no storage class {missing[0]} in storageClasses")
        least = {(one.namespace, one.gang.name or one.name, one.gang.min_count) for one in self.workloads if one.gang}
        gangs = [f"{namespace}/{name}" for namespace, name, _ in sorted(least)]
        for what, keys in (
            ("workloads: gangs with the same minCount", gangs),
            ("nodeGroups", [one.name for one in self.node_groups]),
            ("workloads", [f"{one.kind} {one.namespace}/{one.name}" for one in self.workloads]),
            ("storageClasses", [one.name for one in self.storage_classes]),
            ("batches", [f"{one.namespace}/{one.name}" for one in self.batches]),
        ):
            twice = sorted({key for key in keys if keys.count(key) > 1})
            if twice:
                raise ValueError(f"{what}: {twice[0]} is given twice")
        return self
