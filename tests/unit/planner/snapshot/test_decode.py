"""Decoding against its naive twin, canonical form, and deltas that equal the whole snapshot bit by bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.messages import decode_snapshot
from tests.builders.random_clusters import changes, clusters
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write, write_delta
from tests.reference.snapshot.decode import read_rows
from trimtab.planner.model.values import Owner, PodRequirements
from trimtab.planner.snapshot.columns import Dangling, NodeColumns, Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta, parse_delta


def mounts_of(s: Snapshot) -> dict[int, list[Any]]:
    """Return volumes by pod."""
    mounts: dict[int, list[Any]] = {}
    for pod, volume in zip(s.pods.volume_pod.tolist(), s.pods.volume.tolist(), strict=True):
        mounts.setdefault(pod, []).append(s.volumes[volume])
    return mounts


def numbers_of(s: Snapshot) -> dict[int, list[tuple[str, float]]]:
    """Return keys and numbers of annotations by pod."""
    numbers: dict[int, list[tuple[str, float]]] = {}
    for pod, key, value in zip(s.pods.number_pod.tolist(), s.pods.number_key.tolist(), s.pods.number, strict=True):
        numbers.setdefault(pod, []).append((s.strings[key], float(value)))
    return numbers


def rows_of(s: Snapshot) -> dict[str, list[Any]]:
    """Return a snapshot's columns as rows like those of the naive twin."""
    d, node_names, group_ids = s.dangling, list(s.nodes.name), [group.id for group in s.groups]
    owners = texts_of(s.pods.owner, [owner.uid for owner in s.owners], d.owner)
    to_nodes = ("node", "pinned", "nominated")
    nodes, pinned, nominated = (texts_of(getattr(s.pods, one), node_names, getattr(d, one)) for one in to_nodes)
    mounts, numbers = mounts_of(s), numbers_of(s)
    groups_of_pods = dict(zip(s.pods.group_pod.tolist(), s.pods.group_name.tolist(), strict=True))
    pods = [
        (
            s.strings[s.pods.namespace[i]],
            s.pods.name.get(i),
            s.pods.uid.get(i),
            s.specs[s.pods.spec[i]],
            labels_of(s, s.pods.label_set[i]),
            nodes[i],
            owners[i],
            *(int(getattr(s.pods, name)[i]) for name in ("created_s", "deletion_s", "phase", "flags", "deletion_cost")),
            pinned[i],
            tuple(sorted(mounts.get(i, []), key=lambda volume: volume.id)),
            tuple(sorted(numbers.get(i, []))),
            s.strings[groups_of_pods[i]] if i in groups_of_pods else "",
            nominated[i],
        )
        for i in range(len(s.pods.spec))
    ]
    templates = node_rows(s, s.templates, [""] * len(s.templates.name))
    groups = [
        (
            *(g.id, g.min_size, g.max_size, g.target_size, templates[g.template] if g.template >= 0 else None),
            *(repr(g.price_per_hour), g.health, g.backoff_until_ns, g.zero_or_max),
            *(g.last_scale_up_ns, g.last_deletion_ns, g.last_failure_ns),
            sorted(str(tuple(pod)) for pod in g.daemonset_pods),
        )
        for g in s.groups
    ]
    return {
        "pods": pods,
        "nodes": node_rows(s, s.nodes, texts_of(s.nodes.group, group_ids, d.group)),
        "groups": groups,
        "owners": list(s.owners),
        "budgets": list(s.budgets),
        "namespaces": [(name, labels_of(s, i)) for name, i in s.namespaces],
        "pod_groups": list(s.pod_groups),
        "deletions": list(s.deletions),
        "evictions": [
            (e.namespace, e.name, e.uid, spec_of(s, e.spec), labels_of(s, e.label_set), e.owner, e.evict_ns)
            for e in s.recent_evictions
        ],
    }


def spec_of(s: Snapshot, spec: int) -> Any:
    return s.specs[spec] if spec >= 0 else None


