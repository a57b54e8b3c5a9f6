"""Reports on PodDisruptionBudgets: what the advice says, and that it helps once it is followed."""

import pytest

from tests.parity.public_reports.reports import Report, check

ADVISE = ("advise",)
CANNOT_COUNT = "rayjobs.example does not implement the scale subresource"
REPORTS = (
    Report("budget-of-ninety-percent", ADVISE, says=('{"spec":{"maxUnavailable":1,"minAvailable":null}}',)),
    Report("budget-of-one-pod", goes={f"w0{at}" for at in range(5)}),
    Report(
        "budget-that-cannot-be-counted",
        ADVISE,
        says=('{"spec":{"minAvailable":2,"maxUnavailable":null}}', CANNOT_COUNT),
    ),
    Report("budget-that-cannot-be-counted", goes={"w3"}, says=(f"cannot count the pods: {CANNOT_COUNT}",)),
    Report("two-budgets-one-blocks", ADVISE, says=("kubectl delete pdb all -n shop",)),
)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{report.name} {report.command[0]}")
def test_the_answer_to_a_report_is_right(report: Report) -> None:
    check(report)
