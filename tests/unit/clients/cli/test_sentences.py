"""Every reason of the contract has its clause."""

from typing import Any

import pytest

from trimtab.reason_texts import PREDICATE_TEXTS, clause_of, clauses
from trimtab.v1 import plan_pb2, reason_pb2

PARTS_WITHOUT_CLAUSE = {(reason_pb2.BlockingPodReason, reason_pb2.BlockingPodReason.UNSPECIFIED)}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(reason_pb2.UnremovableReason, id="nodes"),
        pytest.param(reason_pb2.PodCostGroupReason, id="pod costs"),
        pytest.param(reason_pb2.BlockingPodReason, id="pods"),
        pytest.param(reason_pb2.ScaleDownResult, id="results"),
        pytest.param(reason_pb2.ScaleUpResult, id="growth"),
        pytest.param(reason_pb2.NodeGroupReason, id="node groups"),
        pytest.param(reason_pb2.SkippedPodReason, id="pods left out"),
        pytest.param(reason_pb2.ReplacementResult, id="replacement"),
        pytest.param(reason_pb2.ReplacementLimit, id="limits"),
        pytest.param(plan_pb2.Expander, id="expanders"),
    ],
)
def test_every_reason_has_a_clause(kind: Any) -> None:
    without = {(kind, code) for code, text in clauses(kind).items() if not text}
    assert without <= PARTS_WITHOUT_CLAUSE


def test_every_reason_of_a_predicate_has_a_clause() -> None:
    assert (
        sorted([reason_pb2.PredicateReason.UNSPECIFIED, *PREDICATE_TEXTS]) == reason_pb2.PredicateReason.Code.values()
    )
    assert all(texts.clause for texts in PREDICATE_TEXTS.values())


def test_a_reason_that_a_newer_planner_sends_is_shown_by_its_name() -> None:
    assert clause_of("TAINT_NOT_TOLERATED") == "a taint is not tolerated"
    assert clause_of("NEWER_REASON") == "NEWER_REASON"
