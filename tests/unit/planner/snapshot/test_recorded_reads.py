"""What a cached value depends on is what was read to compute it: it never outlives a change of that."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_clusters import changes, clusters
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.caches import EVERYTHING, Reads, SnapshotKey, depend_on_everything, recorded
from trimtab.planner.snapshot.columns import NodeColumns, PodColumns, Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta

FIELDS = (
    *(name for name in Snapshot._fields if name not in {"pods", "nodes", "templates"}),
    *(f"pods.{name}" for name in PodColumns._fields),
    *(f"{table}.{name}" for table in ("nodes", "templates") for name in NodeColumns._fields),
)
"""All that can be read one by one; `dangling` counts as one here."""
WAYS: dict[str, Callable[[Snapshot], Any]] = {
    **{field: attrgetter(field) for field in FIELDS},
    # A table: what is read of it are its columns.
    "dangling": lambda view: tuple(view.dangling),
    "devices": lambda view: tuple(view.devices),
    "terminal pods": lambda view: view.pods.is_terminal(),
    "names of pods": lambda view: [view.pod_key(pod) for pod in range(len(view.pods.spec))],
    "pods as a tuple": lambda view: tuple(view.pods),
    "nodes by position": lambda view: view.nodes[2],
    "nodes with one replaced": lambda view: view.nodes._replace(ready=view.nodes.unschedulable),
    "tables as a dictionary": lambda view: sorted(view.templates._asdict()),
    "all of it": tuple,
    "everything": depend_on_everything,
}


class ReadKey(SnapshotKey[Any]):
    """The key of what is read."""


def look(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    return tuple(map(look, value)) if isinstance(value, tuple | list) else repr(value)


@given(st.data(), clusters(), st.lists(st.sampled_from(sorted(WAYS)), max_size=4), st.integers(1, 3))
@examples(150, 20)
def test_a_value_is_computed_again_whenever_something_that_it_read_has_changed(
    data: st.DataObject, cluster: Cluster, ways: list[str], steps: int
) -> None:
    def compute(view: Snapshot) -> Any:
        return [look(WAYS[way](view)) for way in ways]

    kept = CachedSnapshot(canonicalize(write(cluster)))
    for _ in range(steps):
        assert kept.get(ReadKey(), kept.snapshot, compute) == compute(kept.snapshot)
        following = data.draw(changes(cluster))
        snapshot = apply_delta(kept.snapshot, write_delta(cluster, following), kept)
        kept, cluster = CachedSnapshot(snapshot, kept), following
    assert kept.get(ReadKey(), kept.snapshot, compute) == compute(kept.snapshot)


EMPTY = canonicalize(write(Cluster()))


@pytest.mark.parametrize(
    ("way", "paths"),
    [
        *((field, {field}) for field in FIELDS if field not in {"dangling", "devices"}),
        ("terminal pods", {"pods.phase"}),
        ("pods as a tuple", {"pods"}),
        ("devices", {"devices"}),
        ("nodes by position", {"nodes"}),
        ("all of it", {EVERYTHING}),
        ("everything", {EVERYTHING}),
    ],
)
def test_exactly_what_is_read_is_noted(way: str, paths: set[str]) -> None:
    reads = Reads()
    WAYS[way](recorded(EMPTY, reads))
    assert reads.paths == paths


def test_a_column_is_the_snapshots_own_and_not_a_copy() -> None:
    view = recorded(EMPTY, Reads())
    assert view.pods.node is EMPTY.pods.node
    assert view.label_sets is EMPTY.label_sets
    assert len(view.pods) == len(EMPTY.pods)


def test_nothing_new_is_read_through_a_view_once_its_value_is_there() -> None:
    kept = CachedSnapshot(EMPTY)

    def compute(view: Snapshot) -> Snapshot:
        assert not len(view.pods.node)
        return view

    view = kept.get(ReadKey(), EMPTY, compute)
    assert view.pods.node is EMPTY.pods.node
    with pytest.raises(RuntimeError, match=r"pods\.spec"):
        view.pods.spec  # noqa: B018
    with pytest.raises(RuntimeError, match="nodes"):
        tuple(view.nodes)


def test_a_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AttributeError, match="spex"):
        recorded(EMPTY, Reads()).spex  # type: ignore[attr-defined]  # noqa: B018
