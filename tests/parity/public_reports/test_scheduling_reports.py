"""Reports on what the scheduler and the autoscaler count: requests, ports, volumes, affinity, spread, priorities."""

import pytest

from tests.parity.public_reports.reports import Report, check

KUEUE = "held back by scheduling gates"

REPORTS = (
    Report("init-container-counts", goes=set(), stays={"w0": "NOT_UNDERUTILIZED"}),
    Report("sidecar-counts", goes=set(), stays={"w0": "NOT_UNDERUTILIZED"}),
    Report("pod-overhead-counts", grows={"large": 1}),
    Report("runtime-class-selects-empty-group", grows={"arm": 1}),
    Report("resources-of-the-whole-pod", grows={"large": 1}),
    Report(
        "template-lacks-the-label",
        command=("explain", "pod/app/win-0"),
        says=("wants group-type=windows, the node has no such label",),
    ),
    Report("template-without-ephemeral-storage", grows={}),
    Report(
        "template-without-ephemeral-storage",
        command=("explain", "pod/app/spill-0"),
        says=("wants 1.0 GiB of ephemeral-storage, a new node has 0 B",),
    ),
    Report("spot-taint-without-toleration", grows={}, says=("a taint is not tolerated",)),
    Report("gated-and-unschedulable", grows={}, says=(KUEUE,)),
    Report("daemon-set-pod-waits", grows={}),
    Report("host-port-of-a-daemon-set", grows={}, says=("a host port is taken",)),
    Report("pause-pod-of-priority-10", grows={"w": 2}),
    Report("pause-pod-of-priority-11", grows={}),
    Report("affinity-to-itself", grows={"w": 2}),
    Report("affinity-matches-itself-in-part", grows={}),
    Report("anti-affinity-over-namespaces", grows={"w": 1}),
    Report("spread-of-a-new-revision", grows={}),
    Report("volume-in-a-zone-without-nodes", grows={"zc": 1}),
    Report("volume-allowed-in-one-zone", grows={"zb": 1}),
    Report("volume-and-a-node-on-its-way", grows={}),
    Report("gpu-jobs-and-nodes-on-their-way", grows={}),
    Report("limit-on-nodes-counts-those-on-their-way", grows={"w": 4}),
    Report("group-of-unready-nodes-only", grows={"up": 4}),
    Report("node-pool-of-three-nodes", grows={"default/m5.xlarge/z1/on-demand": 3}),
    Report(
        "claims-count-against-the-limit",
        grows={},
        says=("the limit on cpu of nodes with karpenter.sh/nodepool=default",),
    ),
    Report("limit-below-what-is-there", grows={}, goes=set()),
    Report(
        "claim-that-was-not-launched",
        grows={"default/m5.xlarge/z1/on-demand": 2},
        says=(
            "NodeClaim c1: its launch failed (InsufficientCapacity: all requested instance types were unavailable); "
            "its node is not awaited",
        ),
    ),
    Report("terminating-pod-holds-room", grows={"w": 2}),
    Report("affinity-greater-than", grows={"g7": 1}),
    Report("zonal-spread-in-one-plan", grows={"za": 4, "zb": 4}),
    Report("spread-needs-no-more-nodes", grows={"za": 2}),
    Report("huge-pages", grows={"huge": 1}),
    Report("read-write-once-pod", grows={}, says=("a volume is in use",)),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{report.name} {report.command[0]}")
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)


@pytest.mark.xfail(strict=True, reason="CSIStorageCapacity is not read; a note says so")
def test_a_volume_that_no_node_has_room_for_leaves_its_pod_pending() -> None:
    check(Report("storage-capacity", says=("1 pod",), says_not=("1 pending pod fits on existing nodes",)))
