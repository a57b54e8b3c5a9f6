"""Reads a recording round by round into the history of its cluster.

Decides what a figure means: amounts count from one round to the next; a sample is kept where anything differs from the
one before, so that nothing is lost. Memory: one cluster and the samples. Of a file that is cut off inside a round or
damaged there, the rounds before are the history, if there are several. Errors: UsageError for any other file that
cannot be read.

A removal of a node is under way while the actuator's status lists it or the node is tainted for it; its end is the time
of the first round after it. An equal decision of successive rounds is one entry that counts them; nothing is computed
again. Times are Unix seconds.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.live.rounds_reader import Recorded, RecordedClusters, read_recording, read_rounds
from trimtab.clients.cli.output import note, notes_collected
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cli.report.history.nodes import Pods, RecordedNodes
from trimtab.clients.cli.sentences import NODE_GROUP_SENTENCES
from trimtab.clients.loop.rounds import RoundResult
from trimtab.clients.simulation.decisions import MOST_NAMES, Decisions
from trimtab.clients.simulation.drains import MOST_DRAINS
from trimtab.clients.simulation.measurements import SlackUse, columns_of
from trimtab.common.documents.bounded_input import MAX_INPUT_BYTES, open_input
from trimtab.places import shortfalls
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.option_choice_pb2 import OptionChoice

Json = dict[str, Any]


class RecordedDecisions:
    """The decisions of a recording. entries : as those of a simulation; `again` counts the repetitions up to the time
    `last`.
    """

    def __init__(self, groups: Mapping[str, str], prices: Mapping[str, float]) -> None:
        """groups : node group by node; prices : per node and hour, by group; both as of the round."""
        self.entries: list[Json] = []
        self._decided = Decisions(groups, prices)
        self._of_round_before: list[Json] = []

    def add(self, now_s: float, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Record a round."""
        planned = RoundResult(request, answer, None, was_delta=False)
        planned.grown = [one.node_group for one in answer.scale_up.splits]
        planned.accepted = [*answer.scale_down.delete_empty, *answer.scale_down.drain]
        self._decided.entries = []
        self._decided.add(now_s, planned)
        found = [*self._decided.entries, *_without_room(now_s, answer.scale_up)]
        kept = []
        for one in found:
            before = next((other for other in self._of_round_before if _content(other) == _content(one)), None)
            if before is None:
                self.entries.append(one)
            else:
                before["again"], before["last"] = before.get("again", 0) + 1, now_s
            kept.append(before or one)
        self._of_round_before = kept


def _content(entry: Json) -> Json:
    return {name: value for name, value in entry.items() if name not in ("time", "again", "last")}


def _without_room(now_s: float, decision: plan_pb2.ScaleUpDecision) -> list[Json]:
    """Return the pods that no node group serves, with the reasons."""
    if not decision.unschedulable:
        return []
    lacking = shortfalls(decision)
    reasons = {
        pod: one.detail
        or "; ".join(f"{group}: {NODE_GROUP_SENTENCES[code]}" for group, code in sorted(one.reasons.items()))
        for pod, one in islice(lacking.items(), MOST_NAMES)
    }
    count = len(lacking)
    text = f"no node group serves {counted(count, 'pod')}"
    return [{"time": now_s, "kind": "no room", "count": count, "text": text, "reasons": reasons}]


