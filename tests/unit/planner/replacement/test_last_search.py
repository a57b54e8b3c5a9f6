"""A search that found nothing is not made again for the same snapshot, and the answer is the same."""

import pytest

from tests.builders.kubernetes import snapshot_of
from tests.builders.replacement import NOW_S, WEB, group, web
from trimtab.planner.decisions.plan import plan
from trimtab.planner.replacement import loop
from trimtab.planner.round.round import Work
from trimtab.planner.service.version_cache import CachedSnapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2


def test_a_steady_loop_has_the_same_answer_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [WEB, *group("a", "4", "16Gi", 0.2, ["a0", "a1"]), web("p", "a0", "3"), web("q", "a1", "3")]
    kept = CachedSnapshot(canonicalize(snapshot_of(objects)))
    searches = []
    bound = loop.cluster_bound
    monkeypatch.setattr(loop, "cluster_bound", lambda *given: searches.append(1) or bound(*given))

    def answer(least: float = 0.05) -> bytes:
        request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.REPLACEMENT])
        request.now.seconds, request.settings.replacement.min_saving_share = NOW_S, least
        return plan(kept.snapshot, request, None, Work(cache=kept)).replacement.SerializeToString(deterministic=True)

    assert answer() == answer()
    assert len(searches) == 1
    answer(0.1)
    assert len(searches) == 2
