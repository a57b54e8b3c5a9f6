"""Random clusters with requests for slack, growth, removal and replacement together."""

from random import Random

from tests.builders.kubernetes import Json, pod, snapshot_of
from tests.builders.mid_size_clusters import mid_size
from tests.builders.priced_clusters import PricedCluster, mixed_pools, shrunk_fleet
from tests.builders.replacement import NOW_S
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

Decision = plan_pb2.Decision
ALL = (Decision.SLACK, Decision.SCALE_UP, Decision.SCALE_DOWN, Decision.REPLACEMENT)


def asked(seed: int) -> tuple[pb.ClusterSnapshot, plan_pb2.PlanRequest]:
    """Return a cluster of nodes with prices, in which pods wait and groups may grow a little, and a request."""
    random = Random(f"together {seed}")
    objects, present = _cluster(seed)
    for one in objects:
        if one["kind"] == "NodeGroup":
            one["spec"]["maxSize"] = one["spec"]["targetSize"] + random.choice((0, 1, 3, 9))
    owners = [one for one in objects if one["kind"] == "ReplicaSet"]
    for number in range(random.choice((0, 0, 2, 12))):
        of = random.randrange(len(present.workloads))
        one = present.workloads[of]
        objects.append(pod(f"waits-{number}", f"{one.cpu_milli}m", f"{one.memory_mib}Mi", owner=owners[of]))
    request = plan_pb2.PlanRequest(decisions=ALL, seed=seed % 97)
    request.now.seconds = NOW_S
    settings = request.settings
    settings.slack.extra_capacity_min_rate = random.choice((0.0, 0.0, 0.1, 0.3))
    settings.scale_down.unneeded_time.seconds = 0
    settings.scale_down.utilization_threshold = random.choice((0.0, 0.0, 0.5))
    settings.replacement.max_surge_nodes = random.choice((2, 10))
    return snapshot_of(*objects), request


def _cluster(seed: int) -> tuple[list[Json], PricedCluster]:
    if seed % 3 == 0:
        cluster = mid_size(seed, spread=seed % 2 == 0, most_nodes=14)
        return cluster.objects(), cluster.present
    present = mixed_pools(seed) if seed % 3 == 1 else shrunk_fleet(seed)
    return present.objects(), present
