"""The scale-up decision as a plan takes it, over a snapshot that is kept. All clusters are synthetic.

"classes" is the copy of the kept simulation, "simulate" the decision, "answer" the parsing of its encoded entries,
which is the caller's work over the wire; "total" is all of them. The first loop after a change builds the simulation
anew, which is not counted here.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tests.benchmarks.registry import Stages, scenario
from tests.builders.rows import Labels, NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.places import count_places, new_nodes
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import AffinityTerm, LabelRequirement, PodRequirements, SpreadConstraint
from trimtab.planner.round.round import Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.snapshot_pb2 import LabelOperator

NOW_S = 1_800_000_000
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("a", "b", "c")
GIB, MIB = 1 << 30, 1 << 20
MARKED = 32
"""Flag of a pod that the scheduler could not place."""


@dataclass
class Growing:
    """A cluster, the request, and what the service keeps from one request to the next."""

    cluster: Cluster
    kept: CachedSnapshot
    request: pb.PlanRequest
    state: pb.PlanState | None = None

    def plan(self, stages: Stages) -> pb.PlanResponse:
        """Take the decision as the service does."""

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            with stages.stage(name):
                yield

        work = Work(stage=stage, cache=self.kept)
        return plan(self.kept.snapshot, self.request, self.state, work)


def prepare(build: Callable[[], Cluster], *expanders: "pb.Expander.Code.ValueType", steady: bool = False) -> Growing:
    cluster = build()
    request = pb.PlanRequest(decisions=[pb.Decision.SCALE_UP])
    request.now.seconds = NOW_S
    request.settings.scale_up.expanders.extend(expanders)
    request.settings.scale_up.max_new_nodes = 50_000
    made = Growing(cluster, CachedSnapshot(canonicalize(write(cluster, in_order=True))), request)
    if steady:
        made.state = made.plan(Stages()).state
    return made


def run(made: Growing, stages: Stages) -> pb.PlanResponse:
    with stages.stage("total"):
        answer = made.plan(stages)
    # The copy of the simulation is made in the course of the decision.
    stages.seconds["simulate"] -= stages.seconds["classes"]
    stages.fact("nodes", sum(split.new_size - split.current_size for split in answer.scale_up.splits))
    stages.fact("price per hour", answer.scale_up.price_per_hour)
    stages.fact("pods placed", count_places(answer.scale_up.places).new)
    return answer


def full_nodes(count: int, zones: tuple[str, ...] = ZONES) -> dict[str, NodeRow]:
    """Nodes of some zones that have no room left."""
    room = {"cpu": 1, "memory": 1, "pods": 110}
    return {
        f"n{i:05}": NodeRow(labels={HOST: f"n{i:05}", ZONE: zones[i % len(zones)]}, allocatable=room)
        for i in range(count)
    }


def group(amounts: Mapping[str, int], zone: str, price: float, **labels: str) -> Group:
    template = NodeRow(labels={ZONE: zone, **labels}, allocatable=dict(amounts))
    return Group(max_size=5_000, target_size=0, template=template, price=price)


def waiting(count: int, specs: list[PodRequirements], labels: list[Labels]) -> dict[tuple[str, str], PodRow]:
    """Pods by specs and labels in turn."""
    size = len(specs)
    return {
        ("default", f"p{i:06}"): PodRow(
            uid=f"u{i}", spec=specs[i % size], labels=labels[i % len(labels)], phase=1, flags=MARKED
        )
        for i in range(count)
    }


def requests(cpu_milli: int, memory_bytes: int) -> PodRequirements:
    return PodRequirements(requests=(("cpu", cpu_milli), ("memory", memory_bytes)))


def selecting(key: str, value: str) -> tuple[LabelRequirement, ...]:
    return (LabelRequirement(key, LabelOperator.IN, (value,)),)


def even(spec: PodRequirements, over: str, key: str, value: str) -> PodRequirements:
    return spec._replace(topology_spread=(SpreadConstraint(1, over, selecting(key, value), 1, True, False, ()),))


def equal_pods() -> Cluster:
    one = group({"cpu": 5_000, "memory": 64 * GIB, "pods": 110}, "a", 1.0)
    return Cluster(nodes=full_nodes(10), groups={"g": one}, pods=waiting(50_000, [requests(100, MIB)], [{}]))


def many_classes(nodes: int) -> Cluster:
    specs = [requests(100 + 37 * (i % 10), (1 + i // 10) << 28) for i in range(100)]
    groups = {
        f"g{i:02}": group(
            {"cpu": 4_000 + 1_000 * (i % 25), "memory": (16 + 2 * i) * GIB, "pods": 110},
            ZONES[i % 3], 0.2 + 0.04 * (i % 25) + 0.01 * i,
        )
        for i in range(50)
    }  # fmt: skip
    return Cluster(nodes=full_nodes(nodes), groups=groups, pods=waiting(10_000, specs, [{}]))


def spread_pods(nodes: int, pods: int, workloads: int, groups: int, zones: tuple[str, ...] = ZONES) -> Cluster:
    """Workloads with a zonal skew of 1; groups of one shape in the zones in turn."""
    specs = [even(requests(100, MIB), ZONE, "app", f"app-{i}") for i in range(workloads)]
    labels: list[Labels] = [{"app": f"app-{i}"} for i in range(workloads)]
    amounts = {"cpu": 32_000, "memory": 64 * GIB, "pods": 110}
    growing = {f"g{i:02}": group(amounts, zones[i % len(zones)], 1.0) for i in range(groups)}
    return Cluster(nodes=full_nodes(nodes, zones), groups=growing, pods=waiting(pods, specs, labels))


def karpenters(pods: int) -> Cluster:
    """The shape of Karpenter's scheduling benchmark: its kinds of pods, and 400 instance sizes in three zones."""
    random = Random(42)
    letters = "abcdefg"
    groups = {
        f"size-{cores:03}-{zone}": group(
            {"cpu": cores * 1000 - 100, "memory": cores * 2 * GIB - 110 * MIB, "pods": cores * 10}, zone, 0.027 * cores
        )
        for cores in range(1, 401)
        for zone in ZONES
    }
    made = {}
    for i in range(pods):
        spec = requests(random.choice((100, 250, 500, 1000, 1500)), random.choice(_KARPENTER_MIB) * MIB)
        kind, letter = i * 5 // pods, random.choice(letters)
        labels: Labels = {"my-label": letter}
        if kind == 1:
            labels = {"zonal": letter}
            spec = even(spec, ZONE, "zonal", letter)
        elif kind == 2:
            labels = {"hostly": letter}
            spec = even(spec, HOST, "hostly", letter)
        elif kind == 3:
            labels = {"together": letter}
            spec = spec._replace(pod_affinity=(near(ZONE, "together", letter),))
        elif kind == 4:
            labels = {"app": "nginx"}
            spec = spec._replace(pod_anti_affinity=(near(HOST, "app", "nginx"),))
        made["default", f"p{i:06}"] = PodRow(uid=f"u{i}", spec=spec, labels=labels, phase=1, flags=MARKED)
    return Cluster(groups=groups, pods=made)


