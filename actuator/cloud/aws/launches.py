"""What the instances of a group are launched as: launch templates, launch configurations, types chosen by attributes.

Decides what AWS is asked, and for how long its answer holds: what never changes is read once, the latest version of a
launch template again after `forget`, the types that have certain attributes again after an hour. Thread-safe. Seconds.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trimtab.actuator.cloud.aws.api import Reader
from trimtab.actuator.cloud.aws.groups import AutoScalingGroup

# AWS adds instance types every few weeks.
MATCHING_AGE_S: Final = 3600.0


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
