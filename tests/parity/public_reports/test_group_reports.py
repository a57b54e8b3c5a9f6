"""Reports on nodes that start, and on what new nodes of a group are like."""

import pytest

from tests.parity.public_reports.reports import Report, check

NOW = "2026-11-20T12:00:00Z"
GPU = "nvidia.com/gpu awaited"
REPORTS = (
    Report("gpu-awaited-by-template", now=NOW, grows={}, goes=set(), says=(GPU, "it offers 0 of 8")),
    Report("gpu-half-advertised", now=NOW, grows={}, goes=set(), says=(GPU, "it offers 4 of 8")),
    Report("gpu-awaited-by-label", now=NOW, grows={}, goes=set(), says=(GPU,)),
    Report("model-is-a-node-without-gpu", now=NOW, grows={"gpu": 3}, goes=set(), says=("a-new is starting",)),
    Report("starting-node-waits-as-unready", now=NOW, goes={"n2"}, says=("1 could be removed after 20 min",)),
    Report("group-of-two-sizes", now=NOW, grows={}, says=("new ones are planned as small as n2",)),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)
