"""The data that the Cluster Autoscaler reads of the cloud, in memory. Decides when the cloud is called: at the caller's
`Refresh`, after changes by this process, and when the data are older than `MAX_AGE_S`. Templates, prices and options
are read once between two refreshes, and answers about options are encoded once. Thread-safe. Seconds.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import structlog

from trimtab.actuator.cloud.provider import CloudNodeTemplate, CloudProvider, GroupOptions, Instance, NodeGroupView
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.service.group_views import CHANGES
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.admission import DeletionLimits, GroupSizeFacts, hourly_limit
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.kubernetes.pod_requests import requests_of_mapping
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.k8s.v1 import core_pb2

log = structlog.get_logger("externalgrpc")

T = TypeVar("T")

MAX_AGE_S: Final = 10.0
MOST_ANSWERS: Final = 10_000
"""Most answers that are kept: one for each group, and for each set of defaults that the caller sends."""


class CloudState(NamedTuple):
    """Groups and their instances at one moment, by id of the group; the group of each provider id."""

    groups: Mapping[str, NodeGroupView]
    instances: Mapping[str, tuple[Instance, ...]]
    group_of: Mapping[str, str]


class CachedState(NamedTuple):
    """A state. read_s : when it was read, steady seconds; changes : their number before."""

    state: CloudState
    read_s: float
    changes: int


class CloudCache:
    """The cloud as last read."""

    def __init__(
        self,
        cloud: CloudProvider,
        offered: Callable[[str, CloudNodeTemplate], CloudNodeTemplate],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up. `offered` turns a group's template in the cloud into the resources of its real nodes."""
        self._cloud = cloud
        self._offered = offered
        self._clock = clock
        self._changes = 0
        self._cached: CachedState | None = None
        self._reading = threading.Lock()
        self._templates: dict[str, CloudNodeTemplate | None] = {}
        self._prices: dict[str, float | None] = {}
        self._options: dict[str, GroupOptions] = {}
        # Encoded answers about options, by group and the caller's defaults.
        self._answers: dict[tuple[str, bytes], bytes] = {}

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Count events that change the cloud's answer."""
        del tracker, now_ms
        if isinstance(event, CHANGES):
            self.changed()

    def changed(self) -> None:
        """Read the groups again when they are next asked for."""
        self._changes += 1

    def refresh(self) -> None:
        """Read everything again. Raises `CloudError`."""
        self._cloud.refresh()
        self._templates, self._prices, self._options, self._answers = {}, {}, {}, {}
        self.changed()
        self.state()

    def state(self) -> CloudState:
        """Return groups and instances. Raises `CloudError`."""
        cached = self._cached
        if cached is not None and self._is_fresh(cached):
            return cached.state
        with self._reading:
            # Another call may have read it meanwhile.
            if self._cached is None or not self._is_fresh(self._cached):
                self._cached = self._read()
            return self._cached.state

    def template(self, group: str) -> CloudNodeTemplate | None:
        """Return a new node of a group; None = not known. Raises `CloudError`."""
        template = _once(self._templates, group, self._cloud.template, None)
        return None if template is None else self._offered(group, template)

    def price_per_hour(self, group: str) -> float | None:
        """Return the price of a node; None = not known. Raises `CloudError`."""
        return _once(self._prices, group, self._cloud.price_per_hour, None)

    def options(self, group: str) -> GroupOptions:
        """Return the options of a group; none if they cannot be read. Raises `CloudError`."""
        return _once(self._options, group, self._cloud.options, GroupOptions())

    def options_answer(self, group: str, defaults: bytes, encode: Callable[[GroupOptions], bytes]) -> bytes:
        """Return the answer about a group's options for a caller with these defaults; `encode` makes it. Raises
        `CloudError`.
        """
        # A refresh that comes in between replaces it: an old answer is not kept beyond that.
        answers = self._answers
        answer = answers.get((group, defaults))
        if answer is None:
            answer = encode(self.options(group))
            if len(answers) < MOST_ANSWERS:
                answers[group, defaults] = answer
        return answer

    def _is_fresh(self, cached: CachedState) -> bool:
        return cached.changes == self._changes and self._clock() - cached.read_s < MAX_AGE_S

    def _read(self) -> CachedState:
        changes, read_s = self._changes, self._clock()
        groups = {group.id: group for group in self._cloud.node_groups()}
        instances = {group: tuple(members) for group, members in self._cloud.instances(list(groups)).items()}
        group_of = {member.id: group for group, members in instances.items() for member in members}
        return CachedState(CloudState(groups, instances, group_of), read_s, changes)


