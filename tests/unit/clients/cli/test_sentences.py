"""Every reason of the contract has its sentence."""

from collections.abc import Mapping

import pytest

from trimtab import reason_texts
from trimtab.clients.cli import sentences
from trimtab.predicate_texts import PREDICATE_TEXTS, clause_of
from trimtab.v1 import plan_pb2, reason_pb2


@pytest.mark.parametrize(
    ("known", "told"),
    [
        pytest.param(reason_pb2.UnremovableReason.Code.values(), reason_texts.NODE_SENTENCES, id="nodes"),
        pytest.param(reason_pb2.PodCostGroupReason.Code.values(), sentences.POD_COST_SENTENCES, id="pod costs"),
        pytest.param(reason_pb2.BlockingPodReason.Code.values(), reason_texts.POD_SENTENCES, id="pods"),
        pytest.param(reason_pb2.ScaleDownResult.Code.values(), sentences.RESULT_SENTENCES, id="results"),
        pytest.param(reason_pb2.ScaleUpResult.Code.values(), sentences.SCALE_UP_SENTENCES, id="growth"),
        pytest.param(reason_pb2.NodeGroupReason.Code.values(), sentences.NODE_GROUP_SENTENCES, id="node groups"),
        pytest.param(reason_pb2.SkippedPodReason.Code.values(), sentences.SKIPPED_SENTENCES, id="pods left out"),
        pytest.param(reason_pb2.ReplacementResult.Code.values(), sentences.REPLACEMENT_SENTENCES, id="replacement"),
        pytest.param(reason_pb2.ReplacementLimit.Code.values(), sentences.LIMIT_SENTENCES, id="limits"),
        pytest.param(plan_pb2.Expander.Code.values(), sentences.EXPANDER_NAMES, id="expanders"),
    ],
)
def test_every_reason_has_a_sentence(known: list[int], told: Mapping[int, str]) -> None:
    assert sorted(told) == sorted(known)


def test_every_reason_of_a_predicate_has_a_clause() -> None:
    assert (
        sorted([reason_pb2.PredicateReason.UNSPECIFIED, *PREDICATE_TEXTS]) == reason_pb2.PredicateReason.Code.values()
    )
    assert all(texts.clause for texts in PREDICATE_TEXTS.values())


def test_a_reason_that_a_newer_planner_sends_is_shown_by_its_name() -> None:
    assert clause_of("TAINT_NOT_TOLERATED") == "a taint is not tolerated"
    assert clause_of("NEWER_REASON") == "NEWER_REASON"
