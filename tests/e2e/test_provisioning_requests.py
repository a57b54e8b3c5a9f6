"""ProvisioningRequests on a real control plane, driven by a stand-in of Kueue's controller: both classes, a head and
workers over two groups, no node for what cannot be completed, pods that start together, bookings that end.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import apply, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.queue_stand_in import PENDING, READY, QueuedWorkload
from tests.e2e.rounds_over_plane import Rounds, rounds_over
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import plan_pb2

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
DEFINITION = Path(__file__).parent / "provisioning-requests.yaml"
CHECK = "check-capacity.autoscaling.x-k8s.io"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DECISIONS = (plan_pb2.Decision.CAPACITY_REQUESTS, plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)
SLOW_S = 120.0


def nodes(plane: ControlPlane, pool: str) -> int:
    return len(json.loads(plane.kubectl("get", "nodes", "-l", f"pool={pool}", "-o", "json"))["items"])


def settings(**given: int) -> RoundSettings:
    plan = plan_pb2.PlanSettings()
    plan.scale_down.unneeded_time.seconds = 15
    plan.scale_down.delay_after_add.SetInParent()
    plan.capacity_requests.booking_time.seconds = given.get("booking_s", 600)
    return RoundSettings("e2e", DECISIONS, plan)


def rounds_until(rounds: Rounds, reached: Callable[[], bool], what: str) -> None:
    """Make rounds until something holds."""
    end = time.monotonic() + SLOW_S
    while not reached():
        done = rounds.run()
        assert not done.refused, done.refused
        assert time.monotonic() < end, f"{what}: {done.answer.capacity_requests}"


def bound(plane: ControlPlane, name: str) -> int:
    items = json.loads(plane.kubectl("get", "pods", "-n", "default", "-l", f"app={name}", "-o", "json"))["items"]
    return sum(bool(one["spec"].get("nodeName")) for one in items)


@pytest.fixture(scope="module", autouse=True)
def kind(plane: ControlPlane) -> None:
    plane.kubectl("create", "-f", str(DEFINITION))
    until(lambda: "provisioningrequests" in plane.kubectl("api-resources"), SLOW_S, "the kind is served")
    apply(plane, *workloads.nodes("there", 1, pool="there"))


def test_a_gang_over_two_groups_gets_its_nodes_starts_at_once_and_its_booking_is_consumed(
    plane: ControlPlane, tmp_path: Path
) -> None:
    groups = [workloads.group("head", 2, "head"), workloads.group("worker", 4, "worker")]
    sets = {
        "head": (workloads.template("train", "3", "head"), 1),
        "worker": (workloads.template("train", "3", "worker"), 4),
    }
    train = QueuedWorkload(plane, "train", ATOMIC, sets)
    large = QueuedWorkload(plane, "large", ATOMIC, {"worker": (workloads.template("large", "3", "worker"), 5)})
    with rounds_over(plane, tmp_path / "actuator", settings(), groups) as rounds:
        large.submit()
        rounds_until(rounds, lambda: "Provisioned" in large.conditions(), "an answer")
        assert large.conditions()["Provisioned"] == ("False", "CapacityIsNotFound")
        message = large.object()["status"]["conditions"][-1]["message"]
        assert "the one node group that helps may get 4 more nodes at most" in message
        assert (nodes(plane, "worker"), nodes(plane, "head")) == (0, 0)

        train.submit()
        rounds_until(rounds, lambda: train.reconcile() == READY, "provisioned")
        assert train.conditions()["Provisioned"] == ("True", "CapacityIsProvisioned")
        assert train.conditions()["Accepted"] == ("True", "Accepted")
        fields = train.object()["metadata"]["managedFields"]
        managers = {one["manager"] for one in fields if one.get("subresource") == "status"}
        assert managers == {"trimtab-capacity-requests"}
        # No round is made: the nodes come, and the scheduler alone binds all pods.
        until(lambda: bound(plane, "train") == 5, SLOW_S, "all pods bound")
        assert (nodes(plane, "head"), nodes(plane, "worker")) == (1, 4)
        rounds_until(rounds, lambda: "BookingExpired" in train.conditions(), "consumed")
        assert train.conditions()["BookingExpired"] == ("True", "CapacityBookingConsumed")
        assert large.reconcile() == PENDING
        assert (nodes(plane, "head"), nodes(plane, "worker")) == (1, 4)
        plane.kubectl("delete", "-n", "default", "provreq", "--all")
        plane.kubectl("delete", "-n", "default", "pods", "-l", "app=train", "--force", "--grace-period=0")


def test_room_that_exists_is_booked_against_others_and_given_up_after_its_time(
    plane: ControlPlane, tmp_path: Path
) -> None:
    first = QueuedWorkload(plane, "first", CHECK, {"main": (workloads.template("first", "1", "there"), 3)})
    second = QueuedWorkload(plane, "second", CHECK, {"main": (workloads.template("second", "1", "there"), 3)})
    impatient = QueuedWorkload(
        plane, "impatient", CHECK, {"main": (workloads.template("impatient", "1", "there"), 3)}, {"noRetry": "true"}
    )
    with rounds_over(
        plane, tmp_path / "actuator", settings(booking_s=20), [workloads.group("more", 2, "more")]
    ) as rounds:
        first.submit()
        rounds_until(rounds, lambda: "Provisioned" in first.conditions(), "found")
        assert first.conditions()["Provisioned"] == ("True", "CapacityIsFound")
        second.submit()
        impatient.submit()
        rounds_until(rounds, lambda: "Failed" in impatient.conditions(), "failed")
        assert second.conditions()["Provisioned"] == ("False", "CapacityIsNotFound")
        rounds_until(rounds, lambda: "BookingExpired" in first.conditions(), "expired")
        assert first.conditions()["BookingExpired"] == ("True", "CapacityReservationTimeExpired")
        rounds_until(rounds, lambda: second.conditions()["Provisioned"][0] == "True", "its turn")
        plane.kubectl("delete", "node", "there-1")
        rounds_until(rounds, lambda: "CapacityRevoked" in second.conditions(), "revoked")
        assert second.conditions()["CapacityRevoked"] == ("True", "CapacityIsLost")
