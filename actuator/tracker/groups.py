"""The tracker's data of node groups: failures, back-offs, awaited nodes, instances without node, and the resources that
nodes of their instance types have; and those of the last hour, for the limit on deletions: for which nodes the cloud
was called, and how many nodes there were at least, as a growth must not raise the share that may go. Decides how events
change these data, nothing about deletions. Times are Unix
milliseconds.
"""

from collections.abc import Set
from typing import Final

import msgspec

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import (
    HOUR_MS,
    GroupBackoff,
    GroupFailure,
    NodeCount,
    TrackerData,
    UnregisteredInstance,
)

REGISTRATION: Final = "registration/"
"""Prefix of the ids of requests that delete instances which never registered."""
FAILED_START: Final = "failed-start/"
"""Prefix of the ids of requests that delete instances which the cloud could not start."""
REPLACEMENT: Final = "replacement/"
"""Prefix of the ids of growths by one node that replace such an instance."""
WAVE: Final = "wave/"
"""Prefix of the ids of growths and deletions that carry out a replacement (`StartReplacement`)."""
LOWERING: Final = "lowering/"
"""Prefix of the ids under which the records of `LowerTargets` are kept, beside those of `ScaleUp`."""
EXTERNAL: Final = "externalgrpc/"
"""Prefix of the ids of orders of a Cluster Autoscaler, whose calls have none."""
RESERVED: Final = (REGISTRATION, REPLACEMENT, FAILED_START, EXTERNAL, WAVE, LOWERING)
"""Prefixes of the ids of requests that the actuator makes itself; no caller may use them."""
KEPT: Final = "kept/"
"""Prefix of the activities that give a back-off its one node again without another growth."""
# Source: CA, `--node-group-backoff-reset-timeout`.
RESET_MS: Final = 3 * 3_600_000
MOST_TYPES: Final = 2_000
"""Most instance types kept, over all groups: those seen last."""


def handle(data: TrackerData, event: e.Event, now_ms: int) -> None:
    """Apply an event about a group."""
    match event:
        case e.GroupFailed(node_group=group, activity=activity, detail=detail):
            data.group_failures.setdefault(group, []).append(GroupFailure(activity, detail, now_ms))
            data.awaited.pop(group, None)
        case e.GroupBackedOff(node_group=group, activity=activity, detail=detail):
            data.group_failures.setdefault(group, []).append(GroupFailure(activity, detail, now_ms, timed=False))
            data.awaited.pop(group, None)
            backoff = data.backoffs.setdefault(group, GroupBackoff(detail, now_ms))
            backoff.replacement_pending = backoff.replacement_pending and not activity.startswith(KEPT)
        case e.GroupRecovered(node_group=group):
            data.backoffs.pop(group, None)
        case e.NodesAwaited(node_group=group):
            data.awaited.setdefault(group, now_ms)
        case e.NodesJoined(node_group=group):
            data.awaited.pop(group, None)
        case e.RegistrationNoted(unregistered=unregistered, settled=settled):
            for instance in settled:
                data.unregistered.pop(instance, None)
            for group, instance in unregistered:
                data.unregistered.setdefault(instance, UnregisteredInstance(group, now_ms))
        case e.NodeTypesSeen(types=types):
            seen = {(learned.node_group, learned.instance_type) for learned in types}
            others = [
                node_type
                for node_type in data.node_types
                if (node_type.node_group, node_type.instance_type) not in seen
            ]
            data.node_types = (*others, *types)[-MOST_TYPES:]
        case _:
            raise AssertionError(f"{type(event).__name__} is not an event of a group")


def note_deletions(data: TrackerData, event: e.InstancesAccepted, now_ms: int) -> None:
    """Note the deletion of instances that never registered: a retry waits as long as the first try did, and so does a
    machine that comes under the same provider id.
    """
    for planned in event.nodes:
        if planned.provider_id in data.unregistered:
            data.unregistered[planned.provider_id].since_ms = now_ms
        if not event.request_id.startswith(REGISTRATION):
            continue
        if planned.node_group in data.backoffs:
            data.backoffs[planned.node_group].replacement_pending = True


