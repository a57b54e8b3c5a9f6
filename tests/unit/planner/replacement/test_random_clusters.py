"""The certificate verifies every plan for random clusters with taints, budgets, zonal spread and anti-affinity."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.priced_clusters import mixed_pools, shrunk_fleet
from tests.builders.replacement import plan


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 6))
@examples(3)
def test_every_plan_is_proven(seed: int, leaving: int, surge: int) -> None:
    cluster = mixed_pools(seed) if seed % 2 else shrunk_fleet(seed)
    settings = {"maxLeavingNodes": leaving, "maxSurgeNodes": surge}
    found = plan(cluster.objects(), settings=settings)
    assert found.result in {"PLANNED", "NOTHING_PAYS", "LIMITED"}
