"""New nodes of a group are like its healthy nodes, whatever happened to one of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.builders.kubernetes import Json, node, node_group, snapshot_of
from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.placement.group_templates import group_templates
from trimtab.planner.simulation.virtual_rows import GroupTemplate
from trimtab.planner.snapshot.decode import canonicalize

NOW_NS = 1_800_000_000 * 10**9
POOL = {"pool": "a"}
GPU = {"nvidia.com/gpu": "8"}


def member(name: str, cpu: str = "8", *, labels: dict[str, str] | None = None, day: int = 1, **more: Any) -> Json:
    return node(name, cpu, labels=POOL | (labels or {}), created=f"2026-01-{day:02}T00:00:00Z", **more)


def new_node(*nodes: Json) -> GroupTemplate:
    snapshot = canonicalize(snapshot_of([*nodes, node_group("g", selector=POOL)]))
    (found,) = group_templates(snapshot, ScaleUpSettings(), np.zeros(len(nodes), bool), NOW_NS)
    assert found is not None
    return found


def keys(found: GroupTemplate) -> Sequence[str]:
    return [taint.key for taint in found.template.taints]


@pytest.mark.parametrize("at", range(3))
def test_a_taint_that_somebody_put_on_one_node_is_not_that_of_new_ones(at: int) -> None:
    taints: list[list[str]] = [[], [], []]
    taints[at] = ["maintenance:NoSchedule"]
    found = new_node(*(member(f"n{row}", taints=[*one, "pool=a:NoSchedule"]) for row, one in enumerate(taints)))
    assert keys(found) == ["pool"]
    assert (
        found.note == "node group g: only some of its nodes have the taint maintenance, so new ones are planned without"
    )


@pytest.mark.parametrize("at", range(3))
def test_a_node_that_lost_its_gpus_is_not_the_model(at: int) -> None:
    found = new_node(*(member(f"n{row}", extra={} if row == at else GPU) for row in range(3)))
    assert dict(found.template.allocatable)["nvidia.com/gpu"] == 8
    assert not found.note


def test_a_resource_that_only_one_node_has_is_not_that_of_new_ones() -> None:
    found = new_node(member("n0", extra=GPU), member("n1"), member("n2"))
    assert "nvidia.com/gpu" not in dict(found.template.allocatable)


def test_of_several_sizes_the_smallest_counts_and_a_note_says_so() -> None:
    found = new_node(member("n0", "16"), member("n1", "4"), member("n2", "16"))
    assert dict(found.template.allocatable)["cpu"] == 4000
    assert found.note == "node group g: its nodes differ in size; new ones are planned as small as n1"


def test_what_systems_keep_for_themselves_makes_no_other_size() -> None:
    assert not new_node(member("n0", "7.9"), member("n1", "7.8")).note


def test_a_label_that_only_one_node_has_is_not_that_of_new_ones() -> None:
    found = new_node(member("n0", labels={"debug": "yes"}), member("n1"), member("n2"))
    assert "debug" not in dict(found.template.labels)
    assert dict(found.template.labels)["pool"] == "a"


def test_what_the_newest_two_nodes_agree_on_is_that_of_new_ones() -> None:
    old = [member(f"old{at}", extra=GPU) for at in range(5)]
    one_new = new_node(*old, member("new0", day=20, taints=["other:NoSchedule"]))
    assert (dict(one_new.template.allocatable).get("nvidia.com/gpu"), keys(one_new)) == (8, [])
    found = new_node(*old, *(member(f"new{at}", day=20 + at, taints=["other:NoSchedule"]) for at in range(2)))
    assert (dict(found.template.allocatable).get("nvidia.com/gpu"), keys(found)) == (None, ["other"])
    assert found.note == (
        "node group g: its newest nodes came with the taint other, and so do planned ones; its newest nodes"
        " came without nvidia.com/gpu, so new ones are planned the same way"
    )
