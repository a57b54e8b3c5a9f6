"""ProvisioningRequests, many at once. The cluster is synthetic.

The first loop after a change builds the simulation anew; it is counted here, as nothing is kept between repetitions.
"""

from random import Random
from typing import NamedTuple

from tests.benchmarks.registry import Stages, scenario
from tests.builders.capacity_requests import ATOMIC, CHECK, NOW_S, pod_template, request
from tests.builders.kubernetes import Json, node, node_group, pod, snapshot_of
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

NODES, GROUPS, REQUESTS, PODS = 5000, 20, 1000, 20_000
Outcome = pb.CapacityRequestOutcome
HOLDING = (Outcome.FOUND, Outcome.PROVISIONED)


class AskedCluster(NamedTuple):
    """A snapshot with requests, and the request to the planner."""

    snapshot: Snapshot
    asked: pb.PlanRequest


def prepare() -> AskedCluster:
    """Build 5,000 nodes in 20 groups that may grow, and requests of both classes for 8 to 128 pods each."""
    random = Random(1)
    nodes = [node(f"n{at:05}", "16", "64Gi", labels={"pool": f"g{at % GROUPS}"}) for at in range(NODES)]
    pods = [
        pod(f"p{at:06}", random.choice(["500m", "1", "2", "3"]), "2Gi", node=f"n{random.randrange(NODES):05}")
        for at in range(PODS)
    ]
    groups = [_group(at) for at in range(GROUPS)]
    requests: list[Json] = []
    for number in range(REQUESTS):
        sets = []
        of = random.choice([1, 1, 2])
        for at in range(of):
            selector: Json = {"nodeSelector": {"pool": f"g{random.randrange(GROUPS)}"}} if random.random() < 0.3 else {}
            name, cpu, memory = f"t{number}-{at}", random.choice("1246"), random.choice(["2Gi", "4Gi", "8Gi", "16Gi"])
            requests.append(pod_template(name, cpu, memory, **selector))
            sets.append((name, max(random.randrange(8, 129) // of, 1)))
        requests.append(request(f"r{number:04}", *sets, class_name=random.choice([CHECK, ATOMIC])))
    asked = pb.PlanRequest(decisions=[pb.Decision.CAPACITY_REQUESTS])
    asked.now.seconds = NOW_S
    asked.settings.scale_up.max_new_nodes = 20_000
    return AskedCluster(canonicalize(snapshot_of(nodes, pods, groups, requests)), asked)


def _group(at: int) -> Json:
    size = 1 + at % 4
    template = node("t", str(8 * size), f"{32 * size}Gi", labels={"pool": f"g{at}"})
    members = [f"n{number:05}" for number in range(at, NODES, GROUPS)]
    price = 0.4 * size * (1 + at / 100)
    return node_group(f"g{at:02}", 0, 2000, target=len(members), nodes=members, template=template, price=price)


def run(made: AskedCluster, stages: Stages) -> pb.PlanResponse:
    """Answer all requests."""
    with stages.stage("total"):
        answer = plan(made.snapshot, made.asked, None, Work())
    decision = answer.capacity_requests
    stages.fact("requests with room", sum(one.outcome in HOLDING for one in decision.requests))
    stages.fact("new nodes", sum(split.new_size - split.current_size for split in decision.splits))
    stages.fact("price per hour", decision.price_per_hour)
    return answer


def verify(made: AskedCluster, answer: pb.PlanResponse) -> None:
    """Check that every request has room for all pods or for none, and that groups keep their maxima."""
    del made
    decision = answer.capacity_requests
    assert len(decision.requests) == REQUESTS
    for one in decision.requests:
        held = sum(place.pod_count for place in one.places)
        assert held == one.booked_count == (one.pod_count if one.outcome in HOLDING else 0)
    assert all(split.new_size <= split.max_size for split in decision.splits)


scenario(
    name="capacity-requests",
    what="1,000 ProvisioningRequests of 8 to 128 pods, 5,000 nodes, 20 groups",
    setup=prepare,
    run=run,
    verify=verify,
    aims={"total": 2.0},
    reference="one a loop with the Cluster Autoscaler; batches of 10 with check-capacity",
)
