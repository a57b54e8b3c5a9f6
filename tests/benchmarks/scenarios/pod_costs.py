"""Pod deletion costs: 150,000 pods in 3,000 groups, four strategies, in process. A synthetic cluster."""

from dataclasses import dataclass

import numpy as np

from tests.benchmarks.registry import Stages, scenario
from trimtab.places import ranks_of
from trimtab.planner.pod_costs.decision import decide
from trimtab.planner.pod_costs.settings import PodCostSettings, resolve_pod_costs
from trimtab.planner.round.round import Round, Work
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2

GROUPS, EACH, NODES = 3_000, 50, 5_000
NOW_NS = 1_800_000_000 * 10**9
ZONE = "topology.kubernetes.io/zone"
S = pb.PodCostStrategy


@dataclass
class Ranking:
    """A cluster and settings."""

    cluster: Snapshot
    settings: PodCostSettings


def cluster() -> snapshot_pb2.ClusterSnapshot:
    """Deployments' ReplicaSets of 50 pods each in 30 namespaces; 5,000 nodes in three zones, one in ten tainted."""
    made = snapshot_pb2.ClusterSnapshot(resources=["cpu"])
    texts = {"": 0}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts))

    sets = [[(text(ZONE), text(f"zone-{zone}"))] for zone in "abc"]
    sets += [[(text("app"), text(f"app-{g}")), (text("pod-template-hash"), text(f"{g:08x}"))] for g in range(GROUPS)]
    made.label_sets.offsets = _int32(np.cumsum([0, 0, *map(len, sets)]))
    made.label_sets.keys = _int32([key for one in sets for key, _ in one])
    made.label_sets.values = _int32([value for one in sets for _, value in one])
    made.node_groups.add(id="cheap", max_size=NODES, price_per_hour=0.1)
    made.node_groups.add(id="dear", max_size=NODES, price_per_hour=0.9)
    for n in range(NODES):
        node = made.nodes.add(name=f"node-{n:05}", label_set=1 + n % 3, ready=True, node_group=("cheap", "dear")[n % 2])
        node.allocatable.append(64_000)
        if n % 10 == 0:
            node.taints.add(key=text("dedicated"), effect=snapshot_pb2.TaintEffect.PREFER_NO_SCHEDULE)
    made.pod_specs.add()
    for g in range(GROUPS):
        owner = made.owners.add(uid=f"uid-{g}", kind="ReplicaSet", name=f"app-{g}", namespace=f"ns-{g % 30}")
        owner.desired_replicas, owner.controller = EACH, f"Deployment/ns-{g % 30}/app-{g}"
        for key, value in sets[3 + g]:
            owner.selector.requirements.add(key=key, operator=snapshot_pb2.LabelOperator.IN, values=[value])
    _pods(made.pods, text)
    made.strings.extend(texts)
    return made


def _pods(table: snapshot_pb2.PodTable, text: "object") -> None:
    count = GROUPS * EACH
    group = np.repeat(np.arange(GROUPS), EACH)
    order = np.random.default_rng(7)
    names = [f"app-{g}-{g:08x}-{i:05x}".encode() for g in range(GROUPS) for i in range(EACH)]
    spaces = [text(f"ns-{g % 30}") for g in range(GROUPS)]  # type: ignore[operator]
    nodes = [text(f"node-{n:05}") for n in range(NODES)]  # type: ignore[operator]
    owners = [text(f"uid-{g}") for g in range(GROUPS)]  # type: ignore[operator]
    table.count, table.names, table.name_lengths = count, b"".join(names), _int32([*map(len, names)])
    table.uids, table.uid_lengths = table.names, table.name_lengths
    table.namespace = _int32(np.array(spaces)[group])
    table.spec = _int32(np.zeros(count))
    table.label_set = _int32(4 + group)
    table.node = _int32(np.array(nodes)[order.integers(0, NODES, count)])
    table.owner = _int32(np.array(owners)[group])
    table.created = order.integers(1_700_000_000, 1_790_000_000, count).astype("<i8").tobytes()
    table.phase = bytes([snapshot_pb2.PodPhase.RUNNING]) * count
    table.flags = bytes([1]) * count


def _int32(values: object) -> bytes:
    return np.asarray(values).astype("<i4").tobytes()


def prepare() -> Ranking:
    settings = pb.PlanSettings()
    target = settings.pod_costs.targets.add()
    target.strategies.add(strategy=S.BALANCE_DOMAINS, topology_key=ZONE, threshold=50)
    target.strategies.add(strategy=S.PREFER_NO_SCHEDULE_NODES, weight=0.5, threshold=1)
    target.strategies.add(strategy=S.NODE_COST, weight=0.2, threshold=1)
    target.strategies.add(strategy=S.YOUNGEST, weight=0.01)
    return Ranking(canonicalize(cluster()), resolve_pod_costs(settings))


def run(made: Ranking, stages: Stages) -> pb.PodCostsDecision:
    """Rank all groups, as for a snapshot that was sent whole."""
    kept = CachedSnapshot(made.cluster)
    this = Round(made.cluster, lambda *_: None, NOW_NS, work=Work(cache=kept))  # type: ignore[arg-type, return-value]
    with stages.stage("total"):
        answer = decide(this, made.settings, None).result
    stages.fact("groups", len(answer.groups))
    return answer


def verify(made: Ranking, answer: pb.PodCostsDecision) -> None:
    """All groups are there; of some, zones have the ranks 1, 2, … and the order is that of the costs."""
    assert len(answer.groups) == GROUPS
    assert all(group.complete and len(group.costs) == EACH for group in answer.groups)
    for group in answer.groups[::300]:
        ranks = sorted(ranks_of(group.shares[0].own_ranks))
        counts = [ranks.count(rank) for rank in sorted(set(ranks))]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] <= 3
        assert list(group.pods) == [pod for _, pod in sorted(zip(group.costs, group.pods, strict=True))]


scenario(
    name="pod costs",
    what="150,000 pods in 3,000 groups, four strategies: all groups ranked",
    setup=prepare,
    run=run,
    verify=verify,
    aims={"total": 0.080},
)
