"""What AWS says of groups, kept for a while: groups and instance types, and their launches.

Decides when AWS is called. A group that cannot be read is reported once and has no template; the others go on.
Thread-safe. Seconds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from trimtab.actuator.cloud.aws.api import Reader
from trimtab.actuator.cloud.aws.groups import AutoScalingGroup, read_group
from trimtab.actuator.cloud.aws.launches import Launches
from trimtab.actuator.cloud.aws.settings import AwsSettings
from trimtab.actuator.cloud.aws.templates import InstanceType, read_type
from trimtab.actuator.cloud.provider import CloudRefusedError

log = structlog.get_logger("aws")

# Source: AWS, limits of DescribeAutoScalingGroups and DescribeInstanceTypes.
_GROUPS_PER_CALL: Final = 50
_TYPES_PER_CALL: Final = 100


class Catalogue:
    """Groups and what their instances are."""

    def __init__(self, reader: Reader, settings: AwsSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._groups: dict[str, AutoScalingGroup] = {}
        # The group of each instance, by provider id, of these groups; None = not looked up yet.
        self._owners: tuple[Mapping[str, AutoScalingGroup], dict[str, str]] | None = None
        self._read_s: float | None = None
        self.launches = Launches(reader, clock)
        # Instance types never change; None = AWS does not know it.
        self._types: dict[str, InstanceType | None] = {}
        self._reported: set[str] = set()

    def forget(self) -> None:
        """Read the groups again when they are next asked for, and the latest versions of launch templates."""
        with self._lock:
            self._read_s = None
        self.launches.forget()

    def groups(self) -> Mapping[str, AutoScalingGroup]:
        """Return all groups, by name. Raises `CloudError`."""
        with self._lock:
            now_s = self._clock()
            if self._read_s is None or now_s - self._read_s >= self._settings.max_age_s:
                groups = [read_group(entry) for entry in self._entries()]
                self._groups = {group.name: group for group in sorted(groups, key=lambda group: group.name)}
                self._read_s = now_s
                for missing in sorted(set(self._settings.groups) - self._groups.keys()):
                    self.report(missing, "AWS has no such Auto Scaling group, or it lacks a tag from --aws-tags")
            return self._groups

    def owners(self) -> Mapping[str, str]:
        """Return the group of each instance of all groups, by provider id. Raises `CloudError`."""
        with self._lock:
            groups = self.groups()
            if self._owners is None or self._owners[0] is not groups:
                found = {member.provider_id: group.name for group in groups.values() for member in group.members}
                self._owners = groups, found
            return self._owners[1]

    def now(self, name: str) -> AutoScalingGroup:
        """Return a group as it is now. Raises `CloudRefusedError` when it is not a selected one, `CloudError`."""
        if name in self.groups():
            entries = self._reader.pages(
                "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[name]
            )
            if entries:
                group = read_group(entries[0])
                with self._lock:
                    self._groups = {**self._groups, name: group}
                return group
        raise CloudRefusedError(f"Auto Scaling group {name} does not exist or is not managed")

    def types_of(self, group: AutoScalingGroup) -> list[InstanceType]:
        """Return the instance types of a group. Raises `ValueError` when they are not known, `CloudError`."""
        names = self.launches.types_of(group)
        self._read_types(names)
        with self._lock:
            unknown = [name for name in names if self._types.get(name) is None]
            if unknown:
                raise ValueError(f"AWS does not know the instance type {', '.join(unknown)}")
            return [one for name in names if (one := self._types[name]) is not None]

    def report(self, group: str, problem: str) -> None:
        """Log a problem of a group, once."""
        with self._lock:
            if f"{group}: {problem}" in self._reported:
                return
            self._reported.add(f"{group}: {problem}")
        log.warning("group can be used only in part", node_group=group, detail=problem)

    def _entries(self) -> list[Any]:
        """Return the entries of the groups to act on."""
        filters = [
            {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}
            for key, value in sorted(self._settings.tags.items())
        ]
        tagged: dict[str, Any] = {"Filters": filters} if filters else {}
        names = list(self._settings.groups)
        entries: list[Any] = []
        for start in range(0, max(1, len(names)), _GROUPS_PER_CALL):
            some = names[start : start + _GROUPS_PER_CALL]
            wanted = {"AutoScalingGroupNames": some} if some else {}
            entries += self._reader.pages(
                "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", **wanted, **tagged
            )
        return [entry for entry in entries if not entry.get("Status")]

    def _read_types(self, names: Sequence[str]) -> None:
        """Read the types that are not known yet; one that AWS does not know spoils no other."""
        with self._lock:
            missing = sorted(set(names) - self._types.keys())
        for start in range(0, len(missing), _TYPES_PER_CALL):
            some = missing[start : start + _TYPES_PER_CALL]
            # A filter, unlike a list of types, does not refuse names that do not exist.
            entries = self._reader.pages(
                "ec2",
                "describe_instance_types",
                "InstanceTypes",
                Filters=[{"Name": "instance-type", "Values": some}],
            )
            types = {instance_type.name: instance_type for instance_type in map(read_type, entries)}
            with self._lock:
                self._types.update({name: types.get(name) for name in some})
