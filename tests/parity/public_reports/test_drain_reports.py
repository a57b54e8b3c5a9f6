"""Reports on which nodes may be drained."""

import pytest

from tests.parity.public_reports.reports import Report, check

REPORTS = (
    Report("preferred-anti-affinity", goes={"w0"}),
    Report("required-anti-affinity", goes=set(), stays={"w0": "NO_PLACE_TO_MOVE_PODS", "w1": "NO_PLACE_TO_MOVE_PODS"}),
    Report("soft-spread", goes={"w0"}),
    Report("local-volume", goes=set(), stays={"w0": "NO_PLACE_TO_MOVE_PODS"}),
    Report("host-port-on-every-node", goes=set(), stays={"w0": "NO_PLACE_TO_MOVE_PODS", "w1": "NO_PLACE_TO_MOVE_PODS"}),
    Report("daemon-sets-fill-the-node", goes=set(), stays={"w0": "NOT_UNDERUTILIZED"}),
    Report("daemon-sets-ignored", goes={"w0"}),
    Report("empty-dir-in-memory", goes={"w0"}),
    Report("local-volumes-all-named", goes={"w0"}),
    Report("local-volumes-one-named", goes=set(), stays={"w0": "BLOCKED_BY_POD"}),
    Report("safe-to-evict-with-local-volume", goes={"w0"}),
    Report("annotation-on-the-pod-of-a-job", goes=set(), stays={"w0": "BLOCKED_BY_POD"}),
    Report(
        "annotation-on-the-job",
        goes={"w0"},
        says=("Job app/etl: annotation cluster-autoscaler.kubernetes.io/safe-to-evict has no effect there",),
    ),
    Report("unready-and-well-used", goes={"w2"}, stays={"w0": "NOT_UNDERUTILIZED"}),
    Report("only-node-that-is-not-cordoned", goes=set(), stays={"w2": "NO_PLACE_TO_MOVE_PODS"}),
    Report("static-pod", goes={"w0"}),
    Report("young-kube-system-pod", goes=set(), stays={"w0": "BLOCKED_BY_POD"}),
    Report("kube-system-without-a-budget", goes={"w0"}),
    Report("kube-system-with-a-budget", goes={"w0"}),
    Report("pods-that-have-ended", goes={"w0"}),
    Report("node-with-scale-down-disabled", goes=set(), stays={"w0": "SCALE_DOWN_DISABLED_ANNOTATION"}),
    Report("budget-that-never-allows", goes=set(), stays={"w0": "BLOCKED_BY_POD"}),
    Report("crashing-pods-always-allow", goes={"w0"}),
    Report("crashing-pods-healthy-budget", goes=set(), stays={"w0": "BLOCKED_BY_POD"}),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)