def crowded(pods: int) -> Cluster:
    """A cluster of 5,000 nodes in which nothing helps some pods: no group takes them, or all are at their maxima."""
    made = many_classes(5_000)
    large = [requests(100_000 + i, GIB) for i in range(100)]
    return replace(made, pods=waiting(pods, large, [{}]))


_KARPENTER_MIB = (100, 256, 512, 1024, 2048, 4096)


def near(over: str, key: str, value: str) -> AffinityTerm:
    return AffinityTerm(selecting(key, value), (), None, over)


def verify(made: Growing, answer: pb.PlanResponse) -> None:
    """Every pod is on a new node of a group, no node holds more than it has, spread and affinity hold."""
    cluster, decision = made.cluster, answer.scale_up
    assert not decision.unschedulable
    nodes = new_nodes(decision)
    placed = sorted(pod for of_group in nodes.values() for pods in of_group for pod in pods)
    assert placed == [f"default/{name}" for _, name in cluster.pods]
    counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    node_count = 0
    for split in decision.splits:
        template = cluster.groups[split.node_group].template
        assert template is not None
        domain = template.labels
        for names in nodes[split.node_group]:
            node_count += 1
            pods = [cluster.pods["default", name.partition("/")[2]] for name in names]
            assert pods
            used = Counter({"pods": len(pods)})
            for pod in pods:
                used.update(dict(pod.spec.requests))
                for over, key, value in asked_of_others(pod.spec):
                    counts[over, key, value][f"node {node_count}" if over == HOST else domain[over]] += 1
            assert all(amount <= template.allocatable[name] for name, amount in used.items())
    # A zone without nodes is none for the scheduler.
    grown = [cluster.groups[split.node_group].template for split in decision.splits]
    zones = {one.labels[ZONE] for one in (*cluster.nodes.values(), *grown) if one}
    for (over, key, _), found in counts.items():
        if key == "together":
            assert len(found) == 1
        elif over == HOST:
            assert max(found.values()) == 1
        else:
            assert max(found.values()) - min(found[zone] for zone in zones) <= 1


