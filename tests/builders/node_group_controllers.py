"""Stages for the controllers of node groups: learning resources of node types, reconciling sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.builders.actuator import SETTINGS, Stage
from tests.builders.kubernetes import Json, node, node_group
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX
from trimtab.actuator.cloud.provider import CloudError, CloudNodeTemplate, MachineType, Reservation
from trimtab.actuator.node_groups.reconciler import LOOK_MS, NodeGroupReconciler
from trimtab.actuator.settings import BackoffPolicy, GroupSettings
from trimtab.actuator.tracker.states import SeenType
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2

GIB = 1 << 30

TYPE = "m5.large"

MACHINE = MachineType(TYPE, 2000, 8 * GIB, 29, Reservation.EKS)


class Machines(MemoryCloud):
    """The simulated cluster's cloud, which knows only the machines of its groups."""

    machines: Sequence[MachineType] = (MACHINE,)
    is_away = False
    asked = 0

    def template(self, group: str) -> CloudNodeTemplate | None:
        self.asked += 1
        if self.is_away:
            raise CloudError("throttled")
        found = super().template(group)
        return None if found is None else found._replace(machines=self.machines)


def machine_node(name: str, memory: str = "7000Mi", **more: Json) -> Json:
    """Return a node of the machine. `others` : further resources."""
    others = more.pop("others", {})
    capacity = {"cpu": "2", "memory": "7900Mi", "pods": "29"} | others
    labels = {"node.kubernetes.io/instance-type": more.pop("kind", TYPE)}
    made = node(name, cpu="1930m", memory=memory, pods="29", capacity=capacity, labels=labels, **more)
    made["status"]["allocatable"] |= others
    return made


class LearnerStage(Stage):
    """A stage that learns from its nodes."""

    def __init__(self, *nodes: Json) -> None:
        names = [one["metadata"]["name"] for one in nodes]
        template = node("template", cpu="2", memory="8Gi", pods="29")
        group = node_group("g", 0, 9, target=len(names), nodes=names, template=template)
        super().__init__([*nodes, group], replace(SETTINGS, groups=GroupSettings(not_ready_taints=("example.org/*",))))
        self.machines = Machines(self.cluster)
        self.cloud = self.machines
        self.restart()

    def restart(self, die_at: int | None = None) -> None:
        self.boot(die_at)
        self.reconciler = NodeGroupReconciler(
            self.actuator.processor,
            self.cluster,
            self.cloud,
            self.actuator.settings.groups,
            self.actuator.settings.present_limits,
        )

    def show(self, changed: Json) -> None:
        """Change what a node reports."""
        with self.cluster.transaction() as state:
            state.put(changed)

    def look(self, after_ms: int = LOOK_MS) -> None:
        self.run_for(after_ms / 1000)
        self.reconciler.step()

    @property
    def known(self) -> tuple[SeenType, ...]:
        return self.actuator.processor.read(lambda tracker, _: tracker.data.node_types)

    @property
    def allocatable(self) -> dict[str, str]:
        (group,) = self.status().node_groups
        return dict(group.template.allocatable)


PROVISION_S = 420.0

GROUPS = GroupSettings(max_node_provision_s=PROVISION_S, not_ready_taints=("example.org/checks*",))

NEVER_S = 1e7


@dataclass(frozen=True)
class Shortage(Delays):
    """A cloud in which machines of group "g" do not start while `out` names it."""

    out: frozenset[str] = frozenset()

    def node_start_of(self, name: str, group: str) -> float:
        del name
        return NEVER_S if group in self.out else 3.0


class ReconcilerStage(Stage):
    """A stage with a reconciler of node groups."""

    def __init__(
        self,
        out: str = "",
        backoff: BackoffPolicy = BackoffPolicy.UNTIL_JOINED,
        count: int = 2,
        least: int = 0,
        option: str = "",
        sized_by_caller: bool = False,
    ) -> None:
        names = [f"n{number}" for number in range(count)]
        machines: list[Json] = [node(name, cpu="8") for name in names]
        template = node("template", cpu="8")
        group = node_group("g", least, 20, target=count, nodes=names, template=template)
        if option:
            group["metadata"]["annotations"] = {f"{ANNOTATION_PREFIX}maxnodeprovisiontime": option}
        settings = replace(SETTINGS, groups=replace(GROUPS, backoff=backoff, sized_by_caller=sized_by_caller))
        super().__init__([*machines, group], settings, Shortage(out=frozenset(out)))
        self.reconciler = self.new_reconciler()

    def new_reconciler(self) -> NodeGroupReconciler:
        actuator = self.actuator
        return NodeGroupReconciler(
            actuator.processor, self.cluster, self.cloud, actuator.settings.groups, actuator.settings.present_limits
        )

    def look_for(self, seconds: float) -> None:
        """Advance time, with a check every ten seconds."""
        for _ in range(int(seconds / 10)):
            self.run_for(10)
            self.reconciler.step()
        self.run_for(0.1)

    def grow(self, request_id: str, size: int, by: int = 1) -> None:
        split = plan_pb2.ScaleUpSplit(node_group="g", current_size=size, new_size=size + by)
        self.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=request_id, splits=[split]))
        self.run_for(1)

    def restart(self) -> None:
        self.boot()
        self.reconciler = self.new_reconciler()

    @property
    def group(self) -> actuator_pb2.NodeGroupStatus:
        (found,) = self.status().node_groups
        return found

    @property
    def is_backed_off(self) -> bool:
        return self.group.health == snapshot_pb2.NodeGroupHealth.BACKED_OFF

    def new_node(self) -> str:
        """Return the only node that has joined since the start."""
        with self.cluster.transaction() as state:
            (found,) = (name for name in state.nodes if name.startswith("g-"))
        return found

    def lose(self, name: str) -> str:
        """Delete the Node object of a running machine; return the machine's id."""
        with self.looking():
            view = self.cluster.get_node(name)
            self.cluster.delete_node(name, view.uid)
        return view.provider_id
