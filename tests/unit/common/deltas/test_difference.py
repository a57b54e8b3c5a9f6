"""A sequence of snapshots edited from one to the next, as by a caller that keeps one message."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.doubled_texts import doubled
from tests.builders.random_clusters import clusters
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, slack_requests, write
from trimtab.common.deltas import Interner, application, difference, writing
from trimtab.common.deltas.interning import KEYS, WITH_OWN_DICTIONARY
from trimtab.planner.model.values import Owner, PodRequirements, SlackRequest, TemplatePod
from trimtab.planner.service.version_cache import CachedSnapshot
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import snapshot_pb2 as pb

INT32 = "<i4"
COLUMNS = {
    "namespace": INT32,
    "spec": INT32,
    "label_set": INT32,
    "node": INT32,
    "owner": INT32,
    "pinned_node": INT32,
    "nominated_node": INT32,
    "pod_group": INT32,
    "created": "<i8",
    "deletion": "<i8",
    "phase": "u1",
    "flags": "u1",
    "deletion_cost": INT32,
}


def put(table: pb.PodTable, field: str, row: int, value: int) -> None:
    column = np.frombuffer(getattr(table, field), INT32).copy()
    if len(column):
        column[row % len(column)] = value
        setattr(table, field, column.tobytes())


def move(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    put(cluster.pods, "node", a, b % len(cluster.strings))


def respecify(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    put(cluster.pods, "spec", a, b % max(len(cluster.pod_specs), 1))


def create_again(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    if uids := bytearray(cluster.pods.uids):
        uids[a % len(uids)] = 65 + b % 26
        cluster.pods.uids = bytes(uids)


def leave(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Remove a pod from the table."""
    del b
    table = cluster.pods
    if not table.count:
        return
    gone = a % table.count
    rows = np.delete(np.arange(table.count), gone)
    for field in ("name", "uid"):
        lengths = np.frombuffer(getattr(table, f"{field}_lengths"), INT32)
        ends = np.cumsum(lengths)
        text = getattr(table, f"{field}s")
        setattr(table, f"{field}s", text[: ends[gone] - lengths[gone]] + text[ends[gone] :])
        setattr(table, f"{field}_lengths", lengths[rows].tobytes())
    for field, dtype in COLUMNS.items():
        if data := getattr(table, field):
            setattr(table, field, np.frombuffer(data, dtype)[rows].tobytes())
    mounting = np.frombuffer(table.volume_pod, INT32)
    kept = mounting != gone
    table.volume = np.frombuffer(table.volume, INT32)[kept].tobytes()
    table.volume_pod = (mounting[kept] - (mounting[kept] > gone)).astype(INT32).tobytes()
    table.count -= 1


