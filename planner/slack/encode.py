"""The encoding of sets of placeholders in answer and state: everything except their numbers and nodes.

Sets requested by objects rarely change, and their specs, labels and names make up most of an answer. So their messages
are built once for all plans of a snapshot (`EncodedSets`), and those of the few sets of parts are appended.
"""

from collections.abc import Sequence
from typing import NamedTuple

from trimtab.planner.slack.placeholder_sets import PlaceholderSet
from trimtab.planner.slack.specs import SpecWriter
from trimtab.v1 import plan_pb2 as pb


class EncodedSets(NamedTuple):
    """Sets as messages, Q of them.

    row : of each set by its name; placeholders : without name and node; states : with name and size alone;
    dictionary : the encoded `PodDictionary` to which the placeholders refer, written by `writer`.
    """

    row: dict[str, int]
    placeholders: tuple[pb.Placeholder, ...]
    states: tuple[pb.SlackSetState, ...]
    dictionary: bytes
    writer: SpecWriter

    def and_of(self, sets: Sequence[PlaceholderSet]) -> "EncodedSets":
        """Return these sets with more appended. O(sets + strings)."""
        if not sets:
            return self
        writer = SpecWriter(self.writer)
        placeholders = self.placeholders + tuple(
            [
                pb.Placeholder(
                    cpu_milli=one.size.get("cpu", 0),
                    memory_bytes=one.size.get("memory", 0),
                    kind=one.kind,
                    for_object=one.for_object,
                    spec=writer.spec(one.pod.spec),
                    label_set=writer.label_set(one.pod.labels),
                    namespace=one.pod.namespace,
                    pool=one.pool,
                    is_in_gang=one.is_gang,
                )
                for one in sets
            ]
        )
        states = self.states + tuple([pb.SlackSetState(name=one.name, size=one.size) for one in sets])
        dictionary = writer.encoded(self.dictionary, self.writer)
        row = self.row | {one.name: at for at, one in enumerate(sets, len(self.row))}
        return EncodedSets(row, placeholders, states, dictionary, writer)


def encoded(sets: Sequence[PlaceholderSet]) -> EncodedSets:
    """Return sets as messages. O(sets · bytes of their specs)."""
    writer = SpecWriter()
    return EncodedSets({}, (), (), writer.encoded(), writer).and_of(sets)
