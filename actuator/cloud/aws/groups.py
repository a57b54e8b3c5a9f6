"""Auto Scaling groups as values.

Decides which instances of a group exist, and their state: those of warm pools are none of the cluster's, and one that
waits for a lifecycle hook does not run yet. Source: AWS, "Amazon EC2 Auto Scaling instance lifecycle".
"""

from collections.abc import Container, Mapping
from itertools import count, islice
from typing import Any, Final, NamedTuple

from trimtab.actuator.cloud.provider import InstanceState, NodeGroupView

PLACEHOLDER: Final = "i-placeholder-"
_WARM: Final = "Warmed:"


class Member(NamedTuple):
    """An instance of a group. `instance_id` : at EC2, such as "i-0a"; `provider_id` : as its node names it. `state` :
    EC2's and the group's view of it together.
    """

    instance_id: str
    provider_id: str
    state: InstanceState


class InstanceChoice(NamedTuple):
    """Instance types by attributes. `requirements` : as AWS has them; `launch` : the launch template of those, if it is
    not that of the group.
    """

    requirements: Mapping[str, Any]
    launch: Mapping[str, Any]


class AutoScalingGroup(NamedTuple):
    """An Auto Scaling group. Sizes in nodes; `target_size` : its desired capacity; `zones` : where it may start
    instances; `launch` : the launch template that counts; `types` : the instance types that replace its own. `name` :
    unique in the region; `min_size`, `max_size` : its bounds; `members` : its instances; `tags` : by key.
    """

    name: str
    min_size: int
    max_size: int
    target_size: int
    zones: tuple[str, ...]
    members: tuple[Member, ...]
    tags: Mapping[str, str]
    launch: Mapping[str, Any]
    types: tuple[str, ...]
    # Whether its policy leaves no instance on demand.
    spot: bool
    # Name of its launch configuration, "" = none; and the attributes by which AWS chooses instance types.
    configuration: str = ""
    choices: tuple[InstanceChoice, ...] = ()
    # Whether some of its instances may wait outside of it.
    has_warm_pool: bool = False

    @property
    def view(self) -> NodeGroupView:
        """Return the sizes."""
        return NodeGroupView(self.name, self.min_size, self.max_size, self.target_size, len(self.members))

    @property
    def staying_count(self) -> int:
        """Return the number of instances that are not being deleted."""
        return sum(member.state is not InstanceState.DELETING for member in self.members)

    def placeholders(self, used: Container[str]) -> list[str]:
        """Return provider ids that stand for instances which are wanted, and do not exist; none that was `used`."""
        start = f"aws:///{self.zones[0] if self.zones else ''}/{PLACEHOLDER}{self.name}-"
        missing = max(0, self.target_size - self.staying_count)
        names = (f"{start}{number}" for number in count())
        return list(islice((name for name in names if name not in used), missing))


def read_group(entry: Mapping[str, Any]) -> AutoScalingGroup:
    """Return the group of an entry of `DescribeAutoScalingGroups`."""
    policy = entry.get("MixedInstancesPolicy") or {}
    mixed = policy.get("LaunchTemplate") or {}
    overrides = mixed.get("Overrides") or []
    return AutoScalingGroup(
        name=entry["AutoScalingGroupName"],
        min_size=entry["MinSize"],
        max_size=entry["MaxSize"],
        target_size=entry["DesiredCapacity"],
        zones=tuple(sorted(entry.get("AvailabilityZones") or ())),
        members=tuple(sorted(_members(entry))),
        tags={tag["Key"]: tag.get("Value") or "" for tag in entry.get("Tags") or ()},
        launch=mixed.get("LaunchTemplateSpecification") or entry.get("LaunchTemplate") or {},
        types=tuple(sorted({override["InstanceType"] for override in overrides if override.get("InstanceType")})),
        spot=_is_spot(policy),
        configuration=entry.get("LaunchConfigurationName") or "",
        choices=tuple(
            InstanceChoice(override["InstanceRequirements"], override.get("LaunchTemplateSpecification") or {})
            for override in overrides
            if override.get("InstanceRequirements")
        ),
        has_warm_pool="WarmPoolConfiguration" in entry,
    )


def instance_id(provider_id: str) -> str:
    """Return the id at EC2 of a provider id; "" = it is none of AWS."""
    if not provider_id.startswith("aws:///"):
        return ""
    found = provider_id.rpartition("/")[2]
    return found if found.startswith("i-") else ""


def _members(entry: Mapping[str, Any]) -> list[Member]:
    found = []
    for instance in entry.get("Instances") or ():
        state = str(instance.get("LifecycleState") or "")
        if state.startswith(_WARM):
            continue
        provider_id = f"aws:///{instance['AvailabilityZone']}/{instance['InstanceId']}"
        found.append(Member(instance["InstanceId"], provider_id, _state(state)))
    return found


def _state(lifecycle: str) -> InstanceState:
    if lifecycle.startswith("Pending"):
        return InstanceState.CREATING
    if lifecycle.startswith(("Terminat", "Detach")):
        return InstanceState.DELETING
    return InstanceState.RUNNING


def _is_spot(policy: Mapping[str, Any]) -> bool:
    """Return whether a policy leaves no instance on demand."""
    distribution = policy.get("InstancesDistribution") or {}
    base = distribution.get("OnDemandBaseCapacity") or 0
    share = distribution.get("OnDemandPercentageAboveBaseCapacity", 100)
    return bool(policy) and not base and share == 0
