"""A wider question never has a worse answer: plans with fewer candidates, or without one of the groups, are candidates.

Thresholds are those of advice, in tenths; between others, and for one group more, a search may still end elsewhere.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from tests.benchmarks.clusters import snapshot
from tests.builders import kubernetes as k8s
from tests.builders.priced_clusters import ZONES
from tests.builders.tiers import ci_but
from tests.builders.verdicts import saving_of
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.common.objects import read_files
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

REPORTED = Path(__file__).parents[3] / "parity" / "public_reports" / "inputs" / "more-candidates.json.gz"
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def _planned(cluster: pb.ClusterSnapshot, decision: str, **settings: Any) -> plan_pb2.PlanResponse:
    request = ParseDict({"decisions": [decision], "settings": settings}, plan_pb2.PlanRequest())
    request.now.seconds = 1_800_000_000
    return plan(canonicalize(cluster), request, None, Work())


def _saved(cluster: pb.ClusterSnapshot, threshold: float) -> float:
    answer = _planned(cluster, "SCALE_DOWN", scaleDown={"utilizationThreshold": threshold})
    return round(saving_of(answer), 6)


@pytest.mark.parametrize("seed", ci_but([5], [2, 5]))
def test_a_higher_threshold_never_saves_less(seed: int) -> None:
    cluster = snapshot(ClusterShape(nodes=40, pods=800, seed=seed))
    saved = [_saved(cluster, threshold) for threshold in THRESHOLDS]
    assert saved == sorted(saved)


def test_a_threshold_of_three_fifths_saves_no_less_than_one_of_a_half_in_the_reported_cluster() -> None:
    cluster = read_files([REPORTED]).snapshot
    assert _saved(cluster, 0.6) >= _saved(cluster, 0.5) > 3.8


def _waiting(random: Random) -> Iterator[Any]:
    """Yield pods that wait, a few kinds of them, some spread over zones or apart by host name."""
    for kind in range(random.randint(1, 8)):
        cpu = random.choice((250, 500, 1000, 1500, 2000, 3000, 4000, 6000))
        memory = random.choice((256, 512, 1024, 2048, 4096, 8192, 16384))
        labels, spec, draw = {"app": f"a{kind}"}, {}, random.random()
        if draw < 0.15:
            spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
            spec = {"topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": labels}}]}
        elif draw < 0.3:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
            spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        for number in range(random.randint(1, 15 if draw < 0.3 else 40)):
            yield k8s.pod(f"a{kind}-{number}", f"{cpu}m", f"{memory}Mi", labels=labels, spec=spec)


def _groups(random: Random, zones: tuple[str, ...]) -> Iterator[Any]:
    """Yield priced groups at zero."""
    for number in range(random.randint(5, 9)):
        cores, ratio, zone = random.choice((2, 4, 8, 16, 32, 48)), random.choice((2, 4, 8)), random.choice(zones)
        price = round((0.03 * cores + 0.004 * cores * ratio) * random.uniform(0.7, 1.3), 4)
        new = k8s.node(f"new-{number}", str(cores), f"{cores * ratio}Gi", zone=zone)
        yield k8s.node_group(f"g{number}", 0, random.choice((3, 10, 200)), price=price, template=new)


@pytest.mark.parametrize("seed", ci_but([58], [30, 48, 58]))
def test_one_node_group_more_never_makes_growth_dearer(seed: int) -> None:
    random = Random(seed)
    zones = ZONES[: random.randint(1, 3)]
    pods, groups = list(_waiting(random)), list(_groups(random, zones))
    answers = [_planned(k8s.snapshot_of(*pods, *groups[:most]), "SCALE_UP") for most in range(2, len(groups) + 1)]
    # A group more may also serve pods that waited before, which costs.
    costs = [(len(one.scale_up.unschedulable), round(one.scale_up.price_per_hour, 6)) for one in answers]
    assert costs == sorted(costs, reverse=True)