def asked_of_others(spec: PodRequirements) -> Iterator[tuple[str, str, str]]:
    """Yield topology key, label and value of what a pod asks about pods like itself."""
    found = [(one.topology_key, one.selector) for one in (*spec.pod_affinity, *spec.pod_anti_affinity)]
    for over, selector in found + [(one.topology_key, one.selector) for one in spec.topology_spread]:
        assert selector
        yield over, selector[0].key, selector[0].values[0]


def verify_steady(made: Growing, answer: pb.PlanResponse) -> None:
    """All pods stay pending, each with a reason by group; nothing has changed in the state."""
    assert sum(len(one.pods) for one in answer.scale_up.unschedulable) == len(made.cluster.pods)
    assert all(len(one.reasons) == len(made.cluster.groups) for one in answer.scale_up.unschedulable)
    assert not answer.scale_up.splits
    assert made.state is not None
    assert answer.state.scale_up == made.state.scale_up


CHEAPEST = pb.Expander.CHEAPEST_PLAN

scenario(
    name="scale-up 50,000 equal pods",
    what="50,000 pods without owner onto 1,000 new nodes of one group",
    setup=partial(prepare, equal_pods),
    run=run,
    verify=verify,
    aims={"simulate": 0.030},
    reference="the real autoscaler: 9.8 s",
)
for nodes, aim, upstream in ((1_000, 0.060, 35), (5_000, 0.100, 136)):
    scenario(
        name=f"scale-up 100 classes 50 groups, {nodes:,} nodes",
        what=f"10,000 pods in 100 classes, 50 groups, {nodes:,} nodes without room",
        setup=partial(prepare, partial(many_classes, nodes)),
        run=run,
        verify=verify,
        aims={"simulate": aim},
        reference=f"the real autoscaler: {upstream} s",
    )
scenario(
    name="scale-up spread pods 10 groups, 1,000 nodes",
    what="1,000 pods of 20 workloads with a zonal skew of 1, 10 groups in three zones",
    setup=partial(prepare, partial(spread_pods, 1_000, 1_000, 20, 10)),
    run=run,
    verify=verify,
    aims={"simulate": 0.020},
    reference="the real autoscaler: 91 s",
)
for pods in (10_000, 100_000):
    scenario(
        name=f"scale-up {pods:,} spread pods, 5,000 nodes",
        what=f"{pods:,} pods of one workload with a zonal skew of 1, one group in the one zone",
        setup=partial(prepare, partial(spread_pods, 5_000, pods, 1, 1, ("a",))),
        run=run,
        verify=verify,
        aims={"simulate": 0.020 * pods / 10_000},
        reference="the real autoscaler: more than 549 s for 10,000",
    )
for pods in (1_000, 10_000, 20_000):
    for name, expanders in (("cheapest-plan", (CHEAPEST,)), ("default expanders", ())):
        scenario(
            name=f"scale-up Karpenter's shape {pods:,} pods, {name}",
            what=f"{pods:,} pods as in Karpenter's scheduling benchmark, 400 instance sizes in three zones",
            setup=partial(prepare, partial(karpenters, pods), *expanders),
            run=run,
            verify=verify,
            repeats=2,
        )
for pods in (100, 1_000):
    scenario(
        name=f"scale-up steady loop {pods:,} pods, 5,000 nodes",
        what=f"{pods:,} pods in 100 classes that none of 50 groups helps, again with the state of the last answer",
        setup=partial(prepare, partial(crowded, pods), steady=True),
        run=run,
        verify=verify_steady,
        aims={"simulate": 0.005},
    )
