"""Rounds of planner and actuator on a simulated cluster, on virtual time; the loop gets no node groups from files."""

from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.actuator import SETTINGS, START_S
from tests.builders.kubernetes import Json
from trimtab.actuator.cloud.provider import CloudProvider
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundResult, RoundRunner, RoundSettings
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.local_actuator import LocalActuator
from trimtab.clients.simulation.observed_cluster import ObservedCluster
from trimtab.clients.simulation.virtual_time import VirtualTime
from trimtab.common.kubernetes.object_files import Object
from trimtab.v1 import plan_pb2


class Rounds:
    """Planner and actuator on a simulated cluster; the loop gets no node groups from files."""

    def __init__(self, objects: list[Json], cloud: CloudProvider | None = None, **settings: Json) -> None:
        """`settings` : those of the plan, by decision."""
        self.time = VirtualTime(START_S)
        self.observed = ObservedCluster(lambda _things, _entries: None)
        self.cluster = SimulatedCluster(
            objects, self.observed, Delays(node_start_s=20), self.time.clock, self.time.sleep
        )
        self.observed.observe(self.cluster)
        self.cloud = cloud or MemoryCloud(self.cluster)
        actuator = LocalActuator(self.cluster, self.time, SETTINGS, self.cloud)
        plan = ParseDict(settings, plan_pb2.PlanSettings())
        if not plan.scale_down.HasField("delay_after_add"):
            plan.scale_down.delay_after_add.SetInParent()
        settings = RoundSettings(decisions=(plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN), plan=plan)
        self.runner = RoundRunner(self.observed, PlannerSession(InProcessLink()), actuator, settings)
        self.count = 0

    def round(self) -> RoundResult:
        """Advance time by ten seconds and make a round."""
        until_s = self.time.now_s + 10
        while (due_s := self.time.next_s()) is not None and due_s <= until_s:
            self.time.step()
        self.time.now_s = max(self.time.now_s, until_s)
        self.count += 1
        now = Timestamp()
        now.FromMilliseconds(int(self.time.now_s * 1000))
        return self.runner.run(f"r{self.count}", now, lambda: True)

    def target(self, group: str) -> int:
        self.cloud.refresh()
        return next(one.target_size for one in self.cloud.node_groups() if one.id == group)

    def run_for(self, seconds: float) -> list[tuple[str, int]]:
        """Make a round every ten seconds; return the scale-ups as group and number of nodes."""
        grown = []
        for _ in range(int(seconds / 10)):
            splits = self.round().answer.scale_up.splits
            grown += [(one.node_group, one.new_size - one.current_size) for one in splits]
        return grown

    def add(self, *items: Object) -> None:
        """Put objects into the cluster."""
        with self.cluster.transaction() as state:
            for item in items:
                if item["kind"] == "Pod":
                    state.put_pod(SimulatedPod(item))
                else:
                    state.put(item)

    def edit_group(self, name: str, **spec: object) -> None:
        """Change the configuration of a node group in the cloud."""
        with self.cluster.transaction() as state:
            state.groups[name]["spec"].update(spec)
            state.group_changed(name)

    @property
    def pending(self) -> list[str]:
        with self.cluster.transaction() as state:
            return sorted(name for _, name in state.pending)

    def nodes(self, group: str) -> list[str]:
        with self.cluster.transaction() as state:
            return sorted(name for name, one in state.instances.items() if one.group == group and name in state.nodes)
