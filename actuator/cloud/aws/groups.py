"""Auto Scaling groups as values.

Decides which instances of a group exist, and their state: those of warm pools are none of the cluster's, and one that
waits for a lifecycle hook does not run yet. Source: AWS, "Amazon EC2 Auto Scaling instance lifecycle".
"""

import json
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count, islice
from typing import Any, Final, NamedTuple

from trimtab.actuator.cloud.aws.api import Reader
from trimtab.actuator.cloud.provider import InstanceState, NodeGroupView

PLACEHOLDER: Final = "i-placeholder-"
_WARM: Final = "Warmed:"

# AWS adds instance types every few weeks.
MATCHING_AGE_S: Final = 3600.0


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


class Launch(NamedTuple):
    """How instances are launched. instance_type : "" = by requirements; requirements : attributes of types; image :
    "" = not given; spot : none is on demand.
    """

    instance_type: str = ""
    requirements: Mapping[str, Any] = {}
    image: str = ""
    spot: bool = False


class Launches:
    """Launches of groups, by the calls of AWS."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        # Held while AWS is asked: what several threads need is asked for once.
        self._lock = threading.RLock()
        # By identity and version of a launch template; by name of a launch configuration.
        self._templates: dict[tuple[str, str], Launch] = {}
        self._configurations: dict[str, Launch] = {}
        self._architectures: dict[str, str] = {}
        # By attributes: when the types were read, and their names.
        self._matching: dict[str, tuple[float, tuple[str, ...]]] = {}

    def forget(self) -> None:
        """Read the latest and default versions of launch templates again when they are next asked for."""
        with self._lock:
            self._templates = {key: template for key, template in self._templates.items() if key[1].isdigit()}

    def types_of(self, group: AutoScalingGroup) -> Sequence[str]:
        """Return the names of a group's instance types, sorted. Raises `ValueError` when they are not known,
        `CloudError`.
        """
        with self._lock:
            if not group.choices:
                if group.types:
                    return group.types
                launch = self._launch(group)
                return (launch.instance_type,) if launch.instance_type else self._with(launch.requirements, launch)
            types = set(group.types)
            for choice in group.choices:
                types.update(self._with(choice.requirements, self._template(choice.launch or group.launch)))
            return sorted(types)

    def is_spot(self, group: AutoScalingGroup) -> bool:
        """Return whether all instances of a group are spot. Raises as `types_of`."""
        with self._lock:
            return group.spot or (not group.types and not group.choices and self._launch(group).spot)

    def _launch(self, group: AutoScalingGroup) -> Launch:
        """Return the launch of a group that has one alone, of a type or attributes. Raises `ValueError`."""
        if group.configuration:
            launch, name = self._configuration(group.configuration), f"its launch configuration {group.configuration}"
        else:
            identity, version = _identity(group.launch)
            launch, name = self._template(group.launch), f"version {version} of its launch template {identity}"
        if not launch.instance_type and not launch.requirements:
            raise ValueError(f"{name} has no instance type")
        return launch

    def _configuration(self, name: str) -> Launch:
        if name not in self._configurations:
            answer = self._reader.read("autoscaling", "describe_launch_configurations", LaunchConfigurationNames=[name])
            entries: Sequence[Mapping[str, Any]] = answer.get("LaunchConfigurations") or ()
            if not entries:
                raise ValueError(f"AWS has no launch configuration {name}")
            entry = entries[0]
            kind, image = str(entry.get("InstanceType") or ""), str(entry.get("ImageId") or "")
            self._configurations[name] = Launch(kind, {}, image, bool(entry.get("SpotPrice")))
        return self._configurations[name]

    def _template(self, specification: Mapping[str, Any]) -> Launch:
        """Return the launch that a version of a launch template describes. Raises `ValueError` without one."""
        key = identity, version = _identity(specification)
        if key not in self._templates:
            name = "LaunchTemplateId" if specification.get("LaunchTemplateId") else "LaunchTemplateName"
            answer = self._reader.read(
                "ec2", "describe_launch_template_versions", Versions=[version], **{name: identity}
            )
            versions: Sequence[Mapping[str, Any]] = answer.get("LaunchTemplateVersions") or ()
            self._templates[key] = _read_launch(versions[0].get("LaunchTemplateData") or {} if versions else {})
        return self._templates[key]

    def _with(self, requirements: Mapping[str, Any], launch: Launch) -> tuple[str, ...]:
        """Return the names of the types that have attributes, for the image of a launch. Raises `ValueError`."""
        architecture = self._architecture(launch)
        key = json.dumps([architecture, requirements], sort_keys=True, default=str)
        read_s, names = self._matching.get(key, (0.0, ()))
        if not names or self._clock() - read_s > MATCHING_AGE_S:
            entries = self._reader.pages(
                "ec2",
                "get_instance_types_from_instance_requirements",
                "InstanceTypes",
                ArchitectureTypes=[architecture],
                VirtualizationTypes=["hvm"],
                InstanceRequirements=dict(requirements),
            )
            names = tuple(sorted(entry["InstanceType"] for entry in entries))
            if not names:
                raise ValueError("no instance type has the required attributes (InstanceRequirements)")
            self._matching[key] = self._clock(), names
        return names

    def _architecture(self, launch: Launch) -> str:
        """Return the architecture of a launch's image: types of others cannot start it. Raises `ValueError`."""
        image = launch.image
        if not image.startswith("ami-"):
            raise ValueError(
                "its instance types are chosen by attributes, and its launch template does not name its image by id"
                f" but {image!r}: give the image's id, or list the types instead"
            )
        if image not in self._architectures:
            answer = self._reader.read("ec2", "describe_images", ImageIds=[image])
            images: Sequence[Mapping[str, Any]] = answer.get("Images") or ()
            if not images or not images[0].get("Architecture"):
                raise ValueError(f"AWS has no image {image}, which its launch template names")
            self._architectures[image] = str(images[0]["Architecture"])
        return self._architectures[image]


def _identity(specification: Mapping[str, Any]) -> tuple[str, str]:
    """Return id or name of a launch template, and the version. Raises `ValueError` without one."""
    identity = specification.get("LaunchTemplateId") or specification.get("LaunchTemplateName")
    if not identity:
        raise ValueError("it has neither a launch template nor a launch configuration")
    return str(identity), str(specification.get("Version") or "$Default")


def _read_launch(data: Mapping[str, Any]) -> Launch:
    market = data.get("InstanceMarketOptions") or {}
    return Launch(
        instance_type=str(data.get("InstanceType") or ""),
        requirements=data.get("InstanceRequirements") or {},
        image=str(data.get("ImageId") or ""),
        spot=market.get("MarketType") == "spot",
    )
