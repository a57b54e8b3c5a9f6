"""The slack decision's encoded answer: placeholders, requested and available room, its cost; and the state.

Placeholders and state depend only on the sets and the places; as long as these do not change, the
bytes of the last answer are reused.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
import numpy as np

from trimtab.planner.facts.nodes import prices, total
from trimtab.planner.round.decision import Decided, Summary
from trimtab.planner.round.round import Round
from trimtab.planner.slack.objects import ObjectRequests, RequestingObject, object_requests
from trimtab.planner.slack.places import PlaceholderNodes, PlaceholderTable, remember
from trimtab.planner.slack.sets import RequiredSets
from trimtab.planner.slack.specs import SpecWriter
from trimtab.planner.snapshot.caches import SnapshotKey, SuccessorKey
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

_MOST: Final = 2**63 - 1
_MOST_COUNT: Final = 2**31 - 1


class SlackOutcome(NamedTuple):
    """The sets that objects request, all requested sets, the placeholders and their nodes.

    names : of all placeholders, in the table's order.
    """

    requests: ObjectRequests
    required: RequiredSets
    table: PlaceholderTable
    placed: PlaceholderNodes
    names: Sequence[str]


def answer(this: Round, outcome: SlackOutcome, notes: tuple[str, ...]) -> Decided:
    """Return the decision and the next state. O(M) bytes, and O(M + sets) if something has moved."""
    writer = _Writer(this, outcome)
    required, placed, on_node = outcome.required, outcome.placed, writer.on_node
    result = pb.SlackDecision(desired=dict(sorted(required.desired.items())), problems=required.problems)
    present = outcome.table.sizes.together(writer.present.tolist())
    result.present.update({name: min(total, _MOST) for name, total in sorted(present.items())})
    if (price := _price(this.snapshot, outcome, on_node)) is not None:
        result.price_per_hour = price
    result.pushed_out.extend(sorted(outcome.names[row] for row in np.flatnonzero(placed.pushed_out).tolist()))
    if not len(on_node):
        result.result = reason_pb2.SlackResult.SLACK_NOT_ASKED
    elif on_node.all():
        result.result = reason_pb2.SlackResult.SLACK_PRESENT
    else:
        result.result = reason_pb2.SlackResult.SLACK_LACKING
    encoded = this.work.cache.find(EncodedSlackKey())
    if encoded is None or encoded.key != writer.key:
        encoded = EncodedSlack(writer.key, writer.rows(), writer.state())
    this.work.cache.put(EncodedSlackKey(), encoded)
    result.MergeFromString(encoded.rows)
    return Decided(result, pb.SlackState.FromString(encoded.state), notes)


def summarize(result: pb.SlackDecision) -> Summary:
    """Return the figures of a result for logs and metrics."""
    counts = {
        "placeholders": len(result.placeholders),
        "waiting": sum(not placeholder.node for placeholder in result.placeholders),
        "pushed_out": len(result.pushed_out),
        "problems": len(result.problems),
    }
    return Summary(reason_pb2.SlackResult.Code.Name(result.result), counts)


class EncodedSlack(NamedTuple):
    """The encoded placeholders and state of the last answer. key : digest of sets and places."""

    key: str
    rows: bytes
    state: bytes


class EncodedSlackKey(SuccessorKey[EncodedSlack]):
    """The key of the last answer's."""


@dataclass(frozen=True)
class ObjectsDigestKey(SnapshotKey[bytes]):
    """A digest of the room requested by objects. smaller_buffers : as in `SlackSettings`."""

    smaller_buffers: bool


class NodeNamesDigestKey(SnapshotKey[bytes]):
    """A digest of the names of nodes."""


