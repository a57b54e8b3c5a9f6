"""Gangs and single pods in turn: a plan serves the same of each on existing nodes as the real scheduler bound.

`gang_oracle/README.md` says how the answers are made.
"""

from tests.parity.gang_documents import bound_by_plan, recorded


def test_a_plan_serves_of_each_gang_and_of_single_pods_as_many_as_the_scheduler_bound() -> None:
    answers = list(recorded())
    differ = [(at, one, ours) for at, one in enumerate(answers) if (ours := bound_by_plan(one.question)) != one.bound]
    assert not differ, f"{len(differ)} of {len(answers)}, the first: {differ[0]}"
