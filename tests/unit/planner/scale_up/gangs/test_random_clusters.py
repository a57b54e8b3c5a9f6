"""The certificate verifies every plan for random clusters with gangs."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_gangs import gang_cluster
from tests.builders.random_growth import growth_settings
from tests.builders.scale_up import NOW_S
from tests.builders.snapshots import write
from tests.certificates.scale_up import offences
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

SEEDS = st.integers(0, 2**48)


def answer_to(seed: int, shuffle: int) -> plan_pb2.ScaleUpDecision:
    request = plan_pb2.PlanRequest(
        decisions=[plan_pb2.Decision.SCALE_UP], settings=growth_settings(seed), seed=seed % 97
    )
    request.now.seconds = NOW_S
    return plan(canonicalize(write(gang_cluster(seed), shuffle)), request, None, Work()).scale_up


@given(SEEDS)
@examples(400)
def test_no_plan_serves_fewer_pods_of_a_gang_than_its_minimum(seed: int) -> None:
    found = answer_to(seed, 0)
    assert offences(write(gang_cluster(seed)), growth_settings(seed), found, NOW_S) == []
