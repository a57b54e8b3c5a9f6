"""Cases of upstream's budgets, re-expressed: empty nodes first, then drains, all-or-nothing groups whole."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.parity.cluster_autoscaler.cases import load
from trimtab.planner.scale_down.removal import crop, room


def size_of(group: str) -> int:
    return int(group.removeprefix("atomic-")) if group.startswith("atomic-") else 0


@pytest.mark.parametrize("case", load("budgets"))
def test_as_many_nodes_go_as_in_upstream(case: dict[str, Any]) -> None:
    name_of = [group for half in ("empty", "drain") for group, size in case[half] for _ in range(size)]
    names = sorted(set(name_of))
    group = np.array([names.index(name) for name in name_of], np.int32)
    size = np.array([*map(size_of, names), 0], np.int64)
    nodes = np.arange(len(group), dtype=np.int32)
    empty_count = sum(size for _, size in case["empty"])
    bare, draining = case.get("in_progress", [0, 0])
    limits = case.get("limits", [10, 5])
    left = room(limits[0], limits[1], bare + draining, draining)
    chosen = crop(nodes[:empty_count], nodes[empty_count:], group, size, left)
    counts = [dict(Counter(name_of[node] for node in half.tolist())) for half in chosen]
    assert counts == case["expect"]
    assert (chosen.empty < empty_count).all()
