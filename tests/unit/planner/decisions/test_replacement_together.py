"""Slack, scale-up, scale-down and replacement of one request: what each assumes holds for all of them together."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, pod, snapshot_of
from tests.builders.mid_size_clusters import mid_size
from tests.builders.priced_clusters import PricedCluster, mixed_pools, shrunk_fleet
from tests.builders.replacement import NOW_S
from tests.certificates import whole_plan
from trimtab.planner.decisions.plan import plan, plan_in_parts
from trimtab.planner.decisions.table import TABLE
from trimtab.planner.round.work import Work
from trimtab.planner.snapshot.decode import canonicalize
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


@given(st.integers(0, 2**48))
@examples(60, 3)
def test_all_moves_and_new_nodes_of_one_answer_fit_together(seed: int) -> None:
    message, request = asked(seed)
    planned = plan_in_parts(canonicalize(message), request, None, Work())
    answer = plan_pb2.PlanResponse.FromString(planned.encoded())
    assert answer == planned.whole()
    figures = {one.decision: (one.result, dict(one.counts)) for one in answer.diagnostics.decisions}
    assert figures == {one.code: one.summarize(getattr(answer, one.field)) for one in TABLE if one.code in ALL}
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []


@pytest.mark.parametrize("seed", [0, 21])
def test_nodes_of_scale_up_and_of_a_replacement_together_stay_within_the_maximum_of_their_group(seed: int) -> None:
    """In both, groups that scale-up has grown would be cheap for a replacement, which once did not count its nodes."""
    message, request = asked(seed)
    answer = plan(canonicalize(message), request, None, Work())
    assert answer.scale_up.splits
    assert answer.replacement.waves
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []
