"""When the next round of the loop can decide anything new although nothing has changed.

Decides only which times require a round: ends of timers of nodes, cool-downs, back-offs, evictions, bookings and the
search for room, and the times at which a failed simulation is no longer valid. Rounds between them would repeat the
last answer, so a simulation skips them. Units: seconds, Unix time.

Delays of pods and machines, and machines that never become a node, are drawn from the seed and the name, so that one
does not depend on what happened to others.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.scenario import NodeGroupModel
from trimtab.clients.simulation.waiting_times import OpenRequest
from trimtab.v1 import actuator_pb2, plan_pb2

LONGEST_PAUSE_S: Final = 600.0
"""Longest time between rounds: ages of pods in settings count, too, and slack has schedules."""
SLACK_PAUSE_S: Final = 60.0
LONGEST_SEEK_S: Final = 7 * 86_400.0
_COOL_DOWNS: Final = (
    ("delay_after_add", 600.0, "last_scale_up_time"),
    ("delay_after_delete", 0.0, "last_deletion_time"),
    ("delay_after_failure", 180.0, "last_failure_time"),
)


def next_due(
    now_s: float,
    settings: plan_pb2.PlanSettings,
    answer: plan_pb2.PlanResponse,
    status: actuator_pb2.ActuatorStatus,
    requests: Iterable[OpenRequest] = (),
) -> float:
    """Return the first time after `now_s` at which a timer ends; at most `LONGEST_PAUSE_S` later. requests : the
    ProvisioningRequests for which room is sought."""
    latest = now_s + (SLACK_PAUSE_S if answer.HasField("slack") else LONGEST_PAUSE_S)
    moments = [*_nodes(settings, answer), *_groups(settings, status), *_pods(now_s, settings, status)]
    moments += [*_replacements(settings, answer), *_requests(settings, answer, requests)]
    # A timer may end exactly at its time or only after it: there is a round for each.
    twice = (later for moment in moments for later in (moment, moment + 0.001))
    return min((moment for moment in twice if now_s < moment < latest), default=latest)


def _nodes(settings: plan_pb2.PlanSettings, answer: plan_pb2.PlanResponse) -> Iterator[float]:
    """Yield when nodes have been unneeded for long enough, and when failures are simulated again."""
    general = settings.scale_down
    lengths = {_seconds(general, "unneeded_time", 600.0), _seconds(general, "unready_time", 1200.0)}
    for group in settings.node_groups.values():
        lengths |= {_seconds(group, name, 600.0) for name in ("unneeded_time", "unready_time") if group.HasField(name)}
    kept = answer.state.scale_down
    for since in set(np.frombuffer(kept.unneeded.time_ns + kept.later_waves.time_ns, "<i8").tolist()):
        yield from (since / 1e9 + length for length in lengths)
    believed = _seconds(general, "unremovable_node_recheck_timeout", 300.0)
    for failed in set(np.frombuffer(kept.unremovable.time_ns, "<i8").tolist()):
        yield failed / 1e9 + believed


def _replacements(settings: plan_pb2.PlanSettings, answer: plan_pb2.PlanResponse) -> Iterator[float]:
    """Yield when groups are no longer avoided, nodes have paid for themselves, and plans have been stable for long
    enough.
    """
    kept = answer.state.replacement
    for until in set(np.frombuffer(kept.avoided_groups.time_ns + kept.paid_back.time_ns, "<i8").tolist()):
        yield until / 1e9
    stable_s = _seconds(settings.replacement, "stable_time", 0.0)
    for since in set(np.frombuffer(kept.planned.time_ns, "<i8").tolist()):
        yield since / 1e9 + stable_s


def _requests(
    settings: plan_pb2.PlanSettings, answer: plan_pb2.PlanResponse, requests: Iterable[OpenRequest]
) -> Iterator[float]:
    """Yield when bookings end, and when requests fail for want of room. Times are compared in whole seconds."""
    yield from (one.booked_until.seconds for one in answer.capacity_requests.requests if one.HasField("booked_until"))
    sought_s = math.ceil(_seconds(settings.capacity_requests, "max_seek_time", LONGEST_SEEK_S))
    for one in requests:
        yield math.floor(one.since_s) + (one.valid_s or sought_s)


def _groups(settings: plan_pb2.PlanSettings, status: actuator_pb2.ActuatorStatus) -> Iterator[float]:
    for group in status.node_groups:
        for name, default, time_field in _COOL_DOWNS:
            if group.HasField(time_field):  # type: ignore[arg-type]
                yield getattr(group, time_field).ToMilliseconds() / 1000 + _seconds(settings.scale_down, name, default)
        if group.HasField("backoff_until"):
            yield group.backoff_until.ToMilliseconds() / 1000


def _pods(now_s: float, settings: plan_pb2.PlanSettings, status: actuator_pb2.ActuatorStatus) -> Iterator[float]:
    """Yield when an evicted pod no longer keeps room, and when a new pod may cause growth."""
    kept = _seconds(settings.planner, "recent_eviction_ttl", 120.0)
    for eviction in status.recent_evictions:
        yield eviction.evict_time.ToMilliseconds() / 1000 + kept
    delay = _seconds(settings.scale_up, "new_pod_scale_up_delay", 0.0)
    if delay:
        yield now_s + min(delay, SLACK_PAUSE_S)


def _seconds(message: Message, field: str, default: float) -> float:
    if not message.HasField(field):
        return default
    length: Duration = getattr(message, field)
    return length.ToMilliseconds() / 1000


@dataclass(frozen=True)
class ScenarioDelays(Delays):
    """groups : by name, as declared; pod_starts : from binding to ready, by uid of the pod's owner. Times are seconds.
    seed : of the random part of delays.
    """

    groups: Mapping[str, NodeGroupModel] = field(default_factory=dict)
    pod_starts: dict[str, float] = field(default_factory=dict)
    seed: int = 0

    def pod_start_of(self, pod: SimulatedPod) -> float:
        """Return how long one pod takes to become ready."""
        return self.pod_starts.get(pod.owner_uid, self.pod_start_s)

    def node_start_of(self, name: str, group: str) -> float:
        """Return how long one machine takes to become a ready node."""
        model = self.groups[group]
        return model.start + model.start_spread * self._share("start", name)

    def is_broken(self, name: str, group: str) -> bool:
        """Return whether a machine never becomes a node."""
        return self._share("broken", name) < self.groups[group].start_failure_rate

    def _share(self, what: str, name: str) -> float:
        return drawn_share(self.seed, what, name)


def drawn_share(seed: int, what: str, name: str) -> float:
    """Return a number in [0, 1), always the same for the same seed, purpose and name."""
    digest = hashlib.sha256(f"{seed}/{what}/{name}".encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48