class _Writer:
    """Writes the parts that depend only on the sets and the places."""

    def __init__(self, this: Round, outcome: SlackOutcome) -> None:
        self._this = this
        self._outcome = outcome
        self._nodes = this.snapshot.nodes.name
        self._table, self._node = outcome.table, outcome.placed.node
        # An upcoming node is not one of the snapshot.
        self._is_there: Bool = (self._node >= 0) & (self._node < len(self._nodes))
        self.on_node: Bool = self._is_there & ~_in_gang_that_waits(outcome.table, self._is_there)
        self.present: Int64 = outcome.table.count_on(self.on_node)

    @cached_property
    def key(self) -> str:
        """A text that differs if anything written differs."""
        sink = blake2b(digest_size=16)
        requests, required, table = self._outcome.requests, self._outcome.required, self._table
        cache, snapshot, smaller = self._this.work.cache, self._this.snapshot, requests.smaller_buffers

        def digest_of_objects(view: Snapshot) -> bytes:
            objects = object_requests(view, smaller, cache)
            return _digest((objects.sets, objects.objects))

        sink.update(cache.get(ObjectsDigestKey(smaller), snapshot, digest_of_objects))
        sink.update(cache.get(NodeNamesDigestKey(), snapshot, lambda view: _digest(view.nodes.name)))
        sink.update(_digest(required.sets[: required.of_parts]))
        for column in (table.bounds, table.by_name, table.number, self._node):
            sink.update(len(column).to_bytes(8, "little"))
            sink.update(np.ascontiguousarray(column).data)
        return sink.hexdigest()

    def rows(self) -> bytes:
        """Return placeholders, by name of the set and number, with their dictionary, and the requesting objects."""
        decision, specs = pb.SlackDecision(), SpecWriter()
        nodes = np.where(self.on_node, self._node, NO_NODE)
        for entry, where in self._table.named():
            rest = pb.Placeholder(
                cpu_milli=entry.size.get("cpu", 0),
                memory_bytes=entry.size.get("memory", 0),
                kind=entry.kind,
                for_object=entry.for_object,
                spec=specs.spec(entry.pod.spec),
                label_set=specs.label_set(entry.pod.labels),
                namespace=entry.pod.namespace,
                pool=entry.pool,
                is_in_gang=entry.is_gang,
            )
            for name, node in zip(self._outcome.names[where], nodes[where].tolist(), strict=True):
                row = decision.placeholders.add()
                row.CopyFrom(rest)
                row.name, row.node = name, self._nodes[node] if node >= 0 else ""
        decision.dictionary.MergeFrom(specs.finish())
        self._add_objects(decision, self._outcome.required.objects)
        return decision.SerializeToString(deterministic=True)

    def _add_objects(self, decision: pb.SlackDecision, objects: Sequence[RequestingObject]) -> None:
        if not objects:
            return
        by_name, whole = Counter[str](), Counter[str]()
        for entry, count in zip(self._table.sets, self.present.tolist(), strict=True):
            by_name[entry.for_object] += count
            whole[entry.for_object] += entry.is_gang and count == entry.number
        for asking in objects:
            decision.objects.add(
                object=asking.name,
                asked_count=min(asking.number, _MOST_COUNT),
                present_count=by_name[asking.name],
                problem=asking.problem,
                asked_gang_count=min(asking.gang_count, _MOST_COUNT),
                present_gang_count=whole[asking.name],
                topology_key=asking.topology_key,
            )

    def state(self) -> bytes:
        """Return the state for the next loop, sets by name."""
        # Upcoming nodes have no permanent name.
        node: Int32 = np.where(self._is_there, self._node, NO_NODE).astype(np.int32)
        heads = ((pb.SlackSetState(name=entry.name, size=entry.size), where) for entry, where in self._table.named())
        return remember(heads, self._table.number, node, self._nodes)


def _in_gang_that_waits(table: PlaceholderTable, on_node: Bool) -> Bool:
    if not any(entry.is_gang for entry in table.sets):
        return np.zeros(len(on_node), np.bool_)
    count = np.diff(table.bounds)
    waits = np.array([entry.is_gang for entry in table.sets], np.bool_) & (table.count_on(on_node) < count)
    of_placeholder: Bool = np.repeat(waits, count)
    return of_placeholder


def _digest(value: object) -> bytes:
    return blake2b(msgspec.msgpack.encode(value), digest_size=16).digest()


def _price(snapshot: Snapshot, outcome: SlackOutcome, on_node: Bool) -> float | None:
    """Return the hourly cost of the room of placeholders on nodes; None = no price of these nodes is known.

    The cost of a placeholder is its node's price times the larger of its shares of cpu and memory.
    """
    node = outcome.placed.node[on_node]
    table = outcome.table
    of_set = np.repeat(np.arange(len(table.sets)), np.diff(table.bounds))[on_node]
    share = np.zeros(len(of_set))
    for column, name in enumerate(snapshot.resources[:2]):
        room = np.maximum(snapshot.nodes.allocatable[node, column], 1)
        np.maximum(share, table.sizes.of(name)[of_set] / room, out=share)
    price = prices(snapshot)[node]
    return None if len(price) and np.isnan(price).all() else total(price * share)
