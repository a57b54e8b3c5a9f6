"""An actuator on virtual time, on a simulated cluster that outlives it, which can crash at any chosen point.

One thread runs everything, so a run depends only on its inputs: `Stage` boots an actuator, runs steps in order of time,
and "kills" it at the n-th write or external call by raising `Crash`. Everything that is neither in the store nor in the
cluster is then lost.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry.metrics import NoOpMeter

from tests.builders.kubernetes import Json, daemon_set, node, node_group, pdb, pod, pods_of, replica_set, stateful_set
from trimtab.actuator.kube.cluster import ClusterApi
from trimtab.actuator.service.app import Actuator, Runtime
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.settings import DeleteSettings, DrainSettings, GrowSettings, WorkSettings
from trimtab.actuator.store.records import History, MemoryStore, Record, Store
from trimtab.actuator.tracker.admission import DeletionLimits, digest_of
from trimtab.actuator.tracker.states import Retention
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.faults import Faults
from trimtab.clients.simulation.virtual_time import VirtualTime
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.v1 import actuator_pb2, plan_pb2

START_S = 1_800_000_000.0

SETTINGS = ActuatorSettings(
    work=WorkSettings(
        drain=DrainSettings(timeout_s=600.0, eviction_retry_s=5, poll_s=1),
        delete=DeleteSettings(timeout_s=60, poll_s=1, retry_s=2),
        grow=GrowSettings(timeout_s=30, retry_s=2),
        delay_after_taint_s=1,
        taint_thread_count=1,
    ),
    limits=DeletionLimits(max_parallelism=10, max_drain_parallelism=10, max_plan_age_s=300),
    retention=Retention(finished_s=36_000, evictions_s=36_000),
    answer_s=5,
)
DELAYS = Delays(pod_start_s=2, pod_stop_s=1, node_start_s=3, instance_delete_s=2)


class Crash(BaseException):
    """The process has died."""


@dataclass
class Breaker:
    """Counts the points at which a process may die, and makes it die at one of them."""

    die_at: int | None = None
    count: int = 0
    dead: bool = False
    last: str = ""
    # Only points whose label contains this text are counted.
    only: str = ""

    def moment(self, label: str) -> None:
        if self.dead:
            raise Crash(self.last)
        if self.only not in label:
            return
        self.count += 1
        if self.count == self.die_at:
            self.dead, self.last = True, f"moment {self.count}: {label}"
            raise Crash(self.last)


class BreakingStore:
    """A `Store` whose process may die before and after each write."""

    def __init__(self, store: Store, breaker: Breaker) -> None:
        self._store = store
        self._breaker = breaker

    def load(self) -> History:
        return self._store.load()

    def append(self, first_seq: int, records: Sequence[Record]) -> None:
        self._breaker.moment("before append")
        self._store.append(first_seq, records)
        self._breaker.moment("after append")

    def compact(self, seq: int, snapshot: bytes) -> None:
        self._breaker.moment("before compact")
        self._store.compact(seq, snapshot)
        self._breaker.moment("after compact")

    def take_over(self) -> int:
        return self._store.take_over()

    def confirm(self) -> None:
        self._store.confirm()

    def check(self) -> None:
        self._store.check()

    def close(self) -> None:
        self._store.close()


class Stage:
    """A cluster, a store, and the current actuator."""

    def __init__(
        self,
        objects: Sequence[Json],
        settings: ActuatorSettings = SETTINGS,
        delays: Delays = DELAYS,
        open_store: Callable[[], Store] | None = None,
    ) -> None:
        self.time = VirtualTime(START_S)
        self.settings = settings
        self.cluster = SimulatedCluster(objects, None, delays, self.time.clock, self.time.sleep)
        self.cloud = MemoryCloud(self.cluster)
        # The cluster as the actuator sees it, and the offset of the actuator's clock.
        self.face: ClusterApi = self.cluster
        self.skew_s = 0.0
        self.store = MemoryStore()
        self._open_store = open_store or (lambda: self.store)
        self.breaker = Breaker()
        self.cluster.faults.before = self._before
        self.cluster.faults.after = self._after
        self.violations: list[str] = []
        self.lacking: dict[str, int] = {}
        self.actuator: Actuator = self.boot()

    def boot(self, die_at: int | None = None) -> Actuator:
        """Start an actuator on the state of the previous one. Raises `Crash` if it dies while starting."""
        self.time.stop()
        self.breaker = Breaker(die_at)
        store = BreakingStore(self._open_store(), self.breaker)
        runtime = Runtime(lambda: self.time.clock() + self.skew_s, self.time.clock, self.time.make_pool)
        self.actuator = Actuator(store, self.face, self.cloud, NoOpMeter("test"), self.settings, runtime)
        self.actuator.start()
        return self.actuator

    def run(self, limit_s: float = 7200.0) -> None:
        """Run until no work is left. Fails if that takes longer than the limit."""
        until = self.time.now_s + limit_s
        while self.time.step():
            assert self.time.now_s < until, "still busy"

    def run_for(self, seconds: float) -> None:
        """Advance time."""
        until = self.time.now_s + seconds
        while (due_s := self.time.next_s()) is not None and due_s <= until:
            self.time.step()
        self.time.now_s = max(self.time.now_s, until)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Return a context for reading from outside, in which no process dies and no fault occurs."""
        faults, self.cluster.faults = self.cluster.faults, Faults(self.time.sleep)
        try:
            yield
        finally:
            self.cluster.faults = faults

    def request(
        self, request_id: str, *nodes: str, drain: bool = True, assume: bool = False, gang: str = "", **more: Any
    ) -> Any:
        """Return a `StartDeletion`; with `assume`, the plan assumes the present pods; gang : that of all nodes."""
        entries = []
        for name in nodes:
            entry = actuator_pb2.NodeToDelete(node=name, drain=drain, gang=gang)
            if assume:
                uids = self.uids_to_move(name)
                entry.assumption.CopyFrom(
                    plan_pb2.NodeAssumption(pods_to_move_count=len(uids), pods_to_move_digest=digest_of(uids))
                )
            entries.append(entry)
        return actuator_pb2.StartDeletionRequest(request_id=request_id, nodes=entries, **more)

    def start(self, request: Any) -> dict[str, tuple[bool, str]]:
        """Execute a request; return (accepted, reason) of each node once the taints are written."""
        self.actuator.deletions.begin(request)
        while self.actuator.deletions.answers(request) is None:
            assert self.time.step(), "never answered"
        answers = self.actuator.deletions.answers(request)
        assert answers is not None
        return {answer.node: (answer.accepted, reason_name(answer.reason)) for answer in answers}

    def uids_to_move(self, name: str) -> list[str]:
        with self.looking():
            views = self.cluster.list_pods(name)
        return [view.uid for view in views if not view.daemon and not view.mirror]

    def status(self) -> actuator_pb2.ActuatorStatus:
        with self.looking():
            return self.actuator.status(with_finished=True).message()

    def finished(self) -> dict[str, tuple[str, str]]:
        """Return the state and reason of the last finished deletion of each node."""
        return {
            d.node: (actuator_pb2.DeletionState.Code.Name(d.state), reason_name(d.reason))
            for d in self.status().finished
        }

    def noted(self, what: str) -> list[str]:
        """Return the subjects of the journal's lines of one kind."""
        return [entry.subject for entry in self.cluster.journal() if entry.what == what]

    def tainted(self) -> set[str]:
        """Return the nodes with the hard taint."""
        with self.looking():
            return {view.name for view in self.cluster.list_nodes() if view.taint(HARD_TAINT_KEY)}

    def target(self, group: str) -> int:
        """Return the target size of a node group."""
        with self.looking():
            return next(view.target_size for view in self.cloud.node_groups() if view.id == group)

    def active_pods(self, owner_name: str) -> int:
        """Return the replicas of an owner that run or wait."""
        pods = self.cluster.state.pods.values()
        return sum(p.active and p.owner.get("name") == owner_name for p in pods)

    def _moment(self, label: str) -> None:
        self.breaker.moment(label)

    def _before(self, operation: str, subject: str) -> None:
        self.lacking = self._lacking()
        self._moment(f"before {operation} {subject}")

    def _after(self, operation: str, subject: str) -> None:
        if operation in ("evict", "delete_instances"):
            # The operation is responsible only for pods that a budget lacks in addition to those that it lacked before.
            for name, count in self._lacking().items():
                if count > self.lacking.get(name, 0):
                    self.violations.append(f"{name} after {operation} {subject}")
        self._moment(f"after {operation} {subject}")

    def _lacking(self) -> dict[str, int]:
        """Return how many healthy pods each disruption budget lacks."""
        with self.cluster.transaction() as state:
            statuses = {name: state.budgets.status((namespace, name)) for namespace, name in state.budgets.items}
        return {name: max(one.desired_healthy - one.current_healthy, 0) for name, one in statuses.items()}


