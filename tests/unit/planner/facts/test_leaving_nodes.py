"""Which nodes count as leaving: by their object, by the taints of the registry, by Karpenter's time to register."""

import pytest

from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.common.kubernetes.signals import clouds, cluster_autoscaler, karpenter
from trimtab.common.kubernetes.signals.signal import LEAVING, TAINT, Signal
from trimtab.common.kubernetes.signals.table import SIGNALS
from trimtab.planner.facts.nodes import REGISTRATION_NS, being_deleted
from trimtab.planner.model.values import TaintSpec
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import snapshot_pb2

NOW_NS = 10**18
LEAVING_TAINTS = [row for row in SIGNALS if row.kind == TAINT and row.effect == LEAVING]


def is_leaving(node: NodeRow) -> bool:
    snapshot = canonicalize(write(Cluster(nodes={"n": node._replace(group="g")}, groups={"g": Group()})))
    return bool(being_deleted(snapshot, NOW_NS)[0])


def tainted(key: str, value: str = "", created_ns: int = 0) -> NodeRow:
    return NodeRow(taints=(TaintSpec(key, value, snapshot_pb2.TaintEffect.NO_SCHEDULE),), created_ns=created_ns)


@pytest.mark.parametrize("row", LEAVING_TAINTS, ids=lambda row: row.key)
def test_a_node_with_a_taint_of_somebody_who_takes_it_away_is_leaving(row: Signal) -> None:
    assert is_leaving(tainted(row.key + ("any" if row.is_prefix else "")))
    assert is_leaving(tainted(row.key + ("any" if row.is_prefix else ""), "disrupting"))
    assert not is_leaving(tainted("x" + row.key))


def test_the_list_has_the_taints_of_karpenter_and_of_clouds() -> None:
    rows = {karpenter.DISRUPTED, karpenter.OLD_DISRUPTION, clouds.TERMINATION_HANDLER, clouds.IMPENDING_TERMINATION}
    assert rows | {clouds.SHUTDOWN} <= set(LEAVING_TAINTS)


def test_a_node_whose_object_is_being_deleted_is_leaving() -> None:
    assert is_leaving(NodeRow(being_deleted=True))
    assert not is_leaving(NodeRow())


@pytest.mark.parametrize(("age_ns", "leaves"), [(REGISTRATION_NS - 1, False), (REGISTRATION_NS, True)])
def test_a_node_that_karpenter_has_not_registered_leaves_once_it_is_late(age_ns: int, leaves: bool) -> None:
    assert is_leaving(tainted(karpenter.UNREGISTERED.key, created_ns=NOW_NS - age_ns)) is leaves


def test_the_taint_of_a_deletion_counts_for_five_minutes_and_always_without_a_time() -> None:
    key, now_s = cluster_autoscaler.TO_BE_DELETED.key, NOW_NS // 10**9
    assert is_leaving(tainted(key, str(now_s - 299)))
    assert not is_leaving(tainted(key, str(now_s - 300)))
    assert is_leaving(tainted(key, "soon"))
