"""Alignment of two pod tables against a dictionary by key."""

import random

import numpy as np
import pytest

from trimtab.common.deltas.alignment import align
from trimtab.common.deltas.pod_columns import InternedDictionaries, PodTableColumns, PodTableReader
from trimtab.v1 import snapshot_pb2 as pb

NAMESPACES = ["", "a", "b"]
Rows = list[tuple[int, str, str]]
"""(namespace, name, uid) of each pod."""


def columns(rows: Rows) -> PodTableColumns:
    table = pb.PodTable(count=len(rows))
    for field, values in (("namespace", [row[0] for row in rows]), ("spec", [0] * len(rows))):
        setattr(table, field, np.array(values, "<i4").tobytes())
    table.node = table.spec
    table.phase = bytes(len(rows))
    for field, place in (("name", 1), ("uid", 2)):
        texts = [row[place].encode() for row in rows]
        setattr(table, f"{field}s", b"".join(texts))
        setattr(table, f"{field}_lengths", np.array([len(text) for text in texts], "<i4").tobytes())
    numbers = np.arange(len(NAMESPACES), dtype=np.int32)
    return PodTableReader().read(table, InternedDictionaries(numbers, numbers[:1], numbers[:1], numbers[:0]))


def cluster(count: int, seed: int, uid_length: int) -> Rows:
    """Return pods in the order of the contract; uids that differ only in some characters, or short ones."""
    draw = random.Random(seed)
    names = sorted({(draw.randint(1, 2), f"web-{draw.randrange(10 * count)}") for _ in range(count)})
    return [(space, name, f"{i:08x}-0000-{'0' * 30}{i:06x}"[:uid_length]) for i, (space, name) in enumerate(names)]


def changed(rows: Rows, seed: int) -> Rows:
    """Remove some pods, add some, and recreate some under their name."""
    draw = random.Random(seed)
    kept = [row for row in rows if draw.random() > 0.05]
    replaced = [(*row[:2], f"new-{i}-{row[2]}") if draw.random() < 0.05 else row for i, row in enumerate(kept)]
    fresh = {(draw.randint(1, 2), f"web-{draw.randrange(10**9)}") for _ in range(len(rows) // 20)}
    return sorted([*replaced, *((space, name, f"fresh-{name}") for space, name in fresh)], key=lambda row: row[:2])


def expected(before: Rows, after: Rows) -> tuple[set[tuple[int, int]], set[int], set[int], set[int]]:
    rows_of = {row[:2]: i for i, row in enumerate(before)}
    pairs = {(rows_of[row[:2]], j) for j, row in enumerate(after) if row[:2] in rows_of}
    other_uid = {j for i, j in pairs if before[i][2] != after[j][2]}
    gone = set(range(len(before))) - {i for i, _ in pairs}
    return pairs, other_uid, gone, set(range(len(after))) - {j for _, j in pairs}


def found(before: Rows, after: Rows) -> tuple[set[tuple[int, int]], set[int], set[int], set[int]] | None:
    result = align(columns(before), columns(after), NAMESPACES, most=len(before) + len(after))
    if result is None:
        return None
    pairs = list(zip(result.before.tolist(), result.after.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    return set(pairs), *(set(rows.tolist()) for rows in (result.other_uid, result.gone, result.new))


@pytest.mark.parametrize("count", [0, 1, 7, 3000])
@pytest.mark.parametrize("uid_length", [2, 36])
@pytest.mark.parametrize("seed", range(3))
def test_pods_are_matched_by_key_and_distinguished_by_uid(count: int, uid_length: int, seed: int) -> None:
    before = cluster(count, seed, uid_length)
    after = changed(before, seed)
    assert found(before, after) == expected(before, after)
    assert found(after, before) == expected(after, before)


def test_uids_that_many_pods_share_match_no_wrong_pod() -> None:
    before = [(space, name, "same") for space, name, _ in cluster(500, 1, 36)]
    after = [(space, name, "same") for space, name, _ in changed(before, 2)]
    assert found(before, after) == expected(before, after)


def test_a_table_in_another_order_is_matched_too() -> None:
    before = cluster(500, 1, 36)
    after = random.Random(0).sample(before, len(before))
    assert found(before, after) == expected(before, after)


def test_uids_replaced_in_place_are_seen_wherever_they_differ() -> None:
    before = cluster(500, 1, 36)
    after = [
        (*row[:2], row[2][: i % 36] + "x" + row[2][i % 36 + 1 :]) if i % 7 == 0 else row for i, row in enumerate(before)
    ]
    assert found(before, after) == expected(before, after)


@pytest.mark.parametrize("place", [0, 3, 6], ids=["first", "middle", "last"])
def test_a_pod_that_is_there_twice_makes_no_alignment(place: int) -> None:
    before = cluster(6, 1, 36)
    after = [*before[:place], (*before[2][:2], "another uid"), *before[place:]]
    assert found(before, after) is None


def test_more_changes_than_requested_make_no_alignment() -> None:
    before = cluster(100, 1, 36)
    assert align(columns(before), columns(before[50:]), NAMESPACES, most=49) is None
    assert align(columns(before), columns(before[50:]), NAMESPACES, most=50) is not None
