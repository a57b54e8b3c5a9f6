"""Reports on Karpenter's nodes and pools, and on nodes that somebody else removes."""

import pytest

from tests.parity.public_reports.reports import Report, check

REPORTS = (
    Report(
        "spot-one-alternative",
        options=("--decision", "scale-down", "--decision", "replacement"),
        goes=set(),
        says=("too few cheaper node groups would take the pods of a spot node",),
        says_not=("nodes leave",),
    ),
    Report(
        "leaving-node-is-first-of-its-group",
        grows={"default": 4},
        goes=set(),
        stays={"k0": "CURRENTLY_BEING_DELETED"},
    ),
    Report("leaving-node-as-destination", goes=set(), stays={"k0": "CURRENTLY_BEING_DELETED", "k1": ""}),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)
