"""A snapshot made by a delta shares exactly the equal parts with its base."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.random_clusters import changes, clusters
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write, write_delta
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.planner.snapshot.pod_specs import SpecReader, read_pod_specs
from trimtab.planner.snapshot.sealing import share
from trimtab.v1 import snapshot_pb2 as pb


def parts(value: Any, place: str = "") -> dict[str, Any]:
    """Yield every column, text and table of rows by its path."""
    if not hasattr(value, "_fields"):
        return {place: value}
    found: dict[str, Any] = {}
    for name, item in zip(value._fields, value, strict=True):
        found |= parts(item, f"{place}.{name}")
    return found


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return bool(one == other)


@given(clusters().flatmap(lambda before: st.tuples(st.just(before), changes(before))), st.integers(0, 99))
def test_what_is_equal_is_the_very_same_object(pair: tuple[Cluster, Cluster], seed: int) -> None:
    before, after = pair
    base = canonicalize(write(before, seed))
    applied = apply_delta(base, write_delta(before, after, seed))
    old, new = parts(base), parts(applied)
    for place in old:
        assert (new[place] is old[place]) == equal(new[place], old[place]), place


@given(
    clusters().flatmap(lambda first: st.tuples(st.just(first), st.lists(changes(first), min_size=1, max_size=4))),
    st.integers(0, 1),
)
@examples(100, 10)
def test_a_line_of_deltas_gives_the_same_whether_specs_read_before_are_known_or_not(
    line: tuple[Cluster, list[Cluster]], seeds: int
) -> None:
    """Numbers of strings and resources are the same in each delta, or others each time."""
    before, following = line
    base = canonicalize(write(before))
    known = None
    for number, after in enumerate([*following, before, *following]):
        delta = write_delta(before, after, seeds * number)
        reader = SpecReader(known)
        applied = apply_delta(base, delta, read_specs=reader.read)
        assert applied.version == apply_delta(base, delta).version == canonicalize(write(after)).version
        assert applied.specs == canonicalize(write(after)).specs
        before, base, known = after, applied, reader.known


def test_known_specs_are_read_again_if_their_bytes_mean_something_else() -> None:
    spec = pb.PodSpec(requests=[pb.ResourceAmount(resource=0, amount=1)], scheduler_name=1)
    reader = SpecReader()
    for strings, resources in (
        (["", "a"], ["cpu"]),
        (["", "b"], ["cpu"]),
        (["", "b"], ["gpu"]),
        (["", "b", "c"], ["gpu", "cpu"]),
        (["", "b"], ["gpu"]),
    ):
        for _ in range(2):
            assert reader.read([spec, spec], strings, resources) == read_pod_specs([spec] * 2, strings, resources)
    with pytest.raises(SnapshotError, match="not an index into strings"):
        reader.read([spec], [""], ["gpu"])


@given(clusters(), st.integers(0, 99))
def test_a_delta_that_changes_nothing_gives_the_base_itself(cluster: Cluster, seed: int) -> None:
    base = canonicalize(write(cluster, seed))
    assert share(base, canonicalize(write(cluster, seed + 1))) is base


def test_a_moved_pod_leaves_all_tables_but_its_column() -> None:
    nodes = {name: NodeRow(labels={"zone": name}) for name in ("n1", "n2")}
    before = Cluster(pods={("default", name): PodRow(node="n1") for name in "abc"}, nodes=nodes)
    after = Cluster(pods=before.pods | {("default", "b"): PodRow(node="n2")}, nodes=nodes)
    base = canonicalize(write(before))
    applied = apply_delta(base, write_delta(before, after))
    assert applied.nodes is base.nodes
    assert applied.specs is base.specs
    assert applied.pods.name is base.pods.name
    assert [
        name for name, old, new in zip(base.pods._fields, base.pods, applied.pods, strict=True) if old is not new
    ] == ["node"]