def _once(cached: dict[str, T], group: str, read: Callable[[str], T], unreadable: T) -> T:
    """Return the cached value of a group; read it the first time. If it cannot be read, that is logged, and the value
    is `unreadable`: one wrong annotation must not fail the caller's loop for all groups.
    """
    if group not in cached:
        try:
            cached[group] = read(group)
        except ValueError as error:
            log.warning("group_not_read", node_group=group, detail=str(error))
            cached[group] = unreadable
    return cached[group]


class _BoundedGroups(NamedTuple):
    """Groups as read from the cloud, the limits and the revision for which they were bounded, and the result."""

    groups: Mapping[str, NodeGroupView]
    limits: DeletionLimits
    revision: int
    bounded: Mapping[str, NodeGroupView]


class DeletionRoom:
    """How many nodes a Cluster Autoscaler may still have deleted within the hour, as it learns before it drains them.

    The protocol has no answer for "not now" before the drain: `NodeGroupDeleteNodes` comes after it. But the caller
    never removes a node of a group at its minimum size, and asks for that before it taints. So while the limit per hour
    leaves less room, groups are answered with a minimum that leaves as much. What is ordered is still checked when it
    is ordered. Source: CA, scaledown/planner: `NodeGroupMinSizeReached`; its external provider keeps minimums until its
    next `Refresh`.
    """

    def __init__(self, processor: EventProcessor, limits: Callable[[], DeletionLimits]) -> None:
        """Set up; `limits` returns the limits that the access policy currently sets."""
        self._processor = processor
        self._limits = limits
        # The last answer, and what it was made of: a loop of the caller asks for the group of each node.
        self._answer: _BoundedGroups | None = None

    def bounded(self, groups: Mapping[str, NodeGroupView]) -> Mapping[str, NodeGroupView]:
        """Return groups, which the caller must not change, with the minimums to answer with; the same ones if there is
        no limit. Raises `StoreError`.
        """
        limits, revision, answer = self._limits(), self._processor.revision, self._answer
        if limits.max_nodes_per_hour is None and limits.max_share_per_hour is None:
            return groups
        if answer is None or answer.groups is not groups or (answer.limits, answer.revision) != (limits, revision):
            self._answer = answer = _BoundedGroups(groups, limits, revision, self._made(groups, limits))
        return answer.bounded

    def _made(self, groups: Mapping[str, NodeGroupView], limits: DeletionLimits) -> Mapping[str, NodeGroupView]:
        facts = {name: GroupSizeFacts(group.min_size, group.target_size) for name, group in groups.items()}

        def look(tracker: Tracker, now_ms: int) -> int | None:
            return hourly_limit(tracker.data, facts, limits, now_ms).left

        left = self._processor.read(look)
        if left is None:
            return groups
        return {
            name: group._replace(min_size=max(group.min_size, min(group.target_size - left, group.max_size)))
            for name, group in groups.items()
        }


def pod_price(pod: core_pb2.Pod, groups: Iterable[tuple[CloudNodeTemplate, float]]) -> float | None:
    """Return the least price for one hour of the share of a node that a pod takes, the largest over its resources;
    None = no node has room for it. Raises ValueError if an amount cannot be read.
    """
    requests = requests_of_mapping(_spec(pod))
    prices = [price * share for template, price in groups if (share := _share(requests, template.allocatable)) <= 1]
    return min(prices, default=None)


def _share(requests: Mapping[str, int], allocatable: Mapping[str, str]) -> float:
    """Return the share of a node that the requests take; more than 1 = they do not fit."""
    share = 0.0
    for resource, wanted in requests.items():
        given = counted_amount(resource, allocatable.get(resource, "0"))
        if wanted > given:
            return 2.0
        share = max(share, wanted / given if given else 0.0)
    return share


def _spec(pod: core_pb2.Pod) -> dict[str, object]:
    """Return the parts of a pod's spec that determine its requests, as an object."""
    spec = pod.spec
    found: dict[str, object] = {
        "containers": [_container(container) for container in spec.containers],
        "initContainers": [_container(container) for container in spec.init_containers],
        "overhead": {entry.key: entry.value.string for entry in spec.overhead},
    }
    if spec.HasField("resources"):
        found["resources"] = _resources(spec.resources)
    return found


def _container(container: core_pb2.Container) -> dict[str, object]:
    return {"resources": _resources(container.resources), "restartPolicy": container.restart_policy}


def _resources(resources: core_pb2.ResourceRequirements) -> dict[str, dict[str, str]]:
    return {
        "requests": {entry.key: entry.value.string for entry in resources.requests},
        "limits": {entry.key: entry.value.string for entry in resources.limits},
    }
