"""The cloud `aws`: Auto Scaling groups.

Decides how its calls become those of AWS. Target sizes are set as numbers, so that a repetition changes nothing more;
instances are terminated one by one, each lowering the target. A call whose answer was lost is not repeated before a
read must show what it did. Instances that are wanted and do not exist are listed under placeholders, with the failure
of the latest scaling activity; deleting one lowers the target. Seconds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from trimtab.actuator.cloud.aws.api import AwsApi, AwsCalls, CredentialsError, Reader
from trimtab.actuator.cloud.aws.catalogue import GPU_LABEL, Catalogue, group_options, group_template
from trimtab.actuator.cloud.aws.groups import PLACEHOLDER, AutoScalingGroup, instance_id
from trimtab.actuator.cloud.aws.price_list import PriceList
from trimtab.actuator.cloud.aws.prices import group_price, load_prices, with_own
from trimtab.actuator.cloud.provider import (
    Activity,
    CloudError,
    CloudNodeTemplate,
    CloudRefusedError,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceState,
    NodeGroupView,
    check_decrease,
    check_size,
)
from trimtab.actuator.cloud.table import AwsOptions, AwsSettings, LiveCloud, LiveWiring, Opening
from trimtab.actuator.kube.api import KubeApi

_ACTIVITY_COUNT: Final = 20
# Source: AWS, "Filter your Amazon EC2 resources": more are refused.
_VALUES_PER_FILTER: Final = 200
# Instances that are remembered, of all groups.
_MAX_KEPT: Final = 100_000
# On every instance that a group has launched, and not on those that were detached.
_GROUP_TAG: Final = "aws:autoscaling:groupName"
_FAILURES: Final = ("Failed", "Cancelled")
# Words of activities that failed because AWS has no capacity, or the account no quota.
_SHORTAGES: Final = (
    "InsufficientInstanceCapacity", "do not have sufficient", "UnfulfillableCapacity", "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow", "VcpuLimitExceeded", "InstanceLimitExceeded", "InsufficientFreeAddressesInSubnet",
)  # fmt: skip


class AwsCloud:
    """A `CloudProvider` (see `trimtab.actuator.cloud.provider`)."""

    name = "aws"
    gpu_label = GPU_LABEL

    def __init__(
        self,
        api: AwsCalls,
        settings: AwsSettings,
        reader: Reader | None = None,
        guard: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up; `guard` raises unless this process may change something now. Raises `ValueError`, `OSError`."""
        if not settings.groups and not settings.tags:
            raise ValueError("--cloud aws needs --aws-groups or --aws-tags: the Auto Scaling groups to manage")
        self._api = api
        self._reader = reader or Reader(api)
        self._settings = settings
        self._guard = guard
        self._clock = clock
        self._catalogue = Catalogue(self._reader, settings, clock)
        self._prices = {} if settings.prices is None else load_prices(settings.prices, api.region)
        self._price_list = PriceList(self._reader, api.region, clock) if settings.price_list else None
        self._lock = threading.Lock()
        # By provider id: when its termination was asked for, and whether AWS has accepted it.
        self._asked: dict[str, tuple[float, bool]] = {}
        # Instances that were seen in a group, by provider id.
        self._seen: dict[str, str] = {}

    def refresh(self) -> None:
        """Read the groups again."""
        self._catalogue.forget()

    def node_groups(self) -> Sequence[NodeGroupView]:
        """Return all node groups, sorted by id."""
        return [group.view for group in self._catalogue.groups().values()]

    def groups_of(self, instances: Sequence[str]) -> Mapping[str, str]:
        """Return the node group of each instance that has one."""
        owners = self._catalogue.owners()
        groups = {instance: owners[instance] for instance in instances if instance in owners}
        rest = {instance for instance in instances if instance not in groups and PLACEHOLDER in instance}
        for group in self._catalogue.groups().values() if rest else ():
            groups |= dict.fromkeys(rest.intersection(self._placeholders(group)), group.name)
        return groups

    def instances(self, groups: Sequence[str]) -> Mapping[str, Sequence[Instance]]:
        """Return the instances of each group, sorted by id, and placeholders of those that are missing."""
        known = self._catalogue.groups()
        return {name: self._members(known[name]) if name in known else [] for name in groups}

    def instance_states(self, group: str, instances: Sequence[str]) -> Mapping[str, InstanceState]:
        """Return the state of each instance; one that has left its group is looked for at EC2."""
        scaling_group = self._catalogue.now(group) if group in self._catalogue.groups() else None
        states = {} if scaling_group is None else {member.id: member.state for member in self._members(scaling_group)}
        rest = [instance for instance in instances if instance not in states]
        states |= self._ended(group, rest)
        return {instance: states.get(instance, InstanceState.UNKNOWN) for instance in instances}

    def remember(self, group: str, instances: Sequence[str]) -> None:
        """Note that the group had these instances."""
        with self._lock:
            self._seen |= dict.fromkeys(instances, group)

    def forget(self, group: str, instances: Sequence[str]) -> None:
        """Do nothing: ids of instances are not reused."""

    def delete_instances(self, group: str, instances: Sequence[str]) -> Mapping[str, CloudError]:
        """Terminate instances and lower the target size, one by one."""
        scaling_group = self._catalogue.now(group)
        states = {member.id: member.state for member in self._members(scaling_group)}
        placeholders = set(self._placeholders(scaling_group))
        failed: dict[str, CloudError] = {}
        room = scaling_group.target_size - scaling_group.min_size
        for instance in instances:
            state = states.get(instance)
            if state is InstanceState.DELETING or (state is None and self._had(group, instance)):
                continue
            try:
                if state is None:
                    raise CloudRefusedError(f"Auto Scaling group {group} has no instance {instance}")
                if room < 1:
                    raise CloudRefusedError(f"Auto Scaling group {group} is at its minimum {scaling_group.min_size}")
                if instance in placeholders:
                    self._give_up(group, instance)
                else:
                    self._terminate(instance)
                room -= 1
            except CloudError as error:
                failed[instance] = error
        self._catalogue.forget()
        return failed

    def set_size(self, group: str, expected: int, wanted: int, token: str) -> None:
        """Raise the target size."""
        del token
        scaling_group = self._catalogue.now(group)
        if scaling_group.target_size == wanted:
            return
        check_size(group, scaling_group.target_size, scaling_group.max_size, (expected, wanted))
        self._set_desired(group, wanted)

    def was_set(self, group: str, wanted: int, token: str) -> bool:
        """Return whether the target size is at least the wanted one."""
        del token
        return self._catalogue.now(group).target_size >= wanted

    def decrease_target(self, group: str, expected: int, wanted: int) -> None:
        """Lower the target size, never below the instances that exist: AWS would terminate some of its choice."""
        scaling_group = self._catalogue.now(group)
        if check_decrease(scaling_group.view, scaling_group.staying_count, (expected, wanted)):
            self._check_list(scaling_group)
            self._set_desired(group, wanted)

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return what every new instance has; None = the group cannot be read, which the log tells.

        Raises `CredentialsError`, which says nothing about the group.
        """
        scaling_group = self._catalogue.groups().get(group)
        if scaling_group is None:
            return None
        try:
            return group_template(self._catalogue.types_of(scaling_group), scaling_group.zones, scaling_group.tags)
        except CredentialsError:
            raise
        except (ValueError, CloudRefusedError) as error:
            self._catalogue.report(group, str(error))
            return None

    def price_per_hour(self, group: str) -> float | None:
        """Return the price of the most expensive instance type."""
        scaling_group = self._catalogue.groups().get(group)
        if scaling_group is None or (not self._prices and self._price_list is None):
            return None
        try:
            types = [instance_type.name for instance_type in self._catalogue.types_of(scaling_group)]
            spot = self._catalogue.launches.is_spot(scaling_group)
        except CredentialsError:
            raise
        except (ValueError, CloudRefusedError) as error:
            self._catalogue.report(group, str(error))
            return None
        price = group_price(self._prices, types, spot)
        if price is None and self._price_list is not None:
            price = group_price(with_own(self._price_list.of(types, spot), self._prices), types, spot)
        return price

    def options(self, group: str) -> GroupOptions:
        """Return the options of the group's tags."""
        scaling_group = self._catalogue.groups().get(group)
        try:
            return GroupOptions() if scaling_group is None else group_options(scaling_group.tags)
        except ValueError as error:
            self._catalogue.report(group, str(error))
            return GroupOptions()

    def activities(self, group: str) -> Sequence[Activity]:
        """Return the latest scaling activities, newest first."""
        if group not in self._catalogue.groups():
            return []
        answer = self._reader.read(
            "autoscaling", "describe_scaling_activities", AutoScalingGroupName=group, MaxRecords=_ACTIVITY_COUNT
        )
        return [_activity(group, entry) for entry in answer.get("Activities") or ()]

    def _members(self, group: AutoScalingGroup) -> list[Instance]:
        """Return instances and placeholders, sorted by id."""
        instances = [
            Instance(member.provider_id, self._state(member.provider_id, member.state)) for member in group.members
        ]
        with self._lock:
            self._seen |= {member.provider_id: group.name for member in group.members}
            _shorten(self._seen)
        placeholders = self._placeholders(group)
        if placeholders:
            error = self._latest_failure(group.name)
            instances += [Instance(name, InstanceState.CREATING, error) for name in placeholders]
        return sorted(instances, key=lambda instance: instance.id)

    def _state(self, instance: str, listed: InstanceState) -> InstanceState:
        """Return the state of a listed instance: a list may be older than the termination that AWS has accepted."""
        with self._lock:
            _, accepted = self._asked.get(instance, (0.0, False))
        return InstanceState.DELETING if accepted else listed

    def _latest_failure(self, group: str) -> InstanceError | None:
        """Return the failure of the latest activity; None = it did not fail."""
        latest = next(iter(self.activities(group)), None)
        if latest is None or not latest.failed:
            return None
        shortage = any(word in latest.detail for word in _SHORTAGES)
        return InstanceError("OutOfResources" if shortage else "ScalingActivityFailed", latest.detail, shortage)

    def _ended(self, group: str, instances: Sequence[str]) -> dict[str, InstanceState]:
        """Return states of instances that the group does not list, as far as they are known."""
        ids = {instance_id(instance): instance for instance in instances if self._had(group, instance)}
        given_up = {instance: InstanceState.GONE for name, instance in ids.items() if name.startswith(PLACEHOLDER)}
        ids = {name: instance for name, instance in ids.items() if name and instance not in given_up}
        if not ids:
            return given_up
        names = sorted(ids)
        reservations: list[Any] = []
        for start in range(0, len(names), _VALUES_PER_FILTER):
            some = {"Name": "instance-id", "Values": names[start : start + _VALUES_PER_FILTER]}
            reservations += self._reader.pages("ec2", "describe_instances", "Reservations", Filters=[some])
        at_ec2 = {
            entry["InstanceId"]: entry["State"]["Name"]
            for reservation in reservations
            for entry in reservation.get("Instances") or ()
        }
        # EC2 forgets what has ended an hour ago.
        return given_up | {instance: _ec2_state(at_ec2.get(name, "terminated")) for name, instance in ids.items()}

    def _had(self, group: str, instance: str) -> bool:
        with self._lock:
            return self._seen.get(instance) == group

    def _terminate(self, instance: str) -> None:
        """Terminate one instance. Raises `CloudError` when it may have been done or not."""
        with self._lock:
            asked_s, _ = self._asked.get(instance, (None, False))
        if asked_s is not None and self._clock() - asked_s < self._settings.consistency_s:
            raise CloudError(f"it is not known yet whether {instance} is being terminated")
        self._guard()
        with self._lock:
            self._asked[instance] = (self._clock(), False)
        try:
            self._api.call(
                "autoscaling",
                "terminate_instance_in_auto_scaling_group",
                InstanceId=instance_id(instance),
                ShouldDecrementDesiredCapacity=True,
            )
        except CloudRefusedError:
            with self._lock:
                del self._asked[instance]
            raise
        with self._lock:
            self._asked[instance] = (self._clock(), True)
            _shorten(self._asked)

    def _placeholders(self, group: AutoScalingGroup) -> list[str]:
        """Return the placeholders of a group, without those that were given up a moment ago."""
        until_s = self._clock() - self._settings.consistency_s
        with self._lock:
            return group.placeholders({name for name, (asked_s, _) in self._asked.items() if asked_s > until_s})

    def _give_up(self, group: str, placeholder: str) -> None:
        """Lower the target size by one instance that does not exist."""
        scaling_group = self._catalogue.now(group)
        if scaling_group.target_size > scaling_group.staying_count:
            self._check_list(scaling_group)
            self._set_desired(group, scaling_group.target_size - 1)
        with self._lock:
            self._asked[placeholder] = (self._clock(), True)
            self._seen[placeholder] = group

    def _check_list(self, group: AutoScalingGroup) -> None:
        """Raise `CloudError` if the list of a group lacks instances that EC2 runs for it: a lower target would make AWS
        terminate some. Not with a warm pool, whose instances are no members. Source: AWS, "Tag Auto Scaling groups and
        instances" (the tag), "Eventual consistency in the Amazon EC2 API".
        """
        if group.has_warm_pool:
            return
        filters = [
            {"Name": f"tag:{_GROUP_TAG}", "Values": [group.name]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        reservations = self._reader.pages("ec2", "describe_instances", "Reservations", Filters=filters)
        running = {entry["InstanceId"] for reservation in reservations for entry in reservation.get("Instances") or ()}
        lacking = sorted(running - {member.instance_id for member in group.members})
        if lacking:
            raise CloudError(
                f"Auto Scaling group {group.name}: its list lacks {len(lacking)} instances that run, such as"
                f" {lacking[0]}; its target is not lowered"
            )

    def _set_desired(self, group: str, size: int) -> None:
        self._guard()
        self._api.call(
            "autoscaling",
            "set_desired_capacity",
            AutoScalingGroupName=group,
            DesiredCapacity=size,
            HonorCooldown=False,
        )
        self._catalogue.forget()


def _shorten(kept: dict[str, Any]) -> None:
    """Drop the oldest entries beyond `_MAX_KEPT`."""
    for key in list(kept)[: len(kept) - _MAX_KEPT] if len(kept) > _MAX_KEPT else ():
        del kept[key]


def _ec2_state(state: str) -> InstanceState:
    """Return the state of an instance that has left its group; one that runs outside of it is UNKNOWN."""
    if state == "terminated":
        return InstanceState.GONE
    return InstanceState.DELETING if state == "shutting-down" else InstanceState.UNKNOWN


def _activity(group: str, entry: Mapping[str, Any]) -> Activity:
    start = entry.get("StartTime")
    return Activity(
        id=str(entry["ActivityId"]),
        group=group,
        failed=entry.get("StatusCode") in _FAILURES,
        start_ms=0 if start is None else int(start.timestamp() * 1000),
        detail=str(entry.get("StatusMessage") or entry.get("Description") or ""),
    )


def wire(opening: Opening) -> LiveWiring:
    """Open a session with AWS; no call is made. Raises `CloudError`, `OSError`, `ValueError`."""
    settings = opening.options.of(AwsOptions).settings()
    aws = AwsApi(settings.region, settings.endpoint, has_prices=settings.price_list)

    def build(api: KubeApi, may_act: Callable[[], bool]) -> LiveCloud:
        del may_act
        cloud = AwsCloud(aws, settings, guard=api.http.guard)

        def prepare() -> None:
            # Missing credentials and groups that do not exist are reported at the start.
            cloud.node_groups()

        return LiveCloud(cloud, prepare)

    return LiveWiring((), build)
