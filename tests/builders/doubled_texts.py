"""The same snapshot with every text under several indices, in another order, as a snapshot may be that was merged."""

from collections.abc import Callable
from random import Random

import numpy as np

from tests.builders.contract_columns import columns
from trimtab.common.deltas.renumbering import NewIndices, renumber
from trimtab.v1 import snapshot_pb2 as pb

ROWS = (
    "pod_specs", "volumes", "nodes", "node_groups", "owners", "pod_disruption_budgets", "namespaces", "pod_groups",
)  # fmt: skip


def doubled(snapshot: pb.ClusterSnapshot, random: Random) -> pb.ClusterSnapshot:
    """Return a copy. Strings and label sets are there twice, and each use of one takes either."""
    out = pb.ClusterSnapshot()
    out.CopyFrom(snapshot)
    texts = [*snapshot.strings[1:], *snapshot.strings[1:]]
    random.shuffle(texts)
    out.strings[:] = [*snapshot.strings[:1], *texts]
    places: dict[str, list[int]] = {}
    for at, text in enumerate(out.strings):
        places.setdefault(text, []).append(at)

    def string(index: int) -> int:
        return random.choice(places[snapshot.strings[index]]) if index else 0

    sets = _double_label_sets(out, random, string)

    def label_set(index: int) -> int:
        return random.choice(sets[index]) if index else 0

    numbers = NewIndices(string, label_set, int)
    for table in ROWS:
        for row in getattr(out, table):
            renumber(row, numbers)
    renumber(out.actuation_status, numbers)
    other = {"string index": string, "index into `label_sets`": label_set}
    for column in columns("snapshot.proto"):
        renumbered = next((new for start, new in other.items() if column.element.startswith(start)), None)
        if column.message == "PodTable" and renumbered is not None:
            values = np.frombuffer(getattr(out.pods, column.field), "<i4").tolist()
            setattr(out.pods, column.field, np.array([renumbered(one) for one in values], "<i4").tobytes())
    return out


def double_device_texts(devices: pb.Devices, random: Random) -> None:
    """Give texts of slices two indices, in place."""
    count = len(devices.strings)
    devices.strings.extend(list(devices.strings)[1:])
    for column in ("driver", "pool", "node"):
        values = np.frombuffer(getattr(devices.slices, column), "<i4")
        moved = [at + random.choice((0, count - 1)) if at else 0 for at in values.tolist()]
        setattr(devices.slices, column, np.array(moved, "<i4").tobytes())


def _double_label_sets(out: pb.ClusterSnapshot, random: Random, string: Callable[[int], int]) -> dict[int, list[int]]:
    """Write each label set twice, with its entries in another order; return where each has gone."""
    offsets = np.frombuffer(out.label_sets.offsets, "<i4").tolist()
    keys, values = (np.frombuffer(column, "<i4").tolist() for column in (out.label_sets.keys, out.label_sets.values))
    order = [at for at in range(1, len(offsets) - 1) for _ in range(2)]
    random.shuffle(order)
    places: dict[int, list[int]] = {0: [0]}
    bounds, new_keys, new_values = [0, 0][: len(offsets)], list[int](), list[int]()
    for place, at in enumerate(order, start=1):
        places.setdefault(at, []).append(place)
        entries = list(range(offsets[at], offsets[at + 1]))
        random.shuffle(entries)
        new_keys += [string(keys[one]) for one in entries]
        new_values += [string(values[one]) for one in entries]
        bounds.append(len(new_keys))
    out.label_sets.offsets = np.array(bounds, "<i4").tobytes()
    out.label_sets.keys = np.array(new_keys, "<i4").tobytes()
    out.label_sets.values = np.array(new_values, "<i4").tobytes()
    return places