class RecordedRemovals:
    """The removals of a recording. evicted : number of evictions, None = no status was recorded."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.evicted: int | None = None
        self._of: dict[str, dict[str, Any]] = {}
        self._deletions: dict[str, float] = {}
        self._evictions: set[str] = set()

    def read_status(self, status: pb.ActuationStatus, pods: Pods) -> None:
        """Read a status. pods : as they were before it, to find the nodes of evicted ones."""
        self._deletions = {deletion.node: deletion.start_time.ToMilliseconds() / 1000 for deletion in status.deletions}
        for node, since_s in self._deletions.items():
            self._begin(node, since_s)
        for recent_eviction in status.recent_evictions:
            if recent_eviction.uid not in self._evictions:
                self.evicted = (self.evicted or 0) + 1
                drain = self._of.get(pods.node_of(recent_eviction.namespace, recent_eviction.name))
                if drain is not None:
                    drain["evicted"].append(max(drain["tainted"], recent_eviction.evict_time.ToMilliseconds() / 1000))
                    drain["evicted"].sort()
        self._evictions = {recent_eviction.uid for recent_eviction in status.recent_evictions}
        self.evicted = self.evicted or 0

    def end_round(self, now_s: float, nodes: RecordedNodes) -> None:
        """Begin and end removals according to the nodes of a round."""
        going = nodes.going
        for node in sorted(going):
            self._begin(node, now_s)
        for node in [name for name in self._of if name not in going and name not in self._deletions]:
            self._of.pop(node)["kept" if node in nodes.members else "gone"] = now_s

    def _begin(self, node: str, at_s: float) -> None:
        if node not in self._of and len(self.entries) < MOST_DRAINS:
            self._of[node] = {"node": node, "tainted": at_s, "evicted": []}
            self.entries.append(self._of[node])


_HOUR_S: Final = 3600.0


class RecordedHistory(NamedTuple):
    """round_count : rounds read; is_whole : none is missing because of damage; has_groups : the cluster has node groups
    of its own; result : in the form of a simulation's, with the figures that rounds tell; last : the last request and
    answer.
    """

    round_count: int
    is_whole: bool
    has_groups: bool
    result: Json
    last: tuple[plan_pb2.PlanRequest, plan_pb2.PlanResponse] | None


def read_history(
    path: Path,
    prices: Prices | None = None,
    labels: Sequence[str] | None = None,
    max_input_bytes: int = MAX_INPUT_BYTES,
) -> RecordedHistory:
    """Read a recording. prices : of a file; labels : of node groups, for a cluster without them."""
    rounds, is_whole = _HistoryReader(RecordedNodes(prices, labels)), True
    try:
        with open_input(path) as file:
            for read_round in read_rounds(str(path), file, max_input_bytes):
                if not isinstance(read_round, OptionChoice):
                    rounds.add(read_round)
    except UsageError as error:
        if rounds.count <= 1:
            raise
        is_whole = False
        note(f"{error}; the report is about the {rounds.count} rounds before")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, IndexError, KeyError) as error:
        raise UsageError(f"{path}: its changes do not fit the cluster before them ({error!r}); record again") from None
    return RecordedHistory(
        rounds.count, is_whole, rounds.has_groups, rounds.result(path.name.split(".")[0]), rounds.last
    )


def last_cluster(path: Path, round_count: int, max_input_bytes: int = MAX_INPUT_BYTES) -> pb.ClusterSnapshot:
    """Return the cluster of the last of some rounds that `read_history` has read: of a damaged file, which cannot be
    read to its end.
    """
    with notes_collected():
        rounds = read_recording(path, max_input_bytes)
    return RecordedClusters(rounds).at(round_count - 1)


class _HistoryReader:
    """The recording while it is read."""

    def __init__(self, nodes: RecordedNodes) -> None:
        self.count = 0
        self.last: tuple[plan_pb2.PlanRequest, plan_pb2.PlanResponse] | None = None
        self._nodes, self._pods = nodes, Pods()
        self._drains, self._slack = RecordedRemovals(), SlackUse()
        self._decisions = RecordedDecisions(nodes.group_of, nodes.price_of)
        self._slack_now: Json = {"slackCpuWantedMilli": 0, "placeholders": 0, "placeholdersOnNodes": 0}
        self._begin_s = self._now_s = 0.0
        self._samples: list[Json] = []
        self._latest: Json = {}
        # Sums over time, in hours.
        self._sums: dict[str, float] = dict.fromkeys(("nodes", "money", *_SHARES), 0.0)

    def add(self, recorded: Recorded) -> None:
        """Read a round. Raises ValueError, IndexError, KeyError for one that does not follow from those before."""
        now_s = recorded.request.now.ToMilliseconds() / 1000
        if not self.count:
            self._begin_s = self._now_s = now_s
        if now_s < self._now_s:
            raise ValueError(f"a round at {now_s:g} s follows one at {self._now_s:g} s")
        self._pass_time(now_s)
        self._read(recorded.update.snapshot, recorded.update.delta)
        self._drains.end_round(now_s, self._nodes)
        capacity = self._nodes.capacity()
        self._read_slack(now_s, recorded.answer)
        self._decisions.add(now_s, recorded.request, recorded.answer)
        usage = self._pods.usage(self._nodes.members)
        self._sample(
            now_s,
            {
                "nodes": capacity.counts,
                "pricePerHour": capacity.price_per_hour,
                "pods": usage.pods,
                "pending": usage.pending,
                "cpuAllocatableMilli": capacity.cpu,
                "cpuRequestedMilli": usage.cpu,
                "memoryAllocatable": capacity.memory,
                "memoryRequested": usage.memory,
                "slackCpuMilli": self._slack.cpu_milli,
                **self._slack_now,
            },
        )
        self.count += 1
        self.last = recorded.request, recorded.answer

    @property
    def has_groups(self) -> bool:
        """Return whether the last cluster has node groups of its own."""
        return self._nodes.has_groups

    def result(self, name: str) -> Json:
        """Return what was read."""
        if self._samples and self._samples[-1]["time"] != self._now_s:
            self._samples.append({"time": self._now_s, **self._latest})
        return {
            "scenario": {"name": name, "begin": self._begin_s, "durationS": self._now_s - self._begin_s},
            "settings": {"name": name},
            "summary": self._summary() if self.count else {},
            "samples": columns_of(self._samples, self._latest),
            "decisions": self._decisions.entries,
            "drains": self._drains.entries,
        }

    def _read(self, whole: pb.ClusterSnapshot | None, delta: pb.SnapshotDelta | None) -> None:
        """Bring the cluster forward."""
        changed = whole
        if whole is None:
            if delta is None or not self.count:
                raise ValueError("it begins with a change, not with a cluster")
            changed = delta.changed
        assert changed is not None, "a round has a cluster or a change"
        if changed.HasField("actuation_status"):
            self._drains.read_status(changed.actuation_status, self._pods)
        if whole is not None:
            self._nodes.replace(whole)
            self._pods = Pods()
        elif delta is not None:
            self._nodes.remove(delta.deleted_nodes, delta.deleted_node_groups)
            self._nodes.add(changed)
            self._pods.remove(delta.deleted_pods)
        self._pods.add(changed)

    def _read_slack(self, now_s: float, answer: plan_pb2.PlanResponse) -> None:
        if answer.HasField("slack"):
            slack = answer.slack
            self._slack.add(now_s, slack, self._nodes.members.keys() - self._nodes.going)
            self._slack_now = {
                "slackCpuWantedMilli": slack.desired.get("cpu", 0),
                "placeholders": len(slack.placeholders),
                "placeholdersOnNodes": sum(1 for placeholder in slack.placeholders if placeholder.node),
            }

    def _pass_time(self, now_s: float) -> None:
        """Add the hours since the last round."""
        hours, self._now_s = (now_s - self._now_s) / _HOUR_S, now_s
        if self._latest:
            self._sums["nodes"] += hours * sum(self._latest["nodes"].values())
            self._sums["money"] += hours * self._latest["pricePerHour"]
            for name in _SHARES:
                self._sums[name] += hours * self._latest[name]

    def _sample(self, now_s: float, sample: Json) -> None:
        if sample != self._latest:
            self._samples.append({"time": now_s, **sample})
        self._latest = sample

    def _summary(self) -> Json:
        """Return the figures."""
        evictions = {} if self._drains.evicted is None else {"evictions": self._drains.evicted}
        return {
            "rounds": self.count,
            "nodeHours": round(self._sums["nodes"], 6),
            "money": round(self._sums["money"], 6),
            "podsPendingAtEnd": self._latest["pending"],
            **evictions,
            "cpuRequestedShare": self._share("cpuRequestedMilli", "cpuAllocatableMilli"),
            "memoryRequestedShare": self._share("memoryRequested", "memoryAllocatable"),
            **self._slack.summary(self._now_s),
            "nodesAdded": self._nodes.added,
            "nodesRemoved": self._nodes.removed,
            "nodesAtEnd": sum(self._latest["nodes"].values()),
        }

    def _share(self, used: str, whole: str) -> float:
        return round(self._sums[used] / self._sums[whole], 6) if self._sums[whole] else 0.0


_SHARES: Final = ("cpuRequestedMilli", "cpuAllocatableMilli", "memoryRequested", "memoryAllocatable")
