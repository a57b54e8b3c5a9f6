"""The cloud's configuration of node groups, for the status: template, price, settings. Decides how often the cloud is
read. A group whose configuration cannot be read keeps what was read before, and does not affect the others. Durations
in seconds. Thread-safe.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudNodeTemplate, CloudProvider, GroupOptions
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.v1 import actuator_pb2

log = structlog.get_logger("groups")


class _CachedDetails(NamedTuple):
    """The fields of a group. read_s : when they were read, steady seconds."""

    fields: actuator_pb2.NodeGroupStatus
    read_s: float
    # The template, if its amounts are those of machines and not of nodes.
    template: CloudNodeTemplate | None = None


class GroupDetails:
    """The configuration of groups, at most `max_age_s` old; 0 = the cloud is called each time."""

    def __init__(self, cloud: CloudProvider, max_age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cloud = cloud
        self._max_age_s = max_age_s
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: dict[str, _CachedDetails] = {}

    def get(self, groups: Iterable[str]) -> Mapping[str, actuator_pb2.NodeGroupStatus]:
        """Return the fields of groups, to be merged into their status."""
        with self._lock:
            self._cached = {group: self._fields(group) for group in groups}
            return {group: cached.fields for group, cached in self._cached.items()}

    def of_machines(self) -> Mapping[str, CloudNodeTemplate]:
        """Return the templates, as last returned, whose amounts are those of machines and not of nodes."""
        with self._lock:
            return {group: cached.template for group, cached in self._cached.items() if cached.template is not None}

    def _fields(self, group: str) -> _CachedDetails:
        cached, now_s = self._cached.get(group), self._clock()
        if cached is not None and now_s - cached.read_s < self._max_age_s:
            return cached
        try:
            return _read(self._cloud, group, now_s)
        except (CloudError, ValueError) as error:
            log.warning("group_not_read", node_group=group, detail=str(error))
            return (
                _CachedDetails(actuator_pb2.NodeGroupStatus(), now_s)
                if cached is None
                else cached._replace(read_s=now_s)
            )


def _read(cloud: CloudProvider, group: str, now_s: float) -> _CachedDetails:
    """Return the fields as the cloud has them now. Raises `CloudError`, `ValueError`."""
    options = cloud.options(group)
    fields = actuator_pb2.NodeGroupStatus(price_per_hour=cloud.price_per_hour(group), zero_or_max=options.zero_or_max)
    template = cloud.template(group)
    if template is not None:
        _check_amounts(template)
        fields.template.CopyFrom(template_message(template))
    _add_settings(fields, options)
    return _CachedDetails(fields, now_s, template if template is not None and template.machines else None)


def _check_amounts(template: CloudNodeTemplate) -> None:
    """Raise `ValueError` naming an amount that is negative or not a quantity, which would make the whole snapshot
    unusable.
    """
    for amounts_of in (template.capacity, template.allocatable):
        try:
            amounts(dict(amounts_of))
        except ValueError as error:
            raise ValueError(f"the template's {error}") from error


def template_message(template: CloudNodeTemplate) -> actuator_pb2.CloudTemplate:
    """Return a template as message."""
    return actuator_pb2.CloudTemplate(
        labels=template.labels,
        taints=[actuator_pb2.CloudTaint(key=key, value=value, effect=effect) for key, value, effect in template.taints],
        capacity=template.capacity,
        allocatable=template.allocatable,
    )


def _add_settings(fields: actuator_pb2.NodeGroupStatus, options: GroupOptions) -> None:
    """Copy the options that are set."""
    settings = fields.settings
    for name, value in (
        ("utilization_threshold", options.scale_down_utilization_threshold),
        ("gpu_utilization_threshold", options.scale_down_gpu_utilization_threshold),
        ("ignore_daemonsets_utilization", options.ignore_daemon_sets_utilization),
        ("job_pods_unmovable", options.job_pods_unmovable),
    ):
        if value is not None:
            setattr(settings, name, value)
    for duration, seconds in (
        (settings.unneeded_time, options.scale_down_unneeded_s),
        (settings.unready_time, options.scale_down_unready_s),
    ):
        if seconds is not None:
            duration.FromMilliseconds(int(seconds * 1000))
            duration.SetInParent()
