"""Recently evicted pods whose spec the caller never saw."""

import pytest

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Eviction, write
from trimtab.planner.decisions.summary import notes
from trimtab.planner.decisions.table import TABLE
from trimtab.planner.facts.pods import awaited
from trimtab.planner.model.values import Owner, PodRequirements
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

NOW_NS = 100 * 10**9
SIBLING = PodRow(
    uid="u0", spec=PodRequirements(requests=(("cpu", 700),)), labels={"app": "web"}, node="n1", owner="web"
)


def cluster(owner: str) -> Snapshot:
    owners = {"web": Owner("web", "ReplicaSet", "web", "default", 2, 1, "apps/v1")}
    gone = Eviction("u1", None, (), owner, NOW_NS - 1)
    rows = Cluster(
        nodes={"n1": NodeRow()}, pods={("default", "web-0"): SIBLING}, owners=owners, evictions={("default", "x"): gone}
    )
    return canonicalize(write(rows))


def test_it_counts_as_another_pod_of_its_owner() -> None:
    snapshot = cluster("web")
    (found,) = awaited(snapshot, NOW_NS, 10**9)
    assert (snapshot.specs[found.spec], found.label_set) == (SIBLING.spec, int(snapshot.pods.label_set[0]))
    assert not list(notes(snapshot, plan_pb2.PlanRequest(), TABLE))


@pytest.mark.parametrize("owner", ["", "another"])
def test_without_another_pod_of_its_owner_it_is_noted(owner: str) -> None:
    snapshot = cluster(owner)
    assert awaited(snapshot, NOW_NS, 10**9) == ()
    (note,) = notes(snapshot, plan_pb2.PlanRequest(), TABLE)
    assert "no room is reserved for 1 evicted pods" in note
    assert "default/x" in note
