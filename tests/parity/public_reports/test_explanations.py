"""Explanations name the cause: which key, domain, claim, label, amount or kind, not only which predicate."""

import pytest

from tests.parity.public_reports.reports import Report, check

REPORTS = (
    Report(
        "spread-counts-the-drained-node",
        command=("explain", "node/w0"),
        says=(
            "spread over kubernetes.io/hostname by at most 1: 2 pods would be in w1, 0 in w0 (its own node, which "
            "counts while it is drained, unless nodeTaintsPolicy is Honor)",
        ),
    ),
    Report(
        "spread-over-a-tainted-zone",
        command=("explain", "pod/app/web-1"),
        says=(
            "2 pods would be in a, 0 in c (c has only nodes with taints that it does not tolerate, which count unless "
            "nodeTaintsPolicy is Honor)",
            "spread over topology.kubernetes.io/zone by at most 1 allows no more pods there (c has only nodes with",
        ),
    ),
    Report(
        "spread-with-too-few-domains",
        command=("explain", "pod/app/web-2"),
        says=("minDomains asks for 3 domains, of which there are 2: the fewest counts as 0",),
    ),
    Report(
        "groups-differ-by-a-label",
        says=(
            "equally good; won the tie-break",
            "ng-b is not balanced with ng-a, as they are not similar: label pool differs",
        ),
        says_not=("at random",),
    ),
    Report("groups-differ-by-a-label", options=("--verbose",), says=("equally good; lost the tie-break",)),
    Report(
        "controller-of-an-unknown-kind",
        stays={"w0": "BLOCKED_BY_POD"},
        says=("1 pod has a controller of kind RayCluster, which the Cluster Autoscaler does not know",),
        says_not=("has no controller that would",),
    ),
    Report(
        "kinds-that-are-not-read",
        says=(
            "kueue.x-k8s.io/v1beta1 ClusterQueue: not read; quotas and admission do not count here",
            "scheduling.volcano.sh/v1beta1 Queue: not read; its limits hold no pod back here",
            "karpenter.sh/v1alpha5 Provisioner: not read; an old version of Karpenter's API",
            "v1 Service: not needed",
        ),
    ),
    Report(
        "daemon-sets-leave-too-little",
        command=("explain", "pod/app/big-0"),
        says=("wants 3 cores, a new node has 4 cores, of which DaemonSets take 1.5 cores",),
    ),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{report.name} {' '.join(report.options)}")
def test_an_explanation_names_the_cause(report: Report) -> None:
    check(report)
