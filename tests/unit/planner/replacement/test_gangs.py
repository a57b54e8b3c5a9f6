"""Gangs in plans of replacement: one on a single node moves with it, one on several keeps what its minimum needs."""

import pytest

from tests.builders.pod_group_objects import member, pod_group
from tests.builders.replacement import WEB, group, plan, web
from trimtab.clients.verdicts import not_replaced
from trimtab.v1.reason_pb2 import BlockingPodReason


@pytest.mark.parametrize("whole", [False, True])
def test_a_gang_on_one_node_moves_and_is_counted(whole: bool) -> None:
    how = {"disruptionMode": "PodGroup"} if whole else {}
    pods = [member(name, node="l0", owner=WEB) for name in ("p", "q")]
    nodes = [group("large", "16", "64Gi", 1.0, ["l0"]), group("small", "4", "16Gi", 0.2)]
    found = plan(*nodes, WEB, pod_group(**how), *pods)
    assert found.waves == [(["l0"], ["small"])]
    assert [one.disturbed_gang_count for one in found.decision.frontier] == [1]


@pytest.mark.parametrize("whole", [False, True])
def test_nodes_that_a_gang_on_several_needs_stay_and_the_gang_is_the_reason(whole: bool) -> None:
    how = {"disruptionMode": "PodGroup"} if whole else {}
    pods = [member(name, node=on, owner=WEB) for name, on in (("p", "l0"), ("q", "l1"))]
    nodes = [group("large", "16", "64Gi", 1.0, ["l0", "l1", "l2"]), group("small", "4", "16Gi", 0.2)]
    found = plan(*nodes, WEB, pod_group(**how), *pods, web("alone", "l2"))
    assert [leaving for leaving, _ in found.waves] == [["l2"]]
    assert [one.disturbed_gang_count for one in found.decision.frontier] == [0]
    kept = {
        one.node: (one.not_replaced.blocking_reason, one.not_replaced.blocking_pod)
        for one in not_replaced(found.answer)
    }
    assert kept == {"l0": (BlockingPodReason.GANG, "default/p"), "l1": (BlockingPodReason.GANG, "default/q")}