def texts_of(column: Any, names: list[str], dangling: Dangling) -> list[str]:
    texts = ["" if i < 0 else names[i] for i in column.tolist()]
    for row, name in zip(dangling.row.tolist(), dangling.name.tolist(), strict=True):
        assert column[row] < 0
        texts[row] = dangling.names[name]
    return texts


def labels_of(s: Snapshot, index: int) -> tuple[tuple[str, str], ...]:
    entries = range(s.label_sets.offsets[index], s.label_sets.offsets[index + 1])
    return tuple((s.strings[s.label_sets.keys[i]], s.strings[s.label_sets.values[i]]) for i in entries)


def node_rows(s: Snapshot, nodes: NodeColumns, groups: list[str]) -> list[Any]:
    def amounts(row: Any) -> tuple[tuple[str, int], ...]:
        return tuple(sorted((name, int(amount)) for name, amount in zip(s.resources, row, strict=True) if amount))

    return [
        (
            nodes.name[i],
            nodes.provider_id[i],
            labels_of(s, nodes.label_set[i]),
            nodes.taint_sets[nodes.taint_set[i]],
            bool(nodes.unschedulable[i]),
            amounts(nodes.allocatable[i]),
            amounts(nodes.capacity[i]),
            bool(nodes.ready[i]),
            int(nodes.ready_ns[i]),
            int(nodes.created_ns[i]),
            groups[i],
            bool(nodes.scale_down_disabled[i]),
            bool(nodes.deletion_delayed[i]),
            bool(nodes.do_not_disrupt[i]),
            bool(nodes.being_deleted[i]),
            None if np.isnan(nodes.own_price[i]) else float(nodes.own_price[i]),
            *nodes.traits[i][:-1],
        )
        for i in range(len(nodes.name))
    ]


def assert_equal(left: Any, right: Any, place: str = "snapshot") -> None:
    """Compare bit by bit: values, types, shapes, contiguity."""
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype, place
        assert left.shape == right.shape, place
        assert left.tobytes() == right.tobytes(), place
        for array in (left, right):
            assert array.flags.c_contiguous, place
            assert array.flags.writeable, place
    elif isinstance(left, tuple) and hasattr(left, "_fields"):
        for name, one, other in zip(left._fields, left, right, strict=True):
            assert_equal(one, other, f"{place}.{name}")
    else:
        assert repr(left) == repr(right), place


@given(clusters(), st.integers(0, 99))
def test_columns_say_what_the_naive_twin_reads(cluster: Cluster, seed: int) -> None:
    message = write(cluster, seed)
    assert rows_of(decode_snapshot(message.SerializeToString())) == read_rows(message)


@given(clusters(), st.integers(0, 99), st.booleans())
def test_equal_content_has_equal_columns_however_it_was_numbered(cluster: Cluster, seed: int, in_order: bool) -> None:
    assert_equal(canonicalize(write(cluster, seed)), canonicalize(write(cluster, seed + 1, in_order)))


@given(clusters())
def test_dictionaries_are_sorted_without_duplicates_and_hold_only_what_is_used(cluster: Cluster) -> None:
    s = canonicalize(write(cluster))
    assert list(s.strings) == sorted(set(s.strings))
    columns = (s.pods.namespace, s.label_sets.keys, s.label_sets.values, s.pods.number_key, s.pods.group_name)
    used = {s.strings[i] for column in columns for i in column}
    assert used == set(s.strings)
    sets = [labels_of(s, i) for i in range(len(s.label_sets.offsets) - 1)]
    assert sets == sorted(set(sets))
    assert sets[0] == ()
    assert len(set(s.specs)) == len(s.specs)
    evicted = {s.specs[e.spec] for e in s.recent_evictions if e.spec >= 0}
    assert {s.specs[i] for i in s.pods.spec} | evicted == set(s.specs)
    keys = [(s.strings[s.pods.namespace[i]].encode(), s.pods.name.get(i).encode()) for i in range(len(s.pods.spec))]
    assert keys == sorted(keys)
    assert s.resources[:4] == ("cpu", "memory", "ephemeral-storage", "pods")


