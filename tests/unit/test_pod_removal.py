"""The reference for controllers: ranks are respected and waited for, but ignored after a time-out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.pod_removal import (
    Choice,
    Group,
    Moment,
    PickerSettings,
    Ranking,
    choose,
    of_annotations,
    of_object,
)

NOW = 1_000_000.0
PODS = ("a", "b", "c", "d")
RANKS = {"a": 1, "b": 4, "c": 4, "d": 2}
SETTINGS = PickerSettings(timeout_s=30, max_age_s=300)


def pick(surplus: int, ranking: Ranking, waited_s: float = 0, pods: Any = PODS, first: Any = ()) -> Choice:
    return choose(Group(pods, surplus, frozenset(first)), ranking, Moment(NOW, NOW - waited_s), SETTINGS)


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(-(2**31), 2**31 - 1), min_size=1),
    st.integers(-1, 9),
    st.randoms(),
)
def test_removal_order_respects_ranks(ranks: dict[str, int], surplus: int, random: Any) -> None:
    pods = list(ranks)
    random.shuffle(pods)
    choice = choose(Group(pods, surplus), Ranking(ranks), Moment(NOW, NOW), SETTINGS)
    assert len(choice.victims) == max(min(surplus, len(pods)), 0)
    left = [pod for pod in pods if pod not in choice.victims]
    assert all(ranks[gone] >= ranks[pod] for gone in choice.victims for pod in left)
    assert [ranks[pod] for pod in choice.victims] == sorted((ranks[pod] for pod in choice.victims), reverse=True)
    assert not (choice.wait)
    assert not (choice.fell_back)


def test_equal_ranks_go_in_the_controllers_own_order() -> None:
    assert pick(3, Ranking(RANKS)).victims == ("b", "c", "d")
    assert pick(1, Ranking(RANKS), pods=("d", "c", "b", "a")).victims == ("c",)


def test_a_group_with_one_unranked_pod_waits_and_falls_back_after_the_timeout() -> None:
    ranking = Ranking({pod: rank for pod, rank in RANKS.items() if pod != "d"})
    early = pick(2, ranking, 29.9)
    assert (early.victims, early.wait, early.fell_back) == ((), True, False)
    assert "1 of 4 pods have no rank, such as d" in early.why
    late = pick(2, ranking, 30)
    assert (late.victims, late.wait, late.fell_back) == (("a", "b"), False, True)


def test_pods_that_do_not_run_well_go_first_and_need_no_rank() -> None:
    ranking = Ranking({"a": 1, "b": 2})
    assert pick(1, ranking, first=("c", "d")).victims == ("c",)
    assert pick(3, ranking, first=("c", "d")).victims == ("c", "d", "b")


ONE_AT_A_TIME = Ranking(RANKS, max_removals=1)


def test_with_a_strategy_that_ranks_again_never_two_go_at_once() -> None:
    choice = pick(3, ONE_AT_A_TIME)
    assert (choice.victims, choice.wait) == (("b",), True)
    assert pick(1, ONE_AT_A_TIME).wait is False
    unwell = pick(2, ONE_AT_A_TIME, first=("d",), pods=PODS)
    assert (unwell.victims, unwell.wait) == (("d",), True)


def test_with_a_strategy_that_ranks_again_none_goes_before_ranks_are_made_again() -> None:
    left = ("a", "c", "d")
    waits = pick(2, ONE_AT_A_TIME, pods=left)
    assert (waits.victims, waits.wait) == ((), True)
    assert "has not been ranked since its last removal" in waits.why
    again = Ranking({"a": 5, "c": 1, "d": 2}, max_removals=1)
    assert pick(2, again, pods=left).victims == ("a",)
    assert pick(2, ONE_AT_A_TIME, 30, pods=left).victims == ("a", "c")


def test_a_group_that_waits_for_another_one_waits_until_the_timeout() -> None:
    ranking = ONE_AT_A_TIME._replace(waits_for="ReplicaSet/default/first")
    assert pick(1, ranking) == Choice((), True, False, "ReplicaSet/default/first is scaled down first")
    assert pick(1, ranking, 31).victims == ("a",)


@pytest.mark.parametrize(("age_s", "used"), [(0, True), (300, True), (301, False)])
def test_expired_ranks_are_not_used(age_s: float, used: bool) -> None:
    ranking = Ranking(RANKS, made_s=NOW - age_s)
    assert pick(1, ranking).victims == (("b",) if used else ())
    assert pick(1, ranking, 31).victims == (("b",) if used else ("a",))


def item(**status: Any) -> dict[str, Any]:
    about = {"generation": 3, "complete": True, "observedPods": 2, "rankedPods": 2, "rankedAt": "2001-09-09T01:46:40Z"}
    return {
        "metadata": {"name": "replicaset-web", "generation": 3},
        "spec": {"owner": {"kind": "ReplicaSet", "name": "web"}, "costs": {"a": 1, "b": 2}, "maxRemovals": 1},
        "status": about | status,
    }


def test_an_object_is_read_as_the_actuator_writes_it() -> None:
    assert of_object(item()) == Ranking({"a": 1, "b": 2}, 1_000_000_000.0, max_removals=1)


@pytest.mark.parametrize(
    ("read", "why"),
    [
        pytest.param(None, "there is no PodGroupCost", id="none"),
        pytest.param({}, "not about the present costs", id="empty"),
        pytest.param(item(generation=2), "not about the present costs", id="another generation"),
        pytest.param(item(complete=False, message="2 pods are gone"), "2 pods are gone", id="not complete"),
        pytest.param(item(complete=False), "not complete", id="not complete, without a word"),
        pytest.param(item(rankedPods=1), "1 of 2 pods are ranked", id="not all ranked"),
    ],
)
def test_an_object_that_cannot_be_relied_on_says_why(read: Any, why: str) -> None:
    ranking = of_object(read)
    assert not ranking.ready
    assert why in ranking.why_not


@pytest.mark.parametrize("text", ["", "x", "1.5", "+1", " 1", "99999999999", "2147483648", "\uff11"])
def test_an_annotation_that_is_not_a_rank_leaves_its_pod_unranked(text: str) -> None:
    key, made = "scheduling.alpha.kubernetes.io/cost", "trimtab.dev/pod-cost-time"

    def pod(name: str, **annotations: str) -> Any:
        return {"metadata": {"name": name, "annotations": annotations}}

    pods = [
        pod("a", **{key: "7", made: "2026-01-01T00:00:00Z"}),
        pod("b", **{key: text, made: "2026-01-01T00:00:00Z"}),
        # A cost of another client.
        pod("c", **{key: "7"}),
        {"metadata": {"name": "d"}},
    ]
    assert of_annotations(pods).ranks == {"a": 7}


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T00:00:00"])
def test_an_invalid_time_is_unknown(text: str) -> None:
    assert of_object(item(rankedAt=text)).made_s is None
