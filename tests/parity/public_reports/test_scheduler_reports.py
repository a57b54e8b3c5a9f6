"""Reports on what the scheduler and other controllers do with pods: preemption, volumes, spread, gangs, costs."""

import pytest

from tests.parity.public_reports.reports import Report, check, plan_of

UP = "2026-11-20T12:00:00Z"
POD_COSTS = ("--decision", "pod-costs")
REPORTS = (
    Report("nominated-victim-ends", grows={}, goes=set(), says=("1 pending pod fits on existing nodes",)),
    Report("nominated-room-and-a-drain", grows={}, goes=set()),
    Report("nominated-before-the-victim-ends", now=UP, grows={}, goes=set()),
    Report("expendable-pods-fill-a-node", grows={}, goes=set(), stays={"w1": "RESERVED_FOR_PENDING_PODS"}),
    Report("expendable-overprovisioning", now=UP, grows={}),
    Report("expendable-pods-and-one-that-never-preempts", now=UP, grows={"p": 2}),
    Report("gang-beyond-its-minimum", now=UP, grows={}, says=("beyond the minimum of its gang",)),
    Report("resized-down-in-place", stays={"w0": "NO_PLACE_TO_MOVE_PODS"}),
    Report("ephemeral-volume-in-another-zone", goes={"a1"}),
    Report(
        "attach-limit-of-new-nodes",
        now=UP,
        grows={"p": 1},
        says=("new nodes of node group p are planned without a limit on volumes of ebs.csi.aws.com",),
    ),
    Report("attach-limit-stated-by-the-group", now=UP, grows={"p": 2}, says_not=("without limit",)),
    Report(
        "csi-driver-not-registered-yet",
        now=UP,
        grows={"p": 3},
        goes=set(),
        says=("node n2 has not registered ebs.csi.aws.com yet: it counts with 5 volumes",),
    ),
    Report("attachments-without-pods", now=UP, goes=set(), says=("too many volumes are attached",)),
    Report("spread-from-zero", now=UP, grows={"np-z1": 1}, says=("minDomains in the constraint makes it wait",)),
    Report("spread-from-zero-min-domains", now=UP, grows={"np-z1": 1, "np-z2": 1, "np-z3": 1}),
    Report("pod-cost-not-ready", options=POD_COSTS, now=UP, says=("1 pod gets no deletion cost",)),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("pod-cost-not-ready", ["web-2", "web-4", "web-1", "web-3", "web-5"]),
        ("pod-cost-one-pending", ["web-2", "web-1", "web-4", "web-0", "web-3", "web-5"]),
    ],
)
def test_pods_that_are_removed_anyway_do_not_count_for_the_others(name: str, order: list[str]) -> None:
    (group,) = plan_of(Report(name, options=POD_COSTS, now=UP))["podCosts"]["groups"]
    assert [pod.partition("/")[2] for pod in group["order"]] == order
