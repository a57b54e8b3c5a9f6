"""Plans for clusters that use every scheduling constraint, each verified by the certificate."""

from functools import cache

import pytest

from tests.builders.drain_sets import MIX, objects_of
from tests.builders.scale_down import Outcome, plan
from tests.parity.scheduler_oracle.generator.cluster import cluster


@cache
def outcome(seed: int) -> Outcome:
    settings = {"utilizationThreshold": 1, "gpuUtilizationThreshold": 1, "unneededTime": "0s",
                "skipNodesWithLocalStorage": False}  # fmt: skip
    return plan(objects_of(cluster("c", seed, MIX)), settings=settings)


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_under_every_constraint_is_proven(seed: int) -> None:
    outcome(seed)


def test_such_plans_move_pods() -> None:
    found = [outcome(seed) for seed in range(12)]
    assert sum(len(one.destinations) for one in found) > 50
    assert {"NO_PLACE_TO_MOVE_PODS"} <= {reason for one in found for reason in one.reasons.values()}
