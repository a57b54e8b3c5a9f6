"""Gangs and single pods in turn: a plan serves the same of each on existing nodes as the real scheduler bound.

`gang_oracle/README.md` says how the answers are made.
"""

import pytest

from tests.parity.gang_documents import RECORDED, bound_by_plan, recorded


@pytest.mark.ci
@pytest.mark.parametrize("minor", RECORDED)
def test_a_plan_serves_of_each_gang_and_of_single_pods_as_many_as_the_scheduler_bound(minor: int) -> None:
    answers = list(recorded(minor))
    ours = [bound_by_plan(one.question, minor) for one in answers]
    differ = [(at, one, mine) for at, (one, mine) in enumerate(zip(answers, ours, strict=True)) if mine != one.bound]
    assert not differ, f"{len(differ)} of {len(answers)}, the first: {differ[0]}"
