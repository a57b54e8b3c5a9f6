"""Gangs that wait: events on their PodGroups, and figures for Prometheus.

Decides which changes of what a gang lacks become events, and when a gang counts as whole: once its minimum runs, or, if
it had places and no pod of it waits any more. A gang that is deleted after it got places counts too: a plan does not
say that. An event is written when a gang begins to wait, when what it lacks has changed, when nodes are ordered for it,
when nodes turn out useless, and when it is whole. Times are those of plans; unit: seconds.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from trimtab.clients.loop.events import NORMAL, WARNING, ClusterEvent, Subject
from trimtab.clients.loop.rounds import RoundResult
from trimtab.common.kubernetes.registry import VOLCANO_POD_GROUP
from trimtab.v1 import plan_pb2, reason_pb2

WAITS, GETS_NODES, WHOLE, USELESS = "GangWaits", "GangGetsNodes", "GangWhole", "NodesUselessForGang"
MOST_GANGS: Final = 200
"""Most events on gangs in one round; what is left follows in later rounds."""
Reason = reason_pb2.GangReason
_NAMED: Final = 5
_BOUNDS_S: Final = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0)


class _WaitingGang(NamedTuple):
    """A gang that waits. since_s : time of the first plan with it; sentence : of its last event; has_places : in the
    last plan."""

    since_s: float
    sentence: str = ""
    has_places: bool = False


class GangEvents:
    """Turns the gangs of successive plans into events, and counts them."""

    def __init__(self, meter: Meter | None = None, uid_of: Callable[[str, str, str], str] | None = None) -> None:
        """uid_of : returns the uid of an object by kind, namespace and name, "" = there is none, and then there are no
        events on it, as of a group that exists only in annotations of its pods; None = uids are not known."""
        self._uid_of = uid_of
        self._waits: dict[str, _WaitingGang] = {}
        self._by_reason: Counter[str] = Counter()
        self._times: Histogram | None = None
        if meter is not None:
            self._times = self._export(meter)

    def of(self, done: RoundResult) -> list[ClusterEvent]:
        """Return the events of a round."""
        decision = done.answer.scale_up
        if not done.answer.HasField("scale_up"):
            return []
        now_s = done.request.now.ToNanoseconds() / 1e9
        waiting = {one.group: one for one in decision.gangs if not _runs(one)}
        events = [self._end(key, now_s) for key in self._whole(waiting, decision)]
        self._waits = {key: self._waits.get(key, _WaitingGang(now_s)) for key in waiting}
        self._by_reason = Counter(Reason.Code.Name(one.reason) for one in waiting.values() if one.reason)
        for key, one in waiting.items():
            known, found = self._waits[key], list(_events(one, done))
            sentence = "; ".join(message for _, _, message in found)
            self._waits[key] = known._replace(has_places=not one.reason)
            if len(events) < MOST_GANGS:
                self._waits[key] = self._waits[key]._replace(sentence=sentence)
                events += [(key, *event) for event in found] if sentence != known.sentence else ()
        return [ClusterEvent(subject, *event) for key, *event in events if (subject := self._subject(key)) is not None]

    def _subject(self, key: str) -> Subject | None:
        """Return the pod group "namespace/name", None if there is no such object."""
        namespace, _, name = key.partition("/")
        if self._uid_of is None:
            return Subject("PodGroup", name, namespace)
        uids = ((kind, self._uid_of(kind, namespace, name)) for kind in ("PodGroup", VOLCANO_POD_GROUP))
        return next((Subject(kind, name, namespace, uid) for kind, uid in uids if uid), None)

    def _whole(self, waiting: Iterable[str], decision: plan_pb2.ScaleUpDecision) -> Iterator[str]:
        """Yield the gangs that waited until now and are whole."""
        running = {gang.group for gang in decision.gangs if _runs(gang)}
        for key, known in self._waits.items():
            if key in running or (known.has_places and key not in waiting):
                yield key

    def _end(self, key: str, now_s: float) -> tuple[str, str, str, str]:
        waited_s = max(now_s - self._waits[key].since_s, 0.0)
        if self._times is not None:
            self._times.record(waited_s)
        return key, NORMAL, WHOLE, f"the gang is whole, {waited_s:.0f} s after it was first seen"

    def _export(self, meter: Meter) -> Histogram:
        def by_reason(_options: CallbackOptions) -> Iterable[Observation]:
            return [
                Observation(self._by_reason[name], {"reason": name})
                for name, code in Reason.Code.items()
                if code != Reason.UNSPECIFIED
            ]

        callbacks: list[Callable[[CallbackOptions], Iterable[Observation]]] = [by_reason]
        meter.create_observable_gauge(
            "trimtab_waiting_gangs", callbacks, description="Gangs without places in the last plan, by reason"
        )
        return meter.create_histogram(
            "trimtab_time_to_full_gang",
            unit="s",
            description="Time from the first plan with a gang until its minimum runs",
            explicit_bucket_boundaries_advisory=_BOUNDS_S,
        )


def _runs(gang: plan_pb2.GangResult) -> bool:
    """Return whether the minimum of a gang runs."""
    return not gang.reason and gang.bound_count >= max(gang.min_count, 1)


def _events(gang: plan_pb2.GangResult, done: RoundResult) -> Iterator[tuple[str, str, str]]:
    """Yield type, reason and message of the events on a gang that waits."""
    if gang.reason:
        yield WARNING, WAITS, f"{gang.detail} ({Reason.Code.Name(gang.reason)})"
    elif gang.on_new_nodes_count and done.grown:
        count = gang.on_new_nodes_count
        places = "a place" if count == 1 else "places"
        yield NORMAL, GETS_NODES, f"nodes are ordered: {count} of its pods get {places} on new nodes"
    if gang.HasField("release"):
        named = ", ".join(gang.release.nodes[:_NAMED])
        more = f" and {len(gang.release.nodes) - _NAMED} more" if len(gang.release.nodes) > _NAMED else ""
        coming = ", ".join(f"{count} of {group}" for group, count in sorted(gang.release.upcoming.items()))
        parts = (f"to be removed: {named}{more}" if named else "", f"still to come: {coming}" if coming else "")
        said = "; ".join(filter(None, parts))
        yield WARNING, USELESS, f"it cannot be placed whole, so the nodes ordered for it are given up; {said}"
