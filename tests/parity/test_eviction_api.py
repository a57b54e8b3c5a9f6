"""Which evictions of a whole plan the eviction API allows at once."""

from tests.builders.kubernetes import Json, pdb, pod, pods_of, replica_set
from tests.parity.eviction_api import exceeds_a_budget


def document(allowed: int) -> Json:
    web = replica_set("web", 3)
    pods = [*pods_of(web, 2, node="n1"), pod("web-x", node="n2", labels={"app": "web"}, owner=web)]
    return {"items": [web, *pods, pdb("web", allowed)]}


def test_pods_on_all_nodes_that_go_count_together_against_a_budget() -> None:
    assert not exceeds_a_budget(document(2), {"n1"})
    assert not exceeds_a_budget(document(2), {"n2"})
    assert exceeds_a_budget(document(2), {"n1", "n2"})
    assert not exceeds_a_budget(document(3), {"n1", "n2"})


def test_pods_that_are_not_evicted_count_against_no_budget() -> None:
    agent = pod("agent", node="n1", labels={"app": "web"}, owner={"kind": "DaemonSet", "name": "agent"})
    assert not exceeds_a_budget({"items": [agent, pdb("web", 0)]}, {"n1"})
