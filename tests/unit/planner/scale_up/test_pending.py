"""Which pending pods are served, and why the others are not."""

from typing import Any

import pytest

from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.model.settings import PlannerSettings, ScaleUpSettings
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.scale_up.context import pending_pods
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_GATED, FLAG_UNSCHEDULABLE
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1.reason_pb2 import SkippedPodReason

NOW_S = 1_000_000
WAITS = PodRow(phase=1, flags=FLAG_UNSCHEDULABLE)
DEFAULTS = ScaleUpSettings()


def outcome(settings: ScaleUpSettings = DEFAULTS, now_s: int = NOW_S, **pods: PodRow) -> dict[str, tuple[str, bool]]:
    """Return by name of each pending pod: why it is skipped, "" = it is not, and whether nodes may be added for it."""
    rows = {("default", name.replace("_", "-")): pod for name, pod in pods.items()}
    snapshot = canonicalize(write(Cluster(pods=rows, nodes={"n": NodeRow()})))
    found = pending_pods(snapshot, settings, PlannerSettings(), now_s * 10**9)
    assert found.pods.tolist() == sorted(found.pods.tolist())
    may_add = dict(zip(found.pods.tolist(), found.may_add.tolist(), strict=True))
    reasons = {
        pod: SkippedPodReason.Code.Name(reason)
        for pod, reason in zip(found.skipped.tolist(), found.skipped_reason.tolist(), strict=True)
    }
    return {
        snapshot.pods.name.get(pod): (reasons.get(pod, ""), may_add.get(pod, False)) for pod in {*may_add, *reasons}
    }


def spec(**fields: Any) -> PodRow:
    return WAITS._replace(spec=PodRequirements(**fields))


def test_a_pod_that_waits_is_served_whether_the_scheduler_has_tried_it_or_not() -> None:
    assert outcome(marked=WAITS, unmarked=PodRow(phase=1)) == {"marked": ("", True), "unmarked": ("", True)}


def test_pods_that_run_have_ended_or_are_terminating_do_not_wait() -> None:
    rows = {
        "runs": WAITS._replace(node="n"),
        "on_unknown_node": WAITS._replace(node="gone"),
        "failed": WAITS._replace(phase=4),
        "succeeded": WAITS._replace(phase=3),
        "goes": WAITS._replace(deletion_s=NOW_S),
    }
    assert outcome(**rows) == {}
    assert outcome() == {}


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(spec(priority=-11), "EXPENDABLE", id="below the cutoff"),
        pytest.param(spec(priority=-10), "", id="at the cutoff"),
        pytest.param(WAITS._replace(flags=FLAG_GATED), "SCHEDULING_GATED", id="gated"),
        pytest.param(spec(scheduler_name="other"), "OTHER_SCHEDULER", id="of another scheduler"),
        pytest.param(spec(scheduler_name="volcano"), "", id="of a scheduler that is listed"),
        pytest.param(spec(scheduler_name="default-scheduler"), "", id="of the default scheduler by name"),
        pytest.param(spec(unsupported=("resourceClaims",)), "UNSUPPORTED_CONSTRAINT", id="not decidable"),
        pytest.param(spec(scheduler_name="other", priority=-11), "OTHER_SCHEDULER", id="the first reason counts"),
        pytest.param(spec(priority=-11)._replace(flags=FLAG_GATED), "SCHEDULING_GATED", id="gates come before all"),
        pytest.param(
            spec(priority=-11, scale_up_delay_s=60)._replace(created_s=NOW_S), "EXPENDABLE", id="age comes last"
        ),
    ],
)
def test_a_pod_is_skipped_for_one_reason(pod: PodRow, reason: str) -> None:
    listed = ScaleUpSettings(scheduler_names=frozenset({"volcano"}))
    assert outcome(listed, pod=pod) == {"pod": (reason, not reason)}


@pytest.mark.parametrize(
    ("general_s", "own_s", "age_s", "is_young"),
    [
        pytest.param(0, -1, 0, False, id="no delay"),
        pytest.param(30, -1, 29, True, id="younger than the setting"),
        pytest.param(30, -1, 30, False, id="as old as the setting"),
        pytest.param(30, 60, 59, True, id="its annotation asks for more"),
        pytest.param(30, 60, 60, False, id="as old as its annotation"),
        pytest.param(30, 0, 29, True, id="its annotation asks for less"),
        pytest.param(0, 2**62, NOW_S - 1, True, id="its annotation asks for ever"),
        pytest.param(30, -1, -5, True, id="created later than now"),
    ],
)
def test_a_pod_waits_until_it_is_old_enough(general_s: int, own_s: int, age_s: int, is_young: bool) -> None:
    settings = ScaleUpSettings(new_pod_delay_ns=general_s * 10**9)
    found = outcome(settings, pod=spec(scale_up_delay_s=own_s)._replace(created_s=NOW_S - age_s))
    assert found == {"pod": ("TOO_YOUNG", False) if is_young else ("", True)}


def test_a_pod_of_unknown_age_is_old() -> None:
    assert outcome(ScaleUpSettings(new_pod_delay_ns=10**18), pod=WAITS) == {"pod": ("", True)}


def test_no_node_is_added_for_a_daemon_set_pod_and_it_is_not_reported() -> None:
    assert outcome(pod=WAITS._replace(flags=FLAG_DAEMON)) == {"pod": ("", False)}
    assert outcome(pod=WAITS._replace(flags=FLAG_DAEMON | FLAG_GATED)) == {}


def test_a_young_pod_needs_a_place_and_an_expendable_one_does_not() -> None:
    rows = {("default", "young"): WAITS._replace(created_s=NOW_S), ("default", "spare"): spec(priority=-11)}
    snapshot = canonicalize(write(Cluster(pods=rows)))
    settings = ScaleUpSettings(new_pod_delay_ns=10**9)
    found = pending_pods(snapshot, settings, PlannerSettings(), NOW_S * 10**9)
    assert [snapshot.pods.name.get(pod) for pod in found.pods.tolist()] == ["young"]
    assert [snapshot.pods.name.get(pod) for pod in found.skipped.tolist()] == ["spare", "young"]
