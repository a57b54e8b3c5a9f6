"""Karpenter's own cases of consolidation, restated: the same verdict, or another one that is no dearer for a reason.

Each plan is checked by the certificate. The data name the lines that are restated, and those that are not.
"""

import pytest

from tests.builders.kubernetes import Json
from tests.parity.karpenter_cases import DATA, check_verdict
from trimtab.v1 import snapshot_pb2

IT_COUNT, ENTRY_COUNT = 73, 37
"""Cases of consolidation_test.go: single ones, and rows of its tables."""
BALANCED_COUNT = 9
"""Cases of balanced_integration_test.go."""
KNOWN = {
    "do-not-disrupt": any(
        "do_not_disrupt" in one.name
        for message in snapshot_pb2.DESCRIPTOR.message_types_by_name.values()
        for one in message.fields
    )
}
"""What this build knows of what cases need."""
CASES = [pytest.param(one, id=one["name"]) for one in DATA["cases"]]


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_karpenters_or_no_dearer_for_a_reason(case: Json) -> None:
    if not KNOWN.get(case.get("needs", ""), True):
        pytest.skip(f"needs a build that knows {case['needs']}")
    assert check_verdict(case) <= 1e-9


def test_each_case_of_the_source_is_restated_once_or_left_out_for_a_reason() -> None:
    rows = [*DATA["cases"], *DATA["skipped"]]
    for key, count in (("of", IT_COUNT + ENTRY_COUNT), ("balanced", BALANCED_COUNT)):
        lines = [line for one in rows for line in one.get(key, [])]
        assert len(set(lines)) == len(lines) == count
    names = [one["name"] for one in DATA["cases"]]
    assert len(set(names)) == len(names)