@given(clusters().flatmap(lambda before: st.tuples(st.just(before), changes(before))), st.integers(0, 99))
def test_a_delta_applied_equals_the_whole_snapshot_bit_by_bit(pair: tuple[Cluster, Cluster], seed: int) -> None:
    before, after = pair
    delta = parse_delta(write_delta(before, after, seed).SerializeToString())
    assert_equal(apply_delta(canonicalize(write(before, seed)), delta), canonicalize(write(after, seed + 1)))


@given(clusters(), clusters())
@examples(100, 15)
def test_versions_differ_when_content_does(one: Cluster, other: Cluster) -> None:
    first, second = write(one, 1), write(other, 2)
    same = read_rows(first) == read_rows(second)
    assert (canonicalize(first).version == canonicalize(second).version) == same


def test_a_pod_whose_node_comes_back_is_on_it_again() -> None:
    whole = Cluster(
        pods={("default", "p"): PodRow(node="n1", owner="o1", pinned="n1", nominated="n1")},
        nodes={"n1": NodeRow(group="g1")},
        groups={"g1": Group()},
        owners={"o1": Owner("o1", "Job", "x", "default", 1, 1, "")},
    )
    bare = replace(whole, nodes={}, groups={}, owners={})
    without = apply_delta(canonicalize(write(whole)), write_delta(whole, bare))
    assert (without.pods.node[0], without.pods.owner[0]) == (-2, -2)
    assert (without.pods.pinned[0], without.pods.nominated[0]) == (-2, -2)
    assert_equal(apply_delta(without, write_delta(bare, whole)), canonicalize(write(whole)))


def test_an_empty_message_is_an_empty_cluster() -> None:
    s = decode_snapshot(b"")
    assert (len(s.pods.spec), s.nodes.name, s.specs) == (0, (), ())
    assert s.label_sets.offsets.tolist() == [0, 0]


def test_many_pods_in_any_order_come_out_sorted() -> None:
    pods = {(f"ns-{i % 7}", f"pod-{i * 7919 % 1000}"): PodRow(uid=f"u{i}") for i in range(1000)}
    one, other = canonicalize(write(Cluster(pods=pods), 1)), canonicalize(write(Cluster(pods=pods), 2, in_order=True))
    assert_equal(one, other)
    assert one.pods.uid.get(0) == pods[sorted(pods)[0]].uid


def test_amounts_of_zero_and_repeated_tolerations_make_no_other_spec() -> None:
    message = write(Cluster(pods={("a", "b"): PodRow(spec=PodRequirements(requests=(("cpu", 5),)))}))
    for spec in message.pod_specs:
        spec.requests.add(resource=list(message.resources).index("pods"), amount=0)
    assert canonicalize(message).specs == (PodRequirements(requests=(("cpu", 5),)),)


@pytest.mark.parametrize("price", [0.0, -0.0], ids=["zero", "minus zero"])
def test_a_price_of_zero_is_one_price(price: float) -> None:
    message = write(Cluster(groups={"g": Group(price=price)}))
    assert repr(canonicalize(message).groups[0].price_per_hour) == "0.0"


@pytest.mark.parametrize("accent", ["", "é"], ids=["ascii", "not ascii"])
def test_the_names_of_many_pods_are_those_of_each(accent: str) -> None:
    found = canonicalize(write(Cluster(pods={(f"n{at % 3}", f"p{accent}{at}"): PodRow() for at in range(40)})))
    every = np.arange(40, dtype=np.int32)
    assert found.pod_keys(every) == [found.pod_key(pod) for pod in range(40)]
    assert found.pod_keys(every[7:9]) == [found.pod_key(7), found.pod_key(8)]
    assert found.pod_keys(every[:0]) == []
