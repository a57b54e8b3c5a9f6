"""Reports on Karpenter's nodes and pools, and on nodes that somebody else removes."""

import pytest

from tests.parity.public_reports.reports import Report, check

REPORTS = (
    Report(
        "karpenter-do-not-disrupt-pod",
        goes=set(),
        stays={"k0": "BLOCKED_BY_POD"},
        says=("a pod is annotated karpenter.sh/do-not-disrupt",),
    ),
    Report(
        "karpenter-budget-of-no-node",
        goes=set(),
        stays={"k0": "DISRUPTION_BUDGET"},
        says=("a disruption budget of its pool lets no further node go",),
    ),
    Report(
        "karpenter-do-not-disrupt-node",
        command=("advise",),
        says=("kubectl annotate node k0 karpenter.sh/do-not-disrupt-",),
        says_not=("scale-down-disabled",),
    ),
    Report(
        "karpenter-when-empty",
        goes=set(),
        stays={"k0": "NOT_EMPTY", "k1": "NOT_EMPTY"},
        says=("consolidationPolicy: WhenEmpty",),
        says_not=("threshold",),
    ),
    Report(
        "karpenter-when-empty",
        command=("advise",),
        says=("kubectl patch nodepool default", '"consolidationPolicy":"WhenEmptyOrUnderutilized"'),
        says_not=("threshold", "utilizationThreshold"),
    ),
    Report("karpenter-budget-of-no-node", command=("advise",), says=("kubectl edit nodepool default",)),
    Report(
        "karpenter-do-not-disrupt-pod",
        command=("advise",),
        says=("kubectl annotate pod a-abc-0 -n shop karpenter.sh/do-not-disrupt-",),
    ),
    Report(
        "karpenter-no-offering-matches",
        options=("--offers", "@karpenter-no-offering-matches.offers.csv"),
        now="2026-11-20T12:00:00Z",
        grows={},
        says=("NodePool default: spec.template.spec.requirements allow none of the offerings",),
        says_not=("nodes are grouped by",),
    ),
    Report(
        "annotation-True",
        says=("Node w0: annotation cluster-autoscaler.kubernetes.io/scale-down-disabled: the value 'True' is not",),
    ),
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


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{report.command[0]}-{report.name}")
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)
