"""Recorded rounds (`*.trimtab`) as scenarios: the cluster of the first round, and its pods as they came and went.

Decides what exists from the beginning: nodes without the taints of an autoscaler, node groups, controllers, budgets,
and the pods on nodes of the first round, where they ran. Pods that wait in it or appear later arrive, each at its
creation as far as rounds show it; pods that terminate, end or disappear go at the time of their round. Pods of
DaemonSets and static pods stay with their nodes. Controllers change their size at the recorded times, and PodGroups
appear then, as they are first seen, and stay. The recorded
autoscaler's changes of nodes are not repeated; a pod that it evicted goes, and its successor arrives. Not read:
volumes, preferred terms, requested slack. Raises ScenarioError.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.simulation.cluster.pods import format_time
from trimtab.clients.simulation.recorded import OwnerSize, RecordedCluster, RecordedPod, RecordedPodGroup
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.snapshot_objects import budgets, groups, namespace_of, nodes, owner, pod_group_of
from trimtab.common.kubernetes.names import DAEMON_ANNOTATION, MIRROR_ANNOTATION
from trimtab.common.kubernetes.signals import cluster_autoscaler, well_known
from trimtab.common.objects.pod_rows import FLAG_DAEMON, FLAG_GATED, FLAG_MIRROR
from trimtab.common.objects.pod_spec_exporter import PodSpecExporter
from trimtab.common.recording import RecordingError, RecordingReader
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
Key = tuple[str, str]
_ENDED: Final = (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED)
_STAYS: Final = FLAG_DAEMON | FLAG_MIRROR
_SAFE: Final = {pb.SafeToEvict.TRUE: "true", pb.SafeToEvict.FALSE: "false"}
_SAFE_ANNOTATION: Final = cluster_autoscaler.SAFE_TO_EVICT.key
_COST_ANNOTATION: Final = well_known.POD_DELETION_COST.key


class _RecordedPodRow(NamedTuple):
    """A pod of a message. key : (namespace, name); created_s : Unix seconds; is_going : it is being deleted; uid, node,
    owner, group : in words, "" = none; flags, spec, label_set, deletion_cost : as in `PodTable`.
    """

    key: Key
    uid: str
    node: str
    owner: str
    group: str
    created_s: int
    is_going: bool
    flags: int
    spec: int
    label_set: int
    deletion_cost: int


class _PodLifetime:
    """A pod of the recording. at_s, until_s : Unix seconds; until_s None = it stays."""

    def __init__(self, uid: str, item: Json, at_s: float) -> None:
        self.uid, self.item, self.at_s = uid, item, at_s
        self.until_s: float | None = None


def read_rounds(path: Path) -> RecordedCluster:
    """Read a recording."""
    rounds = _RoundsReader()
    try:
        with path.open("rb") as file:
            for message, now_s in _messages(RecordingReader(str(path), file)):
                rounds.add(message, now_s)
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except RecordingError as error:
        raise ScenarioError(str(error)) from None
    except (ValueError, IndexError, KeyError) as error:
        raise ScenarioError(f"{path}: its snapshots break the contract: {error!r}; record again") from None
    if not rounds.objects:
        raise ScenarioError(f"{path}: this recording has no cluster; record one with `trimtab record`")
    return rounds.cluster()


def _messages(reader: RecordingReader) -> Iterator[tuple[pb.ClusterSnapshot | pb.SnapshotDelta, float]]:
    """Yield each cluster or change with the time of its round; for one without request, its latest time."""
    message: pb.ClusterSnapshot | pb.SnapshotDelta | None = None
    for frame in reader:
        which = frame.WhichOneof("frame")
        if which in ("snapshot", "delta"):
            message = getattr(frame, which)
        elif which == "request" and message is not None:
            yield message, _seconds(frame.request.now)
            message = None
    if isinstance(message, pb.ClusterSnapshot):
        created = np.frombuffer(message.pods.created, "<i8")
        yield message, max([int(created.max(initial=0)), *(_seconds(node.create_time) for node in message.nodes)])


class _RoundsReader:
    """The recording while it is read, round by round."""

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self._begin_s = self._last_s = 0.0
        self._references: dict[str, Json] = {}
        self._replicas: dict[str, int] = {}
        self._sizes: list[OwnerSize] = []
        self._present: dict[Key, _PodLifetime] = {}
        self._arrived: list[_PodLifetime] = []
        self._groups: dict[Key, RecordedPodGroup] = {}

    def add(self, message: pb.ClusterSnapshot | pb.SnapshotDelta, now_s: float) -> None:
        """Record a round. Raises ValueError for a time before that of the round before."""
        whole = message if isinstance(message, pb.ClusterSnapshot) else None
        changed = message.changed if isinstance(message, pb.SnapshotDelta) else message
        is_first = not self.objects
        if is_first and whole is None:
            raise ValueError("it begins with a change, not with a cluster")
        if now_s < self._last_s:
            raise ValueError(f"a round at {now_s:g} s follows one at {self._last_s:g} s")
        reader = PodSpecExporter(changed)
        self._add_owners(changed, now_s, is_first=is_first)
        if is_first:
            self._begin_s = self._last_s = now_s
            self.objects += [*nodes(changed, reader), *groups(changed, reader), *budgets(changed, reader)]
            self.objects += [namespace_of(namespace, reader) for namespace in changed.namespaces]
        self._add_groups(changed, now_s, is_first=is_first)
        rows = list(_rows(changed))
        gone = set(self._present) - {row.key for row in rows} if whole is not None else set()
        if isinstance(message, pb.SnapshotDelta):
            gone = {(one.partition("/")[0], one.partition("/")[2]) for one in message.deleted_pods}
        for key in sorted(gone):
            self._end(key, now_s)
        known = {node.name for node in changed.nodes} if is_first else set()
        for row in rows:
            self._see(row, (changed, reader), now_s, known)
        self._last_s = now_s

    def cluster(self) -> RecordedCluster:
        """Return the recording that was read."""
        arrivals = [
            RecordedPod(
                one.at_s - self._begin_s, one.item, None if one.until_s is None else one.until_s - self._begin_s
            )
            for one in self._arrived
        ]
        arrivals.sort(key=lambda one: (one.at_s, one.item["metadata"]["namespace"], one.item["metadata"]["name"]))
        return RecordedCluster(
            self._begin_s,
            tuple(self.objects),
            tuple(arrivals),
            tuple(self._sizes),
            is_under_way=True,
            length_s=self._last_s - self._begin_s,
            pod_groups=tuple(sorted((one for one in self._groups.values() if one.at_s > 0), key=lambda one: one.at_s)),
        )

    def _see(
        self,
        row: _RecordedPodRow,
        message: tuple[pb.ClusterSnapshot, PodSpecExporter],
        now_s: float,
        begun_on: set[str],
    ) -> None:
        """Record a pod of a message. begun_on : nodes of the first round, none in any other."""
        known = self._present.get(row.key)
        if known is not None and (row.is_going or known.uid != row.uid):
            self._end(row.key, now_s)
            known = None
        if known is not None or row.is_going:
            return
        is_first = now_s == self._begin_s and bool(begun_on)
        is_placed = is_first and row.node in begun_on
        if row.flags & _STAYS and not is_placed:
            return  # it comes with its node
        item = self._item(row, *message)
        at_s = self._begin_s if is_first else min(max(float(row.created_s), self._last_s), now_s)
        found = _PodLifetime(row.uid, item, at_s)
        self._present[row.key] = found
        if is_placed:
            self.objects.append(_placed(item, row, self._begin_s))
        if not row.flags & _STAYS:
            self._arrived.append(found)

    def _end(self, key: Key, now_s: float) -> None:
        found = self._present.pop(key, None)
        if found is not None:
            found.until_s = now_s

    def _add_owners(self, changed: pb.ClusterSnapshot, now_s: float, *, is_first: bool) -> None:
        """Record new controllers and new sizes."""
        for one in changed.owners:
            known = self._replicas.get(one.uid)
            wanted = one.desired_replicas if one.HasField("desired_replicas") else None
            if one.uid not in self._references:
                item = owner(one, wanted)
                self._references[one.uid] = {
                    **{"apiVersion": item["apiVersion"], "kind": one.kind, "name": one.name, "uid": one.uid},
                    "controller": True,
                }
                self.objects.append(item)
            elif wanted is not None and wanted != known and not is_first:
                self._sizes.append(OwnerSize(now_s - self._begin_s, f"{one.kind}/{one.namespace}/{one.name}", wanted))
            if wanted is not None:
                self._replicas[one.uid] = wanted

    def _add_groups(self, changed: pb.ClusterSnapshot, now_s: float, *, is_first: bool) -> None:
        """Record new PodGroups; those of the first round exist from the beginning."""
        for pod_group in changed.pod_groups:
            item = pod_group_of(pod_group)
            if item is None or (pod_group.namespace, pod_group.name) in self._groups:
                continue
            created_s = _seconds(pod_group.create_time) if pod_group.HasField("create_time") else now_s
            at_s = now_s if is_first else min(max(created_s, self._last_s), now_s)
            self._groups[pod_group.namespace, pod_group.name] = RecordedPodGroup(at_s - self._begin_s, item)
            if is_first:
                self.objects.append(item)

    def _item(self, row: _RecordedPodRow, changed: pb.ClusterSnapshot, reader: PodSpecExporter) -> Json:
        """Return a pod as it was created."""
        namespace, name = row.key
        spec, written = reader.spec(row.spec), changed.pod_specs[row.spec]
        grace = written.termination_grace_period.seconds
        spec["terminationGracePeriodSeconds"] = grace if written.HasField("termination_grace_period") else 30
        spec["priority"] = written.priority
        spec |= {"volumes": [{"name": "local", "emptyDir": {}}]} if written.local_storage else {}
        spec |= {"schedulingGates": [{"name": "gated"}]} if row.flags & FLAG_GATED else {}
        spec |= {"schedulingGroup": {"podGroupName": row.group}} if row.group else {}
        labels = reader.labels(row.label_set)
        annotations = {_SAFE_ANNOTATION: _SAFE[written.safe_to_evict]} if written.safe_to_evict in _SAFE else {}
        annotations |= {_COST_ANNOTATION: str(row.deletion_cost)} if row.deletion_cost else {}
        annotations |= {MIRROR_ANNOTATION: "true"} if row.flags & FLAG_MIRROR else {}
        reference = self._references.get(row.owner)
        if row.flags & FLAG_DAEMON and reference is None:
            annotations[DAEMON_ANNOTATION] = "true"
        metadata: Json = {"namespace": namespace, "name": name, "uid": row.uid}
        metadata |= {"labels": labels, "annotations": annotations}
        metadata |= {"creationTimestamp": format_time(row.created_s * 1000)} if row.created_s else {}
        metadata |= {"ownerReferences": [reference]} if reference is not None else {}
        status = {"phase": "Pending"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _rows(changed: pb.ClusterSnapshot) -> Iterator[_RecordedPodRow]:
    """Yield the pods of a message. Raises IndexError, ValueError for columns that break the contract."""
    table, text = changed.pods, changed.strings
    if not table.count:
        return

    def column(data: bytes, kind: str) -> list[int]:
        found: list[int] = np.frombuffer(data, kind).tolist() if data else [0] * table.count
        if len(found) != table.count:
            raise ValueError(f"a column of {len(found)} values for {table.count} pods")
        return found

    names = _texts(table.names, column(table.name_lengths, "<i4"))
    uids = _texts(table.uids, column(table.uid_lengths, "<i4"))
    columns = (
        *(column(table.namespace, "<i4"), column(table.node, "<i4"), column(table.owner, "<i4")),
        column(table.pod_group, "<i4"),
        *(column(table.created, "<i8"), column(table.deletion, "<i8")),
        *(column(table.phase, "u1"), column(table.flags, "u1")),
        *(column(table.spec, "<i4"), column(table.label_set, "<i4"), column(table.deletion_cost, "<i4")),
    )
    for name, uid, namespace, node, by, group, created_s, deletion_s, phase, *rest in zip(
        names, uids, *columns, strict=True
    ):
        is_going = bool(deletion_s) or phase in _ENDED
        yield _RecordedPodRow(
            (text[namespace], name), uid, text[node], text[by], text[group], created_s, is_going, *rest
        )


def _texts(data: bytes, lengths: list[int]) -> list[str]:
    ends = np.cumsum([0, *lengths]).tolist()
    return [data[start:end].decode() for start, end in pairwise(ends)]


def _placed(item: Mapping[str, Any], row: _RecordedPodRow, begin_s: float) -> Json:
    """Return a pod as it ran on its node: ready, since a pod that is not started in the simulation would never become
    ready.
    """
    moment = format_time(int(begin_s * 1000))
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
    status = {"phase": "Running", "startTime": moment, "conditions": conditions}
    return {**item, "spec": {**item["spec"], "nodeName": row.node}, "status": status}


def _seconds(moment: Timestamp) -> float:
    return moment.ToMilliseconds() / 1000
