"""Calls of AWS fail in every way while the actuator deletes instances, grows a group, and ends an instance that never
registers: moto behind a proxy. The actuator also dies at a write, and restarts at once or later. In the end nothing was
deleted twice, all deletions are reported, the sizes are right, and no group is stuck.

In the suite each kind of fault meets some call, and two deaths are combined with a fault; in the nightly tier each kind
meets every call. Every fault with a death at every write takes the better part of an hour:
`TRIMTAB_ALL_DEATHS=1 pytest -m "" tests/stateful/test_aws_faults.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tests.builders import aws as fake_aws
from tests.builders.actuator import SETTINGS, Crash, Stage
from tests.builders.aws import AwsProxy, Fault
from tests.builders.kubernetes import node
from tests.builders.tiers import ALL_DEATHS, nightly_but
from trimtab.actuator.cloud.aws.api import AwsApi, Reader
from trimtab.actuator.cloud.aws.cloud import AwsCloud
from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.cloud.table import AwsSettings
from trimtab.actuator.node_groups.loop import ActivityWatcher
from trimtab.actuator.node_groups.reconciler import NodeGroupReconciler
from trimtab.actuator.settings import DeleteSettings, GroupSettings
from trimtab.common.rpc.errors import ServiceError
from trimtab.common.rpc.retries import attempts
from trimtab.v1 import actuator_pb2, plan_pb2

WANTED_SIZE, PROVISION_S, STEP_S, END_S, SLOW_S, POLL_S = 6, 100.0, 30.0, 420.0, 45.0, 5.0
LISTS = "DescribeAutoScalingGroups"
OTHER_READS = (
    "DescribeInstances", "DescribeInstanceTypes", "DescribeLaunchTemplateVersions", "DescribeScalingActivities",
)  # fmt: skip
CHANGES = ("SetDesiredCapacity", "TerminateInstanceInAutoScalingGroup")
CALLS = {"lists": (LISTS,), "other reads": OTHER_READS, "growth": CHANGES[:1], "termination": CHANGES[1:]}
# More than the number of attempts of a read.
TIMES = 8
# The positions of the two instances that a caller deletes, and of the one without a Node object.
DELETED, LOST = (0, 1), 3


class OverAws(Stage):
    """A stage whose cloud is AWS; a node joins for each instance except the lost one."""

    def __init__(self, proxy: AwsProxy) -> None:
        fake_aws.launch_template("g", "m5.large")
        fake_aws.scaling_group("g", (0, 20, 5))
        ids = self.first = self.instances()
        self.lost = ids[LOST]
        self.deleted = [ids[place] for place in DELETED]
        self.asked = 0
        # How much longer it takes because of a fault.
        self.delay_s = 0.0
        groups = GroupSettings(max_node_provision_s=PROVISION_S)
        # A story of minutes asks AWS as often as a service does, which is what takes time here.
        work = replace(SETTINGS.work, delete=DeleteSettings(timeout_s=60, poll_s=POLL_S, retry_s=POLL_S))
        super().__init__([], replace(SETTINGS, groups=groups, work=work))
        self.api = AwsApi(fake_aws.REGION, proxy.address)
        self.restart()

    def restart(self, die_at: int | None = None) -> None:
        """Start a process, which knows only the store and AWS, and dies at one of its writes."""
        while True:
            settings, reader = AwsSettings(groups=("g",)), Reader(self.api, attempts(6, 0.0, 0.001))
            self.cloud = AwsCloud(self.api, settings, reader, clock=self.time.clock)  # type: ignore[assignment]
            with suppress(CloudError):
                self.boot()
                break
        self.breaker.only, self.breaker.die_at = "append", die_at
        self.breaker.count = 0
        self.steps = (
            ActivityWatcher(self.actuator.processor, self.cloud).step,
            NodeGroupReconciler(
                self.actuator.processor,
                self.cluster,
                self.cloud,
                self.actuator.settings.groups,
                self.actuator.settings.present_limits,
            ).step,
            self.read,
        )

    def group(self) -> Any:
        (found,) = fake_aws.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        return found

    def instances(self) -> list[str]:
        return sorted(f"aws:///{one['AvailabilityZone']}/{one['InstanceId']}" for one in self.group()["Instances"])

    def join(self) -> None:
        """Make the nodes of new instances join."""
        with self.cluster.transaction() as state:
            for instance in self.instances():
                name = instance.rpartition("/")[2]
                if name not in state.nodes and instance != self.lost:
                    state.put(node(name, cpu="2", provider_id=instance))

    def live(self) -> None:
        """Run service and caller until the end."""
        self.until_s = self.time.now_s + END_S + self.delay_s
        while self.time.now_s < self.until_s:
            self.join()
            self.ask()
            self.run_for(STEP_S)
            for step in self.steps:
                with suppress(CloudError):
                    step()

    def read(self) -> None:
        """Read the content of the next snapshot."""
        self.cloud.refresh()
        self.actuator.status(with_finished=True)

    def ask(self) -> None:
        """Request the missing changes, compared with the real state of cluster and cloud."""
        leaving = self.actuator.processor.read(lambda tracker, _: set(tracker.data.deletions))
        names = [instance.rpartition("/")[2] for instance in self.deleted]
        nodes = [name for name in names if name in self.cluster.state.nodes and name not in leaving]
        size, self.asked = self.group()["DesiredCapacity"], self.asked + 1
        with suppress(CloudError, ServiceError):
            if nodes:
                self.actuator.deletions.begin(self.request(f"d{self.asked}", *nodes, drain=False))
        with suppress(CloudError, ServiceError):
            if size < WANTED_SIZE:
                split = plan_pb2.ScaleUpSplit(node_group="g", current_size=size, new_size=WANTED_SIZE)
                request = actuator_pb2.ScaleUpRequest(request_id=f"g{self.asked}", splits=[split])
                self.actuator.growths.begin(request)


def repeated(edit: Callable[[str], str]) -> Callable[[str], str]:
    """Return an edit of only the next answers."""
    left = [TIMES]

    def edited(answer: str) -> str:
        left[0] -= 1
        return edit(answer) if left[0] >= 0 else answer

    return edited


def strike(proxy: AwsProxy, stage: OverAws, kind: str, action: str) -> None:
    """Make the next calls of an action fail."""
    first: list[str] = []

    def slow(answer: str) -> str:
        stage.time.sleep(SLOW_S)
        # The scenario gets as much time as without a fault.
        stage.until_s += SLOW_S
        return answer

    def old(answer: str) -> str:
        first.append(answer)
        return first[0]

    if action in CHANGES[1:] and kind in ("throttled", "refused", "wrong"):
        # An instance that never registers, and was not terminated, is tried again after this time.
        stage.delay_s += 2 * (PROVISION_S + STEP_S)
    match kind:
        case "throttled":
            proxy.fail(action, *[Fault("Throttling")] * TIMES)
        case "lost":
            proxy.fail(action, *[Fault()] * (2 if action in CHANGES else TIMES))
        case "wrong":
            proxy.fail(action, *[Fault("x", 200, b"<html>not what you think</html>")] * TIMES)
        case "refused":
            proxy.fail(action, *[Fault("ValidationError")] * 2)
        case "slow":
            proxy.edits[action] = repeated(slow)
        case "out of order":
            proxy.edits[action] = repeated(old)
        case _:
            proxy.edits[action] = repeated(fake_aws.without_instances(2))


@contextmanager
def life(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[AwsProxy, OverAws]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with fake_aws.aws() as proxy:
        stage = OverAws(proxy)
        stage.join()
        yield proxy, stage


def ended() -> set[str]:
    """Return all instances that AWS has terminated, whenever it launched them."""
    found = fake_aws.client("ec2").describe_instances()["Reservations"]
    return {
        f"aws:///{one['Placement']['AvailabilityZone']}/{one['InstanceId']}"
        for reservation in found
        for one in reservation["Instances"]
        if one["State"]["Name"] != "running"
    }


def check(stage: OverAws) -> None:
    left = stage.instances()
    gone = {*stage.deleted, stage.lost}
    assert ended() == gone, "none that came later has ended"
    told = stage.finished()
    # One that never registered has no other name than its provider id.
    reports = [told.get(instance.rpartition("/")[2]) or told[instance] for instance in gone]
    assert {report[0] for report in reports} == {"DELETED"}
    assert set(stage.first) - set(left) == {*stage.deleted, stage.lost}, "these have ended, and no other"
    assert (stage.group()["DesiredCapacity"], len(left)) == (WANTED_SIZE, WANTED_SIZE)
    assert sorted(stage.cluster.state.nodes) == sorted(instance.rpartition("/")[2] for instance in left)
    assert stage.tainted() == set()
    data = stage.actuator.processor.read(
        lambda tracker, _: [dict(tracker.data.deletions), dict(tracker.data.backoffs), dict(tracker.data.unregistered)]
    )
    assert data == [{}, {}, {}], "no group is stuck"
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


FAULTS = [
    *((calls, kind) for calls in CALLS for kind in ("throttled", "lost", "wrong", "refused", "slow")),
    ("lists", "partial"),
    ("lists", "out of order"),
    ("other reads", "out of order"),
]
# Each kind once, each set of calls once or more.
SAMPLE = [
    ("lists", "throttled"), ("growth", "lost"), ("other reads", "wrong"), ("termination", "refused"),
    ("termination", "slow"), ("lists", "partial"), ("lists", "out of order"),
]  # fmt: skip


@pytest.mark.parametrize(("calls", "kind"), nightly_but(SAMPLE, FAULTS))
def test_each_call_that_fails_in_each_way_ends_correctly(
    calls: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with life(monkeypatch) as (proxy, stage):
        for action in CALLS[calls]:
            strike(proxy, stage, kind, action)
        stage.live()
        check(stage)
        assert any(proxy.count(action) for action in CALLS[calls])


# Before and after each write of a life without fault, and some more.
MOST_WRITES, SOME = 70, 7
# Time until a dead process is restarted.
DOWN_S = (0.0, 10.0, 120.0)
DEATHS = (
    [*product(FAULTS, range(1, MOST_WRITES))]
    if ALL_DEATHS
    else [(FAULTS[at % len(FAULTS)], at) for at in range(1, 50, SOME)]
)
# Once the fault hits the process that dies, and once the next one.
DEATHS_SAMPLE = [(FAULTS[at], at) for at in (8,)]


@pytest.mark.parametrize(
    ("fault", "at"),
    nightly_but(DEATHS_SAMPLE, DEATHS),
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_an_additional_death_at_a_write_ends_correctly(
    fault: tuple[str, str], at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, kind = fault

    def begin() -> None:
        for action in CALLS[calls]:
            strike(proxy, stage, kind, action)

    with life(monkeypatch) as (proxy, stage):
        stage.breaker.die_at = at
        # The fault hits the process that dies, or the next one.
        if at % 2:
            begin()
        with suppress(Crash):
            stage.live()
        assert stage.breaker.dead or ALL_DEATHS
        stage.time.stop()
        stage.time.now_s += DOWN_S[at % len(DOWN_S)]
        if not at % 2:
            begin()
        stage.restart()
        stage.live()
        check(stage)
