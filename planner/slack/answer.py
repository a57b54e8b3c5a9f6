"""The slack decision's answer on the wire: placeholders, what is asked for, what is there, and what it costs.

Decides nothing. The rows of placeholders follow from the sets and the places alone; as long as these do not change, the
bytes of the last answer are used again.
"""

from hashlib import blake2b
from typing import NamedTuple

import msgspec
import numpy as np
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

from planner.facts.prices import prices
from planner.round.round import Round
from planner.slack.places import Placed, Roster
from planner.slack.sets import PlaceholderSet, Wanted
from planner.slack.specs import SpecWriter
from planner.snapshot.columns import Int32, Snapshot

_MOST: int = 2**63 - 1
_MOST_COUNT: int = 2**31 - 1


class Outcome(NamedTuple):
    """What was wanted, the placeholders and where they are; names : of all placeholders, in the roster's order."""

    wanted: Wanted
    roster: Roster
    placed: Placed
    names: tuple[str, ...]


def answer(this: Round, outcome: Outcome, problems: tuple[str, ...]) -> pb.SlackDecision:
    """Return the decision on the wire. O(M), or O(sets) where nothing has moved."""
    result = pb.SlackDecision.FromString(
        this.reuse(_key(this.snapshot, outcome), lambda: _rows(this.snapshot, outcome))
    )
    wanted, placed = outcome.wanted, outcome.placed
    result.desired.update(dict(sorted(wanted.desired.items())))
    present, price = _present(this.snapshot, outcome)
    result.present.update(dict(sorted(present.items())))
    result.price_per_hour = price
    result.pushed_out.extend(sorted(outcome.names[row] for row in np.flatnonzero(placed.pushed_out).tolist()))
    result.problems.extend([*wanted.problems, *problems])
    result.objects.extend(_objects(this.snapshot, outcome))
    if not outcome.names:
        result.result = reason_pb2.SlackResult.SLACK_NOT_ASKED
    elif _is_on_node(this.snapshot, placed.node).all():
        result.result = reason_pb2.SlackResult.SLACK_PRESENT
    else:
        result.result = reason_pb2.SlackResult.SLACK_LACKING
    return result


def _objects(snapshot: Snapshot, outcome: Outcome) -> list[pb.SlackObject]:
    """Return what became of each object that asks for room, sorted by name. O(M + objects)."""
    if not outcome.wanted.objects:
        return []
    sets, count = outcome.roster.sets, np.diff(outcome.roster.bounds)
    of_set = np.repeat(np.arange(len(sets)), count)[_is_on_node(snapshot, outcome.placed.node)]
    present = np.bincount(of_set, minlength=len(sets)).tolist()
    by_name = {one.for_object: found for one, found in zip(sets, present, strict=True) if one.for_object}
    return [
        pb.SlackObject(
            object=one.name,
            asked_count=min(one.number, _MOST_COUNT),
            present_count=by_name.get(one.name, 0),
            problem=one.problem,
        )
        for one in sorted(outcome.wanted.objects)
    ]


def _is_on_node(snapshot: Snapshot, node: Int32) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which placeholders are on a node that exists; one that is yet to come is none."""
    return (node >= 0) & (node < len(snapshot.nodes.name))


def _key(snapshot: Snapshot, outcome: Outcome) -> str:
    """Return a text that is equal only for equal rows."""
    sink = blake2b(digest_size=16)
    sink.update(msgspec.msgpack.encode(outcome.roster.sets))
    sink.update(outcome.roster.number.tobytes())
    sink.update(outcome.placed.node.tobytes())
    sink.update(msgspec.msgpack.encode(snapshot.nodes.name))
    return f"slack {sink.hexdigest()}"


def _rows(snapshot: Snapshot, outcome: Outcome) -> bytes:
    """Return the placeholders, by name of the set and number, and their dictionary, encoded."""
    writer = SpecWriter()
    result = pb.SlackDecision()
    sets = outcome.roster.sets
    places = outcome.roster.of_sets()
    for at in sorted(range(len(sets)), key=lambda at: sets[at].name):
        _add_placeholders(result, snapshot, outcome, (sets[at], places[at]), writer)
    result.dictionary.CopyFrom(writer.finish())
    return result.SerializeToString(deterministic=True)


def _add_placeholders(
    result: pb.SlackDecision, snapshot: Snapshot, outcome: Outcome, of: tuple[PlaceholderSet, slice], writer: SpecWriter
) -> None:
    """Add the placeholders of a set, in place. of : the set, and where they are."""
    one, where = of
    names, nodes = outcome.names[where], outcome.placed.node[where].tolist()
    if not names:
        return
    first = result.placeholders.add(
        cpu_milli=one.size.get("cpu", 0),
        memory_bytes=one.size.get("memory", 0),
        kind=one.kind,
        for_object=one.for_object,
        spec=writer.spec(one.pod.spec),
        label_set=writer.label_set(one.pod.labels),
        namespace=one.pod.namespace,
        pool=one.pool,
    )
    more = [result.placeholders.add() for _ in names[1:]]
    for other in more:
        other.CopyFrom(first)
    for found, name, node in zip([first, *more], names, nodes, strict=True):
        found.name = name
        if 0 <= node < len(snapshot.nodes.name):
            found.node = snapshot.nodes.name[node]


def _present(snapshot: Snapshot, outcome: Outcome) -> tuple[dict[str, int], float]:
    """Return what placeholders on nodes keep free, by resource, and what that costs an hour.

    The cost of a placeholder is the share of its node's price that is the larger of its shares of cpu and memory.
    """
    sets, node = outcome.roster.sets, outcome.placed.node
    on_node = _is_on_node(snapshot, node)
    of_set = np.repeat(np.arange(len(sets)), np.diff(outcome.roster.bounds))[on_node]
    present: dict[str, int] = {}
    for one, count in zip(sets, np.bincount(of_set, minlength=len(sets)).tolist(), strict=True):
        for name, amount in one.size.items():
            present[name] = min(present.get(name, 0) + amount * count, _MOST)
    share = np.zeros(len(of_set))
    for column, name in enumerate(snapshot.resources[:2]):
        size = np.array([one.size.get(name, 0) for one in sets], np.int64)
        room = np.maximum(snapshot.nodes.allocatable[node[on_node], column], 1)
        np.maximum(share, size[of_set] / room, out=share)
    cost = float(np.nansum(prices(snapshot)[node[on_node]] * share))
    return {name: amount for name, amount in present.items() if amount}, cost