def reason_name(reason: int) -> str:
    from trimtab.v1 import reason_pb2

    return reason_pb2.DeletionReason.Code.Name(reason)  # type: ignore[arg-type]


def sql_store(path: Path) -> Callable[[], Store]:
    """Return a function that opens the SQLite store at a path anew in each call."""
    from trimtab.actuator.store.sql import SqlStore, sqlite_url

    return lambda: SqlStore(sqlite_url(path))


def small_cluster(count: int = 6, pods_per_node: int = 2, spare: int = 2) -> list[Json]:
    """`count` nodes of group "g" with pods of a ReplicaSet (behind a budget), a StatefulSet and a DaemonSet.

    `spare` further nodes are empty; node names are "n0", "n1", ….
    """
    names = [f"n{number}" for number in range(count + spare)]
    web, db, agent = replica_set("web", count * pods_per_node), stateful_set("db", count), daemon_set("agent")
    items: list[Json] = [node(name, cpu="8", memory="32Gi") for name in names]
    web_pods = pods_of(web, count * pods_per_node)
    for number, item in enumerate(web_pods):
        place(item, names[number % count])
    db_pods = pods_of(db, count)
    for number, item in enumerate(db_pods):
        place(item, names[number])
    daemons = [pod(f"agent-{name}", namespace="kube-system", node=name, owner=agent) for name in names]
    budget = pdb("web-budget", labels=web_pods[0]["metadata"].get("labels"), max_unavailable=2)
    group = node_group("g", 0, count + spare + 10, nodes=names, template=node("template", cpu="8", memory="32Gi"))
    return [*items, web, db, agent, *web_pods, *db_pods, *daemons, budget, group]


def place(item: Json, name: str) -> None:
    """Make a pod run on a node, ready."""
    item["spec"]["nodeName"] = name
    item["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
