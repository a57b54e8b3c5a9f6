"""The certificate verifies every plan for random clusters;"""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_growth import growing_cluster, growth_settings
from tests.builders.scale_up import NOW_S
from tests.builders.snapshots import write
from tests.certificates.scale_up import offences
from trimtab.places import on_existing
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

SEEDS = st.integers(0, 2**48)
UP, DOWN = plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN


def answer_to(seed: int, shuffle: int, *decisions: "plan_pb2.Decision.Code.ValueType") -> plan_pb2.PlanResponse:
    request = plan_pb2.PlanRequest(decisions=decisions, settings=growth_settings(seed), seed=seed % 97)
    request.now.seconds = NOW_S
    return plan(canonicalize(write(growing_cluster(seed), shuffle)), request, None, Work())


@given(SEEDS)
@examples(400)
def test_every_plan_is_proven(seed: int) -> None:
    message = write(growing_cluster(seed))
    found = answer_to(seed, 0, UP).scale_up
    assert offences(message, growth_settings(seed), found, NOW_S) == []


@given(SEEDS)
@examples(60)
def test_scale_down_takes_no_node_that_scale_up_has_filled(seed: int) -> None:
    message = write(growing_cluster(seed))
    found = answer_to(seed, 0, UP, DOWN)
    assert offences(message, growth_settings(seed), found.scale_up, NOW_S) == []
    going = {entry.node for entry in found.scale_down.unneeded}
    assert not going & set(on_existing(found.scale_up).values())
