"""Soft taints: which nodes change in one call, which are left for later, and that one refusing node does not affect the
others.
"""

from dataclasses import replace

import pytest

from tests.builders.actuator import Stage, small_cluster
from trimtab.actuator.kube.cluster import (
    PREFER_NO_SCHEDULE,
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    TaintView,
)
from trimtab.actuator.service.settings import WriteLimits
from trimtab.actuator.service.soft_taints import SoftTaintResult, apply_soft_taints
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.kubernetes.names import SOFT_TAINT_KEY

ENOUGH = WriteLimits(max_count=100)


def apply(
    stage: Stage, *unneeded: str, in_deletion: frozenset[str] = frozenset(), settings: WriteLimits = ENOUGH
) -> SoftTaintResult:
    return apply_soft_taints(stage.cluster, set(unneeded), in_deletion, settings, now_s=1_700_000_000)


def softly_tainted(stage: Stage) -> dict[str, TaintView]:
    with stage.looking():
        views = stage.cluster.list_nodes()
    return {view.name: taint for view in views if (taint := view.taint(SOFT_TAINT_KEY)) is not None}


def test_the_taint_is_upstreams_and_written_once() -> None:
    stage = Stage(small_cluster())
    assert apply(stage, "n0", "n1") == SoftTaintResult(2, 0, 0)
    assert softly_tainted(stage) == dict.fromkeys(
        ["n0", "n1"], TaintView(SOFT_TAINT_KEY, "1700000000", PREFER_NO_SCHEDULE)
    )
    assert apply(stage, "n0", "n1") == SoftTaintResult(0, 0, 0)


def test_taints_are_taken_away_before_others_are_added_within_one_bound() -> None:
    stage = Stage(small_cluster())
    apply(stage, "n0", "n1", "n2")
    two = replace(ENOUGH, max_count=2)
    assert apply(stage, "n2", "n3", "n4", settings=two) == SoftTaintResult(0, 2, 2)
    assert apply(stage, "n2", "n3", "n4", settings=two) == SoftTaintResult(2, 0, 0)
    assert set(softly_tainted(stage)) == {"n2", "n3", "n4"}


def test_when_the_time_is_over_the_rest_is_left() -> None:
    stage = Stage(small_cluster())
    assert apply(stage, "n0", "n1", settings=replace(ENOUGH, max_s=-1)) == SoftTaintResult(0, 0, 2)


def test_nodes_in_deletion_keep_what_they_have() -> None:
    stage = Stage(small_cluster())
    apply(stage, "n0")
    assert apply(stage, "n1", in_deletion=frozenset({"n0", "n1"})) == SoftTaintResult(0, 0, 0)
    assert set(softly_tainted(stage)) == {"n0"}


@pytest.mark.parametrize("error", [RefusedError("webhook"), ConflictError("written meanwhile"), NotFoundError("gone")])
def test_a_node_that_cannot_be_tainted_keeps_no_other_from_it(error: ClusterError) -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("add_taint", "n0", error))
    assert apply(stage, "n0", "n1", "n2") == SoftTaintResult(2, 0, 1)
    assert set(softly_tainted(stage)) == {"n1", "n2"}


@pytest.mark.parametrize("error", [ForbiddenError("no rule"), ClusterError("no answer")])
def test_an_error_of_every_node_fails_the_call(error: ClusterError) -> None:
    stage = Stage(small_cluster())
    stage.cluster.faults.add(Fault("add_taint", error=error))
    with pytest.raises(type(error)):
        apply(stage, "n0", "n1")
