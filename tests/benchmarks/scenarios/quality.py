"""The quality of plans: nodes freed and money saved, compared with a bound and with plain upstream order.

"bound" is the most nodes that could go if pods were liquid: as many eligible nodes as leave enough cpu and memory for
all pods; no plan can do better, and constraints, budgets and whole pods keep most clusters far from it. "in list order"
is one greedy pass over the nodes by name, as an autoscaler makes it that takes its candidates as they are listed, with
our search for destinations. Every node is a candidate whatever its utilization, unless said otherwise.
"""

from dataclasses import dataclass, replace
from functools import partial
from importlib import resources

from tests.benchmarks.clusters import CONSTRAINED, LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.scenarios.scale_down import verify as verify_room
from tests.benchmarks.scenarios.scale_down import volume_bound
from tests.builders.scale_down import scale_down_request
from tests.builders.verdicts import judged
from tests.certificates.scale_down import offences
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.common.objects import read_files
from trimtab.planner.facts.nodes import prices, total
from trimtab.planner.model.settings import ScaleDownSettings, resolve_scale_down
from trimtab.planner.round.decision import Decided
from trimtab.planner.scale_down.decision import decide_scale_down
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2

NOW_S = 1_800_000_000
THOUSAND = {"nodes": 1_000, "pods": 30_000}
CLUSTERS: dict[str, tuple[str, ClusterShape]] = {
    "free": ("nothing but room counts", replace(LARGE, budget_share=0.0, unmovable_share=0.0, **THOUSAND)),
    "budgets": ("with disruption budgets and pods that stay", replace(LARGE, **THOUSAND)),
    "constrained": ("with taints, affinity, spread, anti-affinity and budgets", replace(CONSTRAINED, **THOUSAND)),
}
RECORDED = ("openshift-aws", "openshift-azure", "openshift-vsphere")
EVERY_NODE = pb.PlanSettings(scale_down=pb.ScaleDownSettings(utilization_threshold=1.0, gpu_utilization_threshold=1.0))


@dataclass
class Compared:
    """A cluster, and what plain upstream order frees of it."""

    message: snapshot_pb2.ClusterSnapshot
    cluster: Snapshot
    settings: ScaleDownSettings
    plain: Decided


def prepare(message: snapshot_pb2.ClusterSnapshot) -> Compared:
    cluster, settings = canonicalize(message), resolve_scale_down(EVERY_NODE)
    in_list_order = replace(settings, candidate_orders=(pb.CandidateOrder.NAME,))
    return Compared(message, cluster, settings, _decide(cluster, in_list_order))


def recorded(name: str) -> Compared:
    with resources.as_file(resources.files("trimtab.clients.data.recordings") / f"{name}.json.gz") as path:
        return prepare(read_files([path]).snapshot)


def generated(shape: ClusterShape) -> Compared:
    return prepare(snapshot(shape))


def _decide(cluster: Snapshot, settings: ScaleDownSettings) -> Decided:
    request = scale_down_request(cluster, pb.PlanSettings(), NOW_S)._replace(settings=settings)
    return decide_scale_down(request)


def run(made: Compared, stages: Stages) -> Decided:
    with stages.stage("total"):
        result = _decide(made.cluster, made.settings)
    (freed, saved), (count, saving) = _amounts(made, result), _amounts(made, made.plain)
    bound = volume_bound(made.cluster, max(freed, count))
    stages.fact("nodes freed", freed)
    stages.fact("in list order", count)
    stages.fact("bound", bound)
    stages.fact("share of bound", freed / bound if bound else 1.0)
    stages.fact("saving per hour", saved)
    stages.fact("saving in list order", saving)
    return result


def _amounts(made: Compared, decided: Decided) -> tuple[int, float]:
    """Return how many nodes go, and what they save per hour."""
    gone = decided.change.gone
    return len(gone), total(prices(made.cluster)[gone])


def verify(made: Compared, result: Decided) -> None:
    """No fewer nodes than in list order, nor as many for less money, and all of it holds."""
    count, saving = _amounts(made, made.plain)
    freed, saved = _amounts(made, result)
    assert freed > count or (freed == count and saved >= saving - 1e-9)
    if made.message.pods.count < 1_000:
        assert offences(made.message, EVERY_NODE, judged(result, made.cluster), NOW_S) == []
    else:
        verify_room(made, result)


for name, (what, shape) in CLUSTERS.items():
    scenario(
        name=f"scale-down quality, {name}",
        what=f"generated, 1,000 nodes, 30,000 pods, {what}",
        setup=partial(generated, shape),
        run=run,
        verify=verify,
        repeats=1,
        reference="one pass in list order; bound by volume",
    )
for name in RECORDED:
    scenario(
        name=f"scale-down quality, {name}",
        what="recorded real cluster of 6 nodes",
        setup=partial(recorded, name),
        run=run,
        verify=verify,
        repeats=1,
        reference="one pass in list order; bound by volume",
    )