def turn_unready(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    del b
    if cluster.nodes:
        node = cluster.nodes[a % len(cluster.nodes)]
        node.ready = not node.ready


def remove_node(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    del b
    if cluster.nodes:
        del cluster.nodes[a % len(cluster.nodes)]


def taint(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Use a new string."""
    if cluster.nodes:
        cluster.strings.append(f"taint-{b % 3}")
        cluster.nodes[a % len(cluster.nodes)].taints.add(
            key=len(cluster.strings) - 1, effect=pb.TaintEffect.NO_SCHEDULE
        )


def relabel(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Use a new label set."""
    sets = cluster.label_sets
    offsets = np.frombuffer(sets.offsets, INT32)
    if len(offsets) < 2:
        offsets = np.zeros(2, INT32)
    cluster.strings.append(f"label-{b % 3}")
    sets.keys += np.array([len(cluster.strings) - 1], INT32).tobytes()
    sets.values += np.array([0], INT32).tobytes()
    sets.offsets = np.append(offsets, offsets[-1] + 1).astype(INT32).tobytes()
    put(cluster.pods, "label_set", a, len(offsets) - 1)
    if cluster.nodes:
        cluster.nodes[a % len(cluster.nodes)].label_set = len(offsets) - 1


def evict(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    if cluster.pod_specs:
        evictions = cluster.actuation_status.recent_evictions
        eviction = evictions.add(namespace="n", name=f"p{a}", uid=f"u{a}", spec=b % len(cluster.pod_specs))
        eviction.evict_time.seconds = 1


def ask_for_slack(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Request room for `b` more pods of a workload; 0 = no longer."""
    cluster.ClearField("slack_requests")
    if b:
        room = SlackRequest(f"ReplicaSet/n/{a}", namespace="n", spec=PodRequirements(priority=a), amount=str(b))
        cluster.slack_requests.CopyFrom(slack_requests([room]))


def publish_devices(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Have a device class with another selector; 0 = no devices at all."""
    cluster.ClearField("devices")
    if b:
        cluster.devices.classes.add(name=f"class-{a}", selectors=[f"device.driver == {b}"])


def ask_for_capacity(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Have a ProvisioningRequest for `b` pods; 0 = none at all."""
    cluster.ClearField("capacity_requests")
    if b:
        request = cluster.capacity_requests.requests.add(namespace="n", name=f"request-{a}", class_name="c")
        request.pod_sets.add(count=b)
        cluster.capacity_requests.dictionary.pod_specs.add()


def turn_specs_around(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Reverse the dictionary of specs; its references then have another spec."""
    del a, b
    specs = [spec.SerializeToString() for spec in cluster.pod_specs]
    for row, data in zip(cluster.pod_specs, reversed(specs), strict=True):
        row.ParseFromString(data)


def number_specs_anew(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Reverse the dictionary of specs and adjust its references."""
    turn_specs_around(cluster, a, b)
    last = len(cluster.pod_specs) - 1
    cluster.pods.spec = (last - np.frombuffer(cluster.pods.spec, INT32)).astype(INT32).tobytes()
    for eviction in cluster.actuation_status.recent_evictions:
        if eviction.HasField("spec"):
            eviction.spec = last - eviction.spec
    for group in cluster.node_groups:
        for pod in group.template.daemonset_pods if group.HasField("template") else ():
            pod.spec = last - pod.spec
    for owner in cluster.owners:
        if owner.HasField("pod_template"):
            owner.pod_template.spec = last - owner.pod_template.spec


def number_strings_anew(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Use another index for one string of the pods' column."""
    del b
    if cluster.pods.count:
        column = np.frombuffer(cluster.pods.namespace, INT32)
        text = cluster.strings[column[a % len(column)]]
        cluster.strings.append(text)
        put(cluster.pods, "namespace", a, len(cluster.strings) - 1)


def turn_resources_around(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Reverse the dictionary of resources; every amount is then one of another resource."""
    del a, b
    cluster.resources[:] = reversed(list(cluster.resources))


def double_texts(cluster: pb.ClusterSnapshot, a: int, b: int) -> None:
    """Have every string and label set twice, in another order."""
    if len(cluster.strings) < 1000:
        cluster.CopyFrom(doubled(cluster, Random(100 * a + b)))


Edit = Callable[[pb.ClusterSnapshot, int, int], None]
EDITS: tuple[Edit, ...] = (
    *(move, respecify, create_again, leave, turn_unready, remove_node, taint, relabel, evict, ask_for_slack),
    *(publish_devices, ask_for_capacity),
    *(turn_specs_around, number_specs_anew, number_strings_anew, turn_resources_around, double_texts),
)
LINES = st.lists(
    st.lists(st.tuples(st.sampled_from(EDITS), st.integers(0, 50), st.integers(0, 50)), max_size=4),
    min_size=1,
    max_size=4,
)


@given(clusters(), LINES)
def test_each_difference_leads_to_the_whole_snapshot_bit_by_bit(
    cluster: Cluster, line: list[list[tuple[Edit, int, int]]]
) -> None:
    message = write(cluster, in_order=True)
    interner = Interner()
    last, kept = interner.intern(message), CachedSnapshot(canonicalize(message))
    for edits in line:
        for edit, a, b in edits:
            edit(message, a, b)
        try:
            whole = canonicalize(message)
        except SnapshotError:
            return
        interned = interner.intern(message)
        delta = difference(last, interned, interner)
        applied = whole if delta is None else apply_delta(kept.snapshot, delta, kept)
        assert applied.version == whole.version
        last, kept = interned, CachedSnapshot(applied, kept)


def with_daemonset_pod() -> pb.ClusterSnapshot:
    """Return a group whose template has a pod with one of three specs; strings and label sets are unique."""
    spec = PodRequirements(priority=5)
    group = Group(template=NodeRow(), daemonset_pods=(("default", spec, ()),))
    message = write(Cluster(pods={("default", "a"): PodRow()}, groups={"g": group}), in_order=True)
    message.ClearField("label_sets")  # its first two are both empty
    return message


def with_daemon_set() -> pb.ClusterSnapshot:
    """Return a DaemonSet whose template has one of three specs, and a ReplicaSet."""
    pod = TemplatePod("default", PodRequirements(priority=5), ())
    agent = Owner("a", "DaemonSet", "agent", "default", -1, -1, "apps/v1", pod_template=pod)
    web = Owner("w", "ReplicaSet", "web", "default", 1, 1, "apps/v1")
    message = write(Cluster(pods={("default", "a"): PodRow()}, owners={"a": agent, "w": web}), in_order=True)
    message.ClearField("label_sets")  # its first two are both empty
    return message


@pytest.mark.parametrize(("made", "table"), [(with_daemonset_pod, "node_groups"), (with_daemon_set, "owners")])
@pytest.mark.parametrize(
    ("edits", "changed"),
    [
        pytest.param([turn_specs_around], 1, id="another spec under the same index"),
        pytest.param([number_specs_anew], 0, id="the same spec under another index"),
        pytest.param([number_specs_anew, number_specs_anew], 0, id="the same spec under another index and back"),
    ],
)
def test_a_template_is_changed_where_the_specs_of_its_pods_are(
    made: Callable[[], pb.ClusterSnapshot], table: str, edits: list[Edit], changed: int
) -> None:
    message = made()
    interner = Interner()
    before, last = canonicalize(message), interner.intern(message)
    for edit in edits:
        edit(message, 0, 0)
        interned = interner.intern(message)
        delta = difference(last, interned, interner)
        assert delta is not None
        assert len(getattr(delta.changed, table)) == changed
        after = canonicalize(message)
        assert apply_delta(before, delta).version == after.version
        before, last = after, interned


def many_pods() -> pb.ClusterSnapshot:
    pods = {
        ("default", f"web-{i}"): PodRow(
            node=f"n{i % 7}", labels={"app": f"a{i % 5}"}, spec=PodRequirements(priority=0 if i % 50 else i)
        )
        for i in range(400)
    }
    return write(Cluster(pods=pods), in_order=True)


def told(before: pb.ClusterSnapshot, edit: Callable[[pb.ClusterSnapshot], Any]) -> pb.SnapshotDelta:
    after = pb.ClusterSnapshot()
    after.CopyFrom(before)
    edit(after)
    interner = Interner()
    delta = difference(interner.intern(before), interner.intern(after), interner)
    assert delta is not None
    return delta


def test_a_delta_of_one_pod_names_that_pod_and_what_it_uses() -> None:
    before = many_pods()
    delta = told(before, lambda after: put(after.pods, "node", 17, list(before.strings).index("n3")))
    assert delta.changed.pods.count == 1
    assert len(delta.changed.pod_specs) == 1
    assert {"default", "n3", "app"} < set(delta.changed.strings)
    assert len([text for text in delta.changed.strings if text]) < 8


def test_what_the_caller_changes_later_does_not_reach_back() -> None:
    message = many_pods()
    interner = Interner()
    before = interner.intern(message)
    put(message.pods, "node", 3, 0)
    after = interner.intern(message)
    delta = difference(before, after, interner)
    assert delta is not None
    assert delta.changed.pods.count == 1


def test_a_spec_of_equal_bytes_but_another_string_is_another_spec() -> None:
    before = many_pods()
    before.pod_specs[1].scheduler_name = len(before.strings)
    before.strings.append("one")

    def rename(after: pb.ClusterSnapshot) -> None:
        after.strings[-1] = "other"

    with_it = int((np.frombuffer(before.pods.spec, INT32) == 1).sum())
    assert 0 < with_it < 100
    assert told(before, rename).changed.pods.count == with_it


@pytest.mark.parametrize("index", [-1, 10**6], ids=["negative", "too large"])
@pytest.mark.parametrize("field", ["namespace", "spec", "label_set", "node"])
def test_a_dangling_index_of_a_pod_is_not_a_difference(field: str, index: int) -> None:
    message = many_pods()
    put(message.pods, field, 3, index)
    with pytest.raises(IndexError):
        Interner().intern(message)


@pytest.mark.parametrize("index", [-1, 10**6], ids=["negative", "too large"])
def test_an_index_of_a_row_into_nowhere_makes_no_delta_that_a_planner_would_take(index: int) -> None:
    before = many_pods()
    whole = canonicalize(before)

    def refused(edit: Callable[[pb.ClusterSnapshot], Any]) -> None:
        with pytest.raises((IndexError, ValueError)):
            apply_delta(whole, told(before, edit))

    refused(lambda after: after.nodes.add(name="n", label_set=index))
    refused(lambda after: after.actuation_status.recent_evictions.add(namespace="n", name="p", uid="u", spec=index))
    refused(lambda after: after.nodes.add(name="n").taints.add(key=index, effect=pb.TaintEffect.NO_SCHEDULE))


def test_no_field_of_a_snapshot_is_left_out() -> None:
    """A field added to the contract must also be added to differences and their application."""
    texts = {"names", "name_lengths", "uids", "uid_lengths"}
    for strings, plain in ((writing._STRINGS, writing._PLAIN), (application._STRINGS, application._PLAIN)):
        entries = {"volume_pod", "volume", "number_pod", "number_key", "number"}
        columns = {*strings, *plain, *texts, *entries, "count", "spec", "label_set"}
        assert columns == {field.name for field in pb.PodTable.DESCRIPTOR.fields}
    dictionaries = {"strings", "resources", "label_sets", "pod_specs", "volumes"}
    tables = {*KEYS, *dictionaries, *WITH_OWN_DICTIONARY, "pods", "actuation_status"}
    assert tables == {field.name for field in pb.ClusterSnapshot.DESCRIPTOR.fields}
    deleted = {field.name for field in pb.SnapshotDelta.DESCRIPTOR.fields} - {"changed", "deleted_pods"}
    assert deleted == {f"deleted_{table}" for table in KEYS}