def note_growth(data: TrackerData, event: e.GrowthAnswered, now_ms: int) -> None:
    """Note that nodes are awaited from now on, and for which back-offs the one node was requested again."""
    for answer in data.growths[event.request_id].grown:
        if not answer.accepted:
            continue
        if answer.node_group not in data.backoffs:
            data.awaited[answer.node_group] = now_ms
        elif event.request_id.startswith(REPLACEMENT):
            data.backoffs[answer.node_group].replacement_pending = False


def move_times(data: TrackerData, by_ms: int) -> None:
    """Shift all times of groups."""
    data.group_failures = {
        group: [msgspec.structs.replace(failure, time_ms=failure.time_ms + by_ms) for failure in failures]
        for group, failures in data.group_failures.items()
    }
    data.awaited = {group: since_ms + by_ms for group, since_ms in data.awaited.items()}
    for backoff in data.backoffs.values():
        backoff.since_ms += by_ms
    for instance in data.unregistered.values():
        instance.since_ms += by_ms


def latest_ms(data: TrackerData) -> int:
    """Return the latest stored time of groups; 0 = none."""
    failures = (failure.time_ms for group in data.group_failures.values() for failure in group)
    backoffs = (backoff.since_ms for backoff in data.backoffs.values())
    unregistered = (instance.since_ms for instance in data.unregistered.values())
    return max((0, *failures, *data.awaited.values(), *backoffs, *unregistered))


def forget(data: TrackerData, now_ms: int) -> None:
    """Drop failures that no back-off depends on any longer."""
    if not data.group_failures:
        return
    since_ms = now_ms - RESET_MS
    later = {
        group: [failure for failure in failures if failure.time_ms >= since_ms]
        for group, failures in data.group_failures.items()
    }
    data.group_failures = {group: failures for group, failures in later.items() if failures}


def handle_hour(data: TrackerData, event: e.Event, now_ms: int) -> None:
    """Apply an event about the last hour."""
    match event:
        case e.NodesCounted(count=count):
            # A larger count before this one never is the least again.
            while data.node_counts and data.node_counts[-1].count >= count:
                data.node_counts.pop()
            data.node_counts.append(NodeCount(count, now_ms))
        case e.AbsenceEnded(by_ms=by_ms):
            move_hour(data, by_ms)
        case e.TimeNoted():
            pass
        case _:
            raise AssertionError(f"{type(event).__name__} is not an event of the hour")


def count_nodes(data: TrackerData, registered: Set[str], now_ms: int) -> int:
    """Return the number of nodes for the limit: the registered ones, by name, and those deleted within the hour."""
    removed = [call.node for call in data.cloud_deletion_calls if call.time_ms > now_ms - HOUR_MS]
    return len(registered - set(removed)) + len(removed)


def least_count(data: TrackerData, now_ms: int) -> int | None:
    """Return the least number of nodes within the last hour; None = they were never counted."""
    since_ms, counts = now_ms - HOUR_MS, data.node_counts
    # Each is larger than the one before, and in force until the next one.
    ended = sum(later.time_ms <= since_ms for later in counts[1:])
    return counts[ended].count if counts else None


def move_hour(data: TrackerData, by_ms: int) -> None:
    """Shift all times of the hour."""
    for call in data.cloud_deletion_calls:
        call.time_ms += by_ms
    for counted in data.node_counts:
        counted.time_ms += by_ms


def forget_hour(data: TrackerData, now_ms: int) -> None:
    """Drop what was before the last hour."""
    since_ms = now_ms - HOUR_MS
    while data.cloud_deletion_calls and data.cloud_deletion_calls[0].time_ms <= since_ms:
        data.cloud_deletion_calls.pop(0)
    while len(data.node_counts) > 1 and data.node_counts[1].time_ms <= since_ms:
        data.node_counts.pop(0)
