"""Upcoming nodes: those not registered and those still starting, but none for nodes being deleted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.common.kubernetes.signals.cluster_autoscaler import TO_BE_DELETED
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.facts.readiness import upcoming
from trimtab.planner.model.settings import Readiness, TaintNames
from trimtab.planner.model.values import DeletionInProgress, TaintSpec
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import snapshot_pb2

NOW_NS = 10**18
JUST_NOW_NS = NOW_NS - 10**9
NO_SCHEDULE = snapshot_pb2.TaintEffect.NO_SCHEDULE
RULES = Readiness(startup=TaintNames(frozenset({"example.com/warming"}), ("agent/",)))

READY = NodeRow(group="g")
STARTING = NodeRow(group="g", ready=False, created_ns=JUST_NOW_NS)
UNREADY = NodeRow(group="g", ready=False, created_ns=NOW_NS - RULES.start_ns)
DELETED = NodeRow(group="g", taints=(TaintSpec(TO_BE_DELETED.key, "", NO_SCHEDULE),))


def tainted(key: str) -> NodeRow:
    return NodeRow(group="g", taints=(TaintSpec(key, "", NO_SCHEDULE),), created_ns=JUST_NOW_NS)


def count(group: Group, *nodes: NodeRow, **more: object) -> int:
    rows = {f"n{i}": node for i, node in enumerate(nodes)}
    snapshot = canonicalize(write(Cluster(nodes=rows, groups={"g": group, "other": Group(target_size=1)}, **more)))
    found = upcoming(snapshot, being_deleted(snapshot, NOW_NS), NOW_NS, RULES)
    assert found[1] == 1
    return int(found[0])


@pytest.mark.parametrize(
    ("target", "nodes", "expected"),
    [
        pytest.param(3, [READY], 2, id="not registered"),
        pytest.param(1, [READY, READY], 0, id="more registered than asked for"),
        pytest.param(2, [READY, STARTING], 1, id="registered and starting"),
        pytest.param(2, [READY, UNREADY], 0, id="unready for longer than a start"),
        pytest.param(1, [NodeRow(group="g", ready=False)], 0, id="unready and of unknown age"),
        pytest.param(2, [READY, DELETED], 0, id="being drained, and still counted by the target"),
        pytest.param(
            2,
            [READY, DELETED._replace(taints=(TaintSpec(TO_BE_DELETED.key, "9" * 5000, NO_SCHEDULE),))],
            0,
            id="being drained since a time of too many digits, which is none",
        ),
        pytest.param(1, [READY, DELETED], 0, id="being deleted, and not counted any more"),
        pytest.param(1, [DELETED._replace(ready=False, created_ns=JUST_NOW_NS)], 0, id="deleted while it starts"),
        pytest.param(1, [tainted("example.com/warming")], 1, id="named start-up taint"),
        pytest.param(1, [tainted("agent/not-ready")], 1, id="start-up taint by its beginning"),
        pytest.param(
            1, [tainted("startup-taint.cluster-autoscaler.kubernetes.io/x")], 1, id="start-up taint by prefix"
        ),
        pytest.param(2, [tainted("node.kubernetes.io/not-ready")], 2, id="ready, and the taint not yet taken away"),
        pytest.param(1, [tainted("dedicated")], 0, id="another taint"),
        pytest.param(1, [STARTING, STARTING], 1, id="not more than asked for"),
    ],
)
def test_nodes_to_come_are_those_that_cannot_take_pods_yet(target: int, nodes: list[NodeRow], expected: int) -> None:
    assert count(Group(target_size=target), *nodes) == expected


def test_what_was_asked_is_given_up_in_back_off_or_when_it_takes_too_long() -> None:
    asked = Group(target_size=5, last_scale_up_ns=NOW_NS - RULES.provision_ns)
    assert count(asked, READY, STARTING) == 4
    assert count(asked._replace(last_scale_up_ns=asked.last_scale_up_ns - 1), READY, STARTING) == 1
    assert count(asked._replace(health=snapshot_pb2.NodeGroupHealth.BACKED_OFF), READY, STARTING) == 1
    assert count(asked._replace(health=snapshot_pb2.NodeGroupHealth.UNHEALTHY), READY, STARTING) == 4


def test_a_deletion_that_the_actuator_reports_counts_as_one() -> None:
    deletion = DeletionInProgress("n1", "g", True, JUST_NOW_NS)
    assert count(Group(target_size=2), READY, STARTING, deletions={"n1": deletion}) == 0


@given(st.integers(0, 6), st.lists(st.sampled_from([READY, STARTING, UNREADY, DELETED]), max_size=6))
def test_registered_and_upcoming_nodes_never_exceed_the_request(target: int, nodes: list[NodeRow]) -> None:
    found = count(Group(target_size=target), *nodes)
    steady = sum(node is not STARTING for node in nodes)
    assert found == min(target, max(target - len(nodes), 0) + len(nodes) - steady)
    assert 0 <= found <= target


def test_without_groups_nothing_is_to_come() -> None:
    snapshot = canonicalize(write(Cluster(nodes={"n": NodeRow()})))
    assert upcoming(snapshot, np.zeros(1, bool), NOW_NS, RULES).tolist() == []
