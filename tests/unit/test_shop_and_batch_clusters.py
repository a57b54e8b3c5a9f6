"""The generated shops and batch clusters: what makes them hard is in them, and nodes hold no more than they can."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.builders.shop_and_batch_clusters import AGENT, HOST, ZONE, WorkCluster, batch, shops

SEEDS = range(40)
both = pytest.mark.parametrize("make", [shops, batch])


@both
def test_one_seed_is_one_cluster_and_another_seed_another(make: Callable[[int], WorkCluster]) -> None:
    assert make(7).objects() == make(7).objects()
    assert make(7).objects() != make(8).objects()


@both
def test_no_node_holds_more_than_its_cores_and_memory(make: Callable[[int], WorkCluster]) -> None:
    for cluster in map(make, SEEDS):
        for at, node in enumerate(cluster.nodes):
            kinds = [kind for kind, where in cluster.placed if where == at]
            agent = AGENT if cluster.agents else (0, 0)
            assert sum(kind.cpu_milli for kind in kinds) + agent[0] <= node.cpu_milli
            assert sum(kind.memory_mib for kind in kinds) + agent[1] <= node.memory_mib
            assert all(kind.tolerates_spot or not node.spot for kind in kinds)


def test_services_of_shops_are_apart_by_node_and_by_zone_spread_and_with_budgets() -> None:
    seen: Counter[str] = Counter()
    for cluster in map(shops, SEEDS):
        for kind in {kind for kind, _ in cluster.placed}:
            places = [cluster.nodes[at] for one, at in cluster.placed if one is kind]
            domains = [place.zone if kind.apart == ZONE else place.name for place in places]
            assert not kind.apart or len(set(domains)) == len(domains)
            seen.update([kind.apart, "spread" * bool(kind.skew), "budget" * (kind.allowed >= 0)])
    assert min(seen[what] for what in (HOST, ZONE, "spread", "budget")) >= 50


def test_few_large_pods_run_on_a_node_of_a_batch_cluster_some_of_them_local_or_pinned() -> None:
    clusters = list(map(batch, SEEDS))
    kinds = {kind for cluster in clusters for kind, _ in cluster.placed}
    assert max(count for one in clusters for count in Counter(at for _, at in one.placed).values()) <= 40
    assert sum(len(one.placed) for one in clusters) < 5 * sum(len(one.nodes) for one in clusters)
    for wanted in ("is_job", "local", "pinned", "tolerates_spot"):
        assert any(getattr(kind, wanted) for kind in kinds)
        assert not all(getattr(kind, wanted) for kind in kinds)
    assert any(node.spot for one in clusters for node in one.nodes)
