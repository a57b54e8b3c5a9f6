"""The entries of sets within one column; that offsets of messages are checked is tested where they are read."""

import numpy as np

from trimtab.planner.snapshot.dictionaries import entries_of


def test_the_entries_of_sets_follow_each_other_in_the_order_asked_for() -> None:
    offsets = np.array([0, 2, 2, 5, 6], np.int32)
    assert entries_of(offsets, np.array([2, 1, 0, 2], np.int32)).tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert entries_of(offsets, np.zeros(0, np.int64)).tolist() == []
