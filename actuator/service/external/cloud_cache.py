"""The data that the Cluster Autoscaler reads of the cloud, in memory. Decides when the cloud is called: at the caller's
`Refresh`, after changes by this process, and when the data are older than `MAX_AGE_S`. Templates, prices and options
are read once between two refreshes, and answers about options are encoded once. Thread-safe. Seconds.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import structlog

from trimtab.actuator.cloud.provider import CloudNodeTemplate, CloudProvider, GroupOptions, Instance, NodeGroupView
from trimtab.actuator.service.group_views import CHANGES
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.tracker import Tracker

log = structlog.get_logger("externalgrpc")

T = TypeVar("T")

MAX_AGE_S: Final = 10.0
MOST_ANSWERS: Final = 10_000
"""Most answers that are kept: one for each group, and for each set of defaults that the caller sends."""


class CloudState(NamedTuple):
    """Groups and their instances at one moment, by group; group_of : the group of each provider id. groups, instances :
    by id of the group.
    """

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
