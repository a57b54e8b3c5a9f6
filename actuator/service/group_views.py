"""The cloud's node groups for the status: their sizes, instances and configuration, and when they last grew, shrank,
or failed to do so, as far back as the tracker's data go.

Decides when the cloud is called: a status is read often, and must neither wait for the cloud each time nor load it.
Changes by this process are always included; changes by others appear a little later. Admission never uses these views.
A group whose configuration cannot be read keeps what was read before, and does not affect the others.

Decides how long a group is backed off after a failed growth: 5 min, doubled after each further failure, at most 30 min.
A growth that the cloud accepts ends the series, and so does the end of the records. If back-offs end by time, a cloud
activity that fails after the growth was accepted, or a node that does not join, also backs off the group; these
back-offs double until there was none for three hours. Otherwise the group waits for its one node, however long. A
refusal because the size had changed meanwhile is not a failure of the group.
Durations in seconds, times Unix milliseconds (0 = not, or longer ago than the data).
Source: Cluster Autoscaler, `--initial-node-group-backoff-duration`, `--max-node-group-backoff-duration`.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudNodeTemplate, CloudProvider, GroupOptions, NodeGroupView
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import GrowthAnswer, State, TrackerData
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.kubernetes.pod_requests import amounts
from trimtab.v1 import actuator_pb2, reason_pb2

log = structlog.get_logger("groups")

# Templates are kept this many times longer than sizes: configurations change seldom, and cost a call per group.
DETAIL_AGES = 12

# Events that change the cloud's answer.
CHANGES = (e.DeleteAccepted, e.InstanceGone, e.GrowthAnswered)

FIRST_BACKOFF_MS: Final = 300_000
LONGEST_BACKOFF_MS: Final = 1_800_000
_FAILURES: Final = (reason_pb2.GrowthReason.REFUSED, reason_pb2.GrowthReason.NOT_CARRIED_OUT)


class _CachedDetails(NamedTuple):
    """The fields of a group."""

    fields: actuator_pb2.NodeGroupStatus
    # When they were read, steady seconds.
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
            unread = _CachedDetails(actuator_pb2.NodeGroupStatus(), now_s)
            return unread if cached is None else cached._replace(read_s=now_s)


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


class CachedGroups(NamedTuple):
    """An answer of the cloud."""

    views: Sequence[NodeGroupView]
    # Time of the call, steady seconds, and the number of changes before it.
    asked_s: float
    changes: int
    # All that is configured, by group.
    details: Mapping[str, actuator_pb2.NodeGroupStatus]
    # Provider ids by group, sorted; None = not asked for.
    instances: Mapping[str, Sequence[str]] | None = None
    # Groups whose templates have the amounts of machines, not of nodes.
    templates: Mapping[str, CloudNodeTemplate] = {}


class GroupViews:
    """Node groups, at most `max_age_s` old; 0 = the cloud is called each time. Thread-safe."""

    def __init__(self, cloud: CloudProvider, max_age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cloud = cloud
        self._max_age_s = max_age_s
        self._clock = clock
        self._details = GroupDetails(cloud, max_age_s * DETAIL_AGES, clock)
        self._changes = 0
        self._cached: CachedGroups | None = None
        self._asking = threading.Lock()

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Count events that change the groups."""
        del tracker, now_ms
        if isinstance(event, CHANGES):
            self._changes += 1

    def get(self, with_instances: bool = False) -> CachedGroups:
        """Return the groups, sorted by id. Raises `CloudError`."""
        cached = self._known()
        if with_instances and cached.instances is None:
            instances = self._cloud.instances([view.id for view in cached.views])
            cached = cached._replace(
                instances={group: [member.id for member in members] for group, members in instances.items()}
            )
            self._cached = cached
        return cached

    def _known(self) -> CachedGroups:
        cached = self._cached
        age_s = None if cached is None else self._clock() - cached.asked_s
        if cached is None or age_s is None or cached.changes != self._changes or age_s >= self._max_age_s:
            return self._ask()
        if age_s > self._max_age_s / 2 and self._asking.acquire(blocking=False):
            # Started early enough for later callers.
            threading.Thread(target=self._refresh, name="groups", daemon=True).start()
        return cached

    def _ask(self) -> CachedGroups:
        changes, asked_s = self._changes, self._clock()
        views = self._cloud.node_groups()
        details = self._details.get(view.id for view in views)
        cached = CachedGroups(views, asked_s, changes, details, templates=self._details.of_machines())
        self._cached = cached
        return cached

    def _refresh(self) -> None:
        try:
            self._ask()
        except CloudError as error:
            log.info("node groups not read in advance", detail=str(error))
        finally:
            self._asking.release()


@dataclass
class GroupTimes:
    """Last times of one node group."""

    scale_up_ms: int = 0  # of the last growth that the cloud accepted
    deletion_ms: int = 0  # start of the last deletion
    failure_ms: int = 0  # end of the last deletion that failed
    backoff_until_ms: int = 0
    refusal: str = ""  # the cloud's text for the last failed growth
    waits: bool = False  # backed off until a node joins
    _failed_growths: int = 0
    _failed_activities: int = 0

    def note_growth(self, answer: GrowthAnswer, at_ms: int) -> None:
        """Take the result of a growth into account; call in order of time."""
        if answer.accepted:
            self.scale_up_ms = max(self.scale_up_ms, at_ms)
            self.backoff_until_ms = self._failed_growths = 0
            self.refusal = ""
        elif answer.reason in _FAILURES:
            self.backoff_until_ms = at_ms + min(FIRST_BACKOFF_MS << min(self._failed_growths, 10), LONGEST_BACKOFF_MS)
            self._failed_growths += 1
            self.refusal = answer.detail

    def note_failure(self, detail: str, at_ms: int) -> None:
        """Take a failed activity into account; call in order of time, after all growths. Of failures during a back-off
        only the text counts: they belong to the same growth.
        """
        self.refusal = detail
        if at_ms >= self.backoff_until_ms:
            pause_ms = min(FIRST_BACKOFF_MS << min(self._failed_activities, 10), LONGEST_BACKOFF_MS)
            self.backoff_until_ms = at_ms + pause_ms
            self._failed_activities += 1


def group_times(data: TrackerData) -> dict[str, GroupTimes]:
    """Return the last times by node group. A cancelled deletion began, but did not fail."""
    times: dict[str, GroupTimes] = {}
    for record in sorted(data.growths.values(), key=lambda growth: (growth.time_ms, growth.request_id)):
        for answer in record.grown:
            times.setdefault(answer.node_group, GroupTimes()).note_growth(answer, record.time_ms)
    for group, failures in data.group_failures.items():
        for failure in failures:
            if failure.timed:
                times.setdefault(group, GroupTimes()).note_failure(failure.detail, failure.time_ms)
    for group, backoff in data.backoffs.items():
        group_time = times.setdefault(group, GroupTimes())
        group_time.waits, group_time.refusal = True, backoff.detail
    for deletion in (*data.deletions.values(), *data.finished):
        group_time = times.setdefault(deletion.node_group, GroupTimes())
        group_time.deletion_ms = max(group_time.deletion_ms, deletion.start_ms)
        if deletion.state is State.FAILED:
            group_time.failure_ms = max(group_time.failure_ms, deletion.state_ms)
    return times
