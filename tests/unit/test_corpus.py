"""The judge of changes to decisions: what counts as worse, and by how much."""

from tests.benchmarks.corpus.figures import TOTAL, differences

BEFORE = {"a": {"saved": 100.0, "moves": 10.0}, "b": {"growth": 50.0}, "gone": {"saved": 9.0}}


def judged(after: dict[str, dict[str, float]]) -> dict[tuple[str, str], bool]:
    """Return whether each figure that is not as before is allowed."""
    return {(one.case, one.figure): one.is_allowed for one in differences(BEFORE, after) if one.worse}


def test_equal_results_are_as_good_and_cases_of_one_tree_alone_do_not_count() -> None:
    assert judged({"a": BEFORE["a"], "b": BEFORE["b"], "new": {"unplaced": 3.0}}) == {}


def test_a_cluster_may_become_half_a_per_cent_worse_and_their_sum_a_tenth() -> None:
    found = judged({"a": {"saved": 99.6, "moves": 10.0}, "b": {"growth": 50.04}})
    assert found == {("a", "saved"): True, (TOTAL, "saved"): False, ("b", "growth"): True, (TOTAL, "growth"): True}


def test_what_is_better_is_allowed_and_more_unplaced_pods_never_are() -> None:
    found = judged({"a": {"saved": 120.0, "moves": 10.0, "unplaced": 1.0}, "b": {"growth": 40.0}})
    assert [key for key, is_allowed in found.items() if not is_allowed] == [("a", "unplaced"), (TOTAL, "unplaced")]
