"""Cases of upstream's budgets, re-expressed: empty nodes first, then drains, all-or-nothing groups whole."""

from collections import Counter
from itertools import count
from typing import Any

import pytest

from tests.parity.cluster_autoscaler.cases import load
from trimtab.planner.scale_down.removal import Bucket, crop, room


def size_of(group: str) -> int:
    return int(group.removeprefix("atomic-")) if group.startswith("atomic-") else 0


@pytest.mark.parametrize("case", load("budgets"))
def test_as_many_nodes_go_as_in_upstream(case: dict[str, Any]) -> None:
    numbers = count()
    group_of: dict[int, str] = {}

    def buckets(rows: list[list[Any]]) -> tuple[Bucket, ...]:
        built = []
        for group, size in rows:
            nodes = tuple(next(numbers) for _ in range(size))
            group_of.update(dict.fromkeys(nodes, group))
            built.append(Bucket(group, nodes, size_of(group) > 0, size_of(group)))
        return tuple(built)

    empty, drain = buckets(case["empty"]), buckets(case["drain"])
    bare, draining = case.get("in_progress", [0, 0])
    limits = case.get("limits", [10, 5])
    chosen = crop(empty, drain, room(limits[0], limits[1], bare + draining, draining))
    found = [dict(Counter(group_of[node] for node in nodes)) for nodes in (chosen.empty, chosen.drain)]
    assert found == case["expect"]
    assert set(chosen.empty) <= {node for bucket in empty for node in bucket.nodes}
