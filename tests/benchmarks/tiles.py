"""A large snapshot out of a smaller one: copies side by side, each with its own nodes, groups, owners and namespaces.

A million pods as JSON would take minutes to read, which is not what is measured here. Copies share the dictionary of
pod specs; all names differ, so that nothing is smaller for being a copy but the number of distinct specs.
"""

import numpy as np
from numpy.typing import NDArray

from trimtab.v1 import snapshot_pb2 as pb

Int32 = NDArray[np.int32]


def tiled(one: pb.ClusterSnapshot, copies: int) -> pb.ClusterSnapshot:
    """Return `copies` of a snapshot as one; the first keeps its names."""
    result = pb.ClusterSnapshot()
    result.CopyFrom(one)
    tables = [_Copy(one, result, number) for number in range(1, copies)]
    for table in tables:
        table.rows()
    pods, columns = one.pods, result.pods
    columns.count = pods.count * copies
    for column in ("spec", "deletion", "created", "phase", "flags", "deletion_cost"):
        setattr(columns, column, getattr(pods, column) * copies)
    for column in ("namespace", "node", "owner", "pinned_node", "nominated_node"):
        parts = [getattr(pods, column), *(table.strings_column(getattr(pods, column)) for table in tables)]
        setattr(columns, column, b"".join(parts))
    columns.label_set = b"".join([pods.label_set, *(table.label_set_column(pods.label_set) for table in tables)])
    columns.names, columns.name_lengths = pods.names * copies, pods.name_lengths * copies
    uids, lengths = _uids(pods, copies)
    columns.uids, columns.uid_lengths = uids, lengths
    return result


def _column(data: bytes) -> Int32:
    """An int32 column."""
    return np.frombuffer(data, "<i4")


def _uids(pods: pb.PodTable, copies: int) -> tuple[bytes, bytes]:
    """Uids of all copies: that of the first with two letters appended."""
    ends, uids = np.cumsum(_column(pods.uid_lengths)), pods.uids
    # A field of bytes is copied each time it is read from the message.
    first = [uids[start:end] for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
    parts = [uids]
    for number in range(1, copies):
        parts.append(b"".join(uid + b"%02x" % number for uid in first))
    longer = (_column(pods.uid_lengths) + 2).astype("<i4").tobytes()
    return b"".join(parts), pods.uid_lengths + longer * (copies - 1)


class _Copy:
    """One copy: where its strings and label sets are in the result."""

    def __init__(self, one: pb.ClusterSnapshot, result: pb.ClusterSnapshot, number: int) -> None:
        self.one, self.result, self.number = one, result, number
        own = {node.name for node in one.nodes} | {group.id for group in one.node_groups}
        own |= {owner.uid for owner in one.owners} | {space.name for space in one.namespaces}
        self.strings = np.arange(len(one.strings), dtype=np.int32)
        for index, text in enumerate(one.strings):
            if text in own:
                self.strings[index] = len(result.strings)
                result.strings.append(self.named(text))
        sets = one.label_sets
        self.first_set = len(_column(result.label_sets.offsets)) - 1
        entries = len(_column(result.label_sets.keys))
        # Set 0 must stay the only empty one that counts, so it is not copied.
        result.label_sets.offsets += (_column(sets.offsets)[2:] + entries).astype("<i4").tobytes()
        result.label_sets.keys += sets.keys
        result.label_sets.values += self.strings_column(sets.values)

    def named(self, text: str) -> str:
        """The name of a thing in this copy."""
        return f"{text}{self.number:02x}" if text else ""

    def strings_column(self, data: bytes) -> bytes:
        """An int32 column of string indices in this copy."""
        return self.strings[_column(data)].astype("<i4").tobytes()

    def label_set(self, index: int) -> int:
        """A label set in this copy."""
        return self.first_set + index - 1 if index else 0

    def label_set_column(self, data: bytes) -> bytes:
        """An int32 column of label sets in this copy."""
        column = _column(data)
        return np.where(column > 0, column + self.first_set - 1, 0).astype("<i4").tobytes()

    def rows(self) -> None:
        """Append all rows of this copy."""
        for node in self.one.nodes:
            row = self.result.nodes.add()
            row.CopyFrom(node)
            row.name, row.provider_id = self.named(node.name), self.named(node.provider_id)
            row.node_group, row.label_set = self.named(node.node_group), self.label_set(node.label_set)
        for group in self.one.node_groups:
            added = self.result.node_groups.add()
            added.CopyFrom(group)
            added.id = self.named(group.id)
            added.template.label_set = self.label_set(group.template.label_set)
        for owner in self.one.owners:
            owned = self.result.owners.add()
            owned.CopyFrom(owner)
            owned.uid, owned.namespace = self.named(owner.uid), self.named(owner.namespace)
        for space in self.one.namespaces:
            self.result.namespaces.add(name=self.named(space.name), label_set=self.label_set(space.label_set))
        for budget in self.one.pod_disruption_budgets:
            kept = self.result.pod_disruption_budgets.add()
            kept.CopyFrom(budget)
            kept.namespace = self.named(budget.namespace)
            for requirement in kept.selector.requirements:
                requirement.values[:] = [int(self.strings[value]) for value in requirement.values]
