"""The dictionaries of a snapshot under construction: strings, label sets, pod specs, volumes.

An entry gets the next free index on its first use; the numbering depends only on the order in which rows are written.
Callers write rows in canonical order, which gives equal content equal bytes.
"""

from collections.abc import Iterable

import numpy as np

from trimtab.common.kubernetes.selectors import Requirements, Terms
from trimtab.v1 import snapshot_pb2 as pb

FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
INT32 = np.dtype("<i4")


def int32_column(values: list[int]) -> bytes:
    """Return a little-endian int32 column."""
    return np.array(values, dtype=INT32).tobytes()


class Dictionary:
    """String table (index 0 is ""), label sets (set 0 is empty), resources, pod specs and volumes of one snapshot.

    Every snapshot has the resources `FIRST_RESOURCES`, in this order, and then those of `resources`.
    """

    def __init__(self, resources: Iterable[str] = ()) -> None:
        self._resources = {name: i for i, name in enumerate(FIRST_RESOURCES)}
        for name in resources:
            self.resource(name)
        self.strings: dict[str, int] = {"": 0}
        self._label_sets: dict[tuple[tuple[str, str], ...], int] = {(): 0}
        self._pod_specs: dict[bytes, int] = {}
        self._pod_spec_rows: list[pb.PodSpec] = []
        self._volumes: dict[bytes, int] = {}
        self._volume_rows: list[pb.Volume] = []

    def string(self, text: str | None) -> int:
        """Return the index of a string; 0 for none."""
        return self.strings.setdefault(text, len(self.strings)) if text else 0

    def resource(self, name: str) -> int:
        """Return the index of a resource."""
        return self._resources.setdefault(name, len(self._resources))

    def label_set(self, labels: dict[str, str] | None) -> int:
        """Return the index of a label set; 0 for none."""
        return self.label_pairs(tuple(sorted(labels.items()))) if labels else 0

    def label_pairs(self, pairs: tuple[tuple[str, str], ...]) -> int:
        """Return the index of a label set given as pairs sorted by key."""
        return self._label_sets.setdefault(pairs, len(self._label_sets))

    def pod_spec(self, row: pb.PodSpec) -> int:
        """Return the index of a pod spec."""
        index = self._pod_specs.setdefault(row.SerializeToString(deterministic=True), len(self._pod_spec_rows))
        if index == len(self._pod_spec_rows):
            self._pod_spec_rows.append(row)
        return index

    def volume(self, row: pb.Volume) -> int:
        """Return the index of a volume."""
        index = self._volumes.setdefault(row.SerializeToString(deterministic=True), len(self._volume_rows))
        if index == len(self._volume_rows):
            self._volume_rows.append(row)
        return index

    def selector(self, requirements: Requirements | None) -> pb.LabelSelector | None:
        """Return a label selector as a message; None matches nothing."""
        if requirements is None:
            return None
        return pb.LabelSelector(requirements=[self._requirement(*requirement) for requirement in requirements])

    def node_selector(self, terms: Terms | None) -> pb.NodeSelector | None:
        """Return a node selector as a message; None means no requirement."""
        if terms is None:
            return None
        messages = [
            pb.NodeSelectorTerm(
                match_expressions=[self._requirement(*one) for one in labels],
                match_fields=[self._requirement(*one) for one in fields],
            )
            for labels, fields in terms
        ]
        return pb.NodeSelector(terms=messages)

    def write(self, snapshot: pb.ClusterSnapshot) -> None:
        """Write all dictionaries into the snapshot; call it last."""
        offsets: list[int] = [0]
        keys: list[int] = []
        values: list[int] = []
        for labels in self._label_sets:
            keys.extend(self.string(key) for key, _ in labels)
            values.extend(self.string(value) for _, value in labels)
            offsets.append(len(keys))
        snapshot.label_sets.offsets = int32_column(offsets)
        snapshot.label_sets.keys = int32_column(keys)
        snapshot.label_sets.values = int32_column(values)
        snapshot.resources.extend(self._resources)
        snapshot.pod_specs.extend(self._pod_spec_rows)
        snapshot.volumes.extend(self._volume_rows)
        snapshot.strings.extend(self.strings)

    def of_pods(self) -> pb.PodDictionary:
        """Return strings, resources, label sets and pod specs as a message of their own; call it last."""
        whole = pb.ClusterSnapshot()
        self.write(whole)
        return pb.PodDictionary(
            strings=whole.strings,
            resources=whole.resources,
            label_sets=whole.label_sets,
            pod_specs=whole.pod_specs,
        )

    def _requirement(self, key: str, operator: int, values: tuple[str, ...]) -> pb.LabelRequirement:
        return pb.LabelRequirement(
            key=self.string(key),
            operator=pb.LabelOperator.Code.ValueType(operator),
            values=[self.string(value) for value in values],
        )
