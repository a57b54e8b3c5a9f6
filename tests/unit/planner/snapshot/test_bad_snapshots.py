"""Violations of a table's contract are refused with table, row and field; random damage never causes a crash."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.messages import decode_snapshot
from tests.builders.random_clusters import clusters
from tests.builders.snapshots import int32, write
from trimtab.planner.service.warm_up import small_cluster
from trimtab.planner.snapshot.checks import WHOLE_TABLE, SnapshotError
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import snapshot_pb2 as pb

Damage = Callable[[pb.ClusterSnapshot], Any]
WRAPPING = [0, 0, 2**31 - 1, -(2**31), -2, 2]
"""The first and last value are valid, and every difference is positive in 32-bit arithmetic."""


def put(column: str, row: int, value: int, dtype: str = "<i4") -> Damage:
    """Write one value of a column of the pod table."""

    def damage(m: pb.ClusterSnapshot) -> None:
        values = np.frombuffer(getattr(m.pods, column), dtype).copy()
        values[row] = value
        setattr(m.pods, column, values.tobytes())

    return damage


def fill(column: str, value: int, dtype: str) -> Damage:
    """Fill an empty column of the pod table."""

    def damage(m: pb.ClusterSnapshot) -> None:
        setattr(m.pods, column, np.full(m.pods.count, value, dtype).tobytes())

    return damage


def row(table: str, index: int, **fields: Any) -> Damage:
    """Set fields of a row."""

    def damage(m: pb.ClusterSnapshot) -> None:
        for name, value in fields.items():
            setattr(getattr(m, table)[index], name, value)

    return damage


def change(table: str, act: Callable[[Any], Any]) -> Damage:
    """Return a change of a table."""
    return lambda m: act(getattr(m, table))


def sets(offsets: list[int], keys: list[int], values: list[int]) -> Damage:
    """Replace the label sets."""

    def damage(m: pb.ClusterSnapshot) -> None:
        labels = pb.LabelSets(offsets=int32(offsets), keys=int32(keys), values=int32(values))
        m.label_sets.CopyFrom(labels)

    return damage


def spec(act: Callable[[pb.PodSpec], Any]) -> Damage:
    """Return a change of the first pod spec."""
    return lambda m: act(m.pod_specs[0])


def node(act: Callable[[pb.Node], Any]) -> Damage:
    """Return a change of the second node."""
    return lambda m: act(m.nodes[1])


def twice(table: str) -> Damage:
    """Repeat the first row of a table at the end."""
    return lambda m: getattr(m, table).append(getattr(m, table)[0])


def rename_pod(m: pb.ClusterSnapshot) -> None:
    """Give two pods the same name."""
    m.pods.names = m.pods.names.replace(b"web-1", b"web-2")


def second_volume(m: pb.ClusterSnapshot) -> None:
    """Give a volume twice, with different content."""
    m.volumes.append(m.volumes[0])
    m.volumes[1].read_write_once_pod = True


def evict(**fields: Any) -> Damage:
    """Add a recent eviction."""
    whole = {"namespace": "default", "name": "x", "uid": "u"} | fields
    return lambda m: m.actuation_status.recent_evictions.add(**whole)


def daemon_set_with(**fields: Any) -> Damage:
    """Turn the first owner into a DaemonSet whose pod template has these fields."""

    def damage(m: pb.ClusterSnapshot) -> None:
        m.owners[0].kind = "DaemonSet"
        m.owners[0].pod_template.CopyFrom(pb.TemplatePod(**{"namespace": "default"} | fields))

    return damage


def sum_too_large(m: pb.ClusterSnapshot) -> None:
    """Request the maximum of one pod for 600 pods."""
    m.pod_specs[0].requests[0].amount = 2**53
    m.pods.CopyFrom(many_pods(600))


def many_pods(count: int) -> pb.PodTable:
    """Add pods on no node."""
    names = [f"pod-{i:04}".encode() for i in range(count)]
    table = pb.PodTable(count=count, namespace=int32([1] * count), spec=int32([0] * count), node=int32([0] * count))
    table.names = table.uids = b"".join(names)
    table.name_lengths = table.uid_lengths = int32(map(len, names))
    table.phase = bytes([1] * count)
    return table


def requirement(**fields: Any) -> Damage:
    """Add a requirement to the node affinity of the first spec."""
    return spec(lambda s: s.node_affinity.terms.add().match_expressions.add(**fields))


def delete_twice(m: pb.ClusterSnapshot) -> None:
    """Report one deletion twice."""
    for _ in range(2):
        m.actuation_status.deletions.add(node="a", node_group="g")


BUDGET = ("pod_disruption_budgets", 0, "namespace")
EVICTIONS = "actuation_status.recent_evictions"
CASES: list[tuple[str, Damage, tuple[str, int, str]]] = [
    ("first string is not empty", lambda m: m.strings.insert(0, "x"), ("strings", 0, "")),
    ("resource without name", lambda m: m.resources.append(""), ("resources", 3, "")),
    ("resource twice", lambda m: m.resources.append("cpu"), ("resources", 3, "")),
    ("label set 0 not empty", sets([0, 1], [1], [1]), ("label_sets", 0, "offsets")),
    ("offsets descend", sets([0, 0, 2, 1], [1, 2], [1, 1]), ("label_sets", 2, "offsets")),
    ("offsets beyond the entries", sets([0, 0, 3], [1, 2], [1, 1]), ("label_sets", 2, "offsets")),
    ("offsets end early", sets([0, 0, 1], [1, 2], [1, 1]), ("label_sets", 2, "offsets")),
    ("offsets whose differences wrap", sets(WRAPPING, [1, 2], [1, 1]), ("label_sets", 2, "offsets")),
    ("values shorter than keys", sets([0, 0, 2], [1, 2], [1]), ("label_sets", WHOLE_TABLE, "values")),
    ("label key out of range", sets([0, 0, 1], [99], [1]), ("label_sets", 0, "keys")),
    ("label value negative", sets([0, 0, 1], [1], [-1]), ("label_sets", 0, "values")),
    ("label key empty", sets([0, 0, 0, 0, 0, 1], [0], [1]), ("label_sets", 4, "keys")),
    ("label key twice", sets([0, 0, 0, 0, 2, 2], [1, 1], [1, 2]), ("label_sets", 3, "keys")),
    ("negative count", lambda m: setattr(m.pods, "count", -1), ("pods", 0, "count")),
    ("huge count", lambda m: setattr(m.pods, "count", 2**31 - 1), ("pods", 0, "count")),
    ("count too large", lambda m: setattr(m.pods, "count", 6), ("pods", WHOLE_TABLE, "namespace")),
    ("column too short", lambda m: setattr(m.pods, "spec", m.pods.spec[:-4]), ("pods", WHOLE_TABLE, "spec")),
    ("column of odd bytes", lambda m: setattr(m.pods, "owner", m.pods.owner[:-1]), ("pods", WHOLE_TABLE, "owner")),
    ("phase missing", lambda m: setattr(m.pods, "phase", b""), ("pods", WHOLE_TABLE, "phase")),
    ("namespace out of range", put("namespace", 2, 99), ("pods", 2, "namespace")),
    ("namespace empty", put("namespace", 2, 0), ("pods", 2, "namespace")),
    ("spec out of range", put("spec", 3, 2), ("pods", 3, "spec")),
    ("spec negative", put("spec", 3, -1), ("pods", 3, "spec")),
    ("label set out of range", put("label_set", 1, 5), ("pods", 1, "label_set")),
    ("node out of range", put("node", 4, -2), ("pods", 4, "node")),
    ("owner out of range", put("owner", 4, 1000), ("pods", 4, "owner")),
    ("pinned node out of range", fill("pinned_node", 99, "<i4"), ("pods", 0, "pinned_node")),
    ("phase unknown", put("phase", 1, 5, "u1"), ("pods", 1, "phase")),
    ("flags unknown", put("flags", 1, 128, "u1"), ("pods", 1, "flags")),
    ("created negative", fill("created", -1, "<i8"), ("pods", 0, "created")),
    ("deletion absurd", fill("deletion", 2**62, "<i8"), ("pods", 0, "deletion")),
    ("name empty", put("name_lengths", 1, 0), ("pods", 1, "name_lengths")),
    ("name too long", put("name_lengths", 1, 254), ("pods", 1, "name_lengths")),
    ("names do not add up", put("name_lengths", 1, 6), ("pods", WHOLE_TABLE, "names")),
    (
        "name with a slash",
        lambda m: setattr(m.pods, "names", m.pods.names.replace(b"web-1", b"web/1")),
        ("pods", 1, "names"),
    ),
    (
        "uid no UTF-8",
        lambda m: setattr(m.pods, "uids", m.pods.uids.replace(b"web-1", b"web\xff1")),
        ("pods", 1, "uids"),
    ),
    (
        "UTF-8 cut between two names",
        lambda m: setattr(m.pods, "names", m.pods.names.replace(b"2web", "é".encode() + b"eb")),
        ("pods", 1, "names"),
    ),
    ("pod twice", rename_pod, ("pods", 1, "names")),
    ("mount of no pod", put("volume_pod", 0, 5), ("pods", 0, "volume_pod")),
    ("mount of no volume", put("volume", 0, 1), ("pods", 0, "volume")),
    ("mounts of odd number", lambda m: setattr(m.pods, "volume", b""), ("pods", WHOLE_TABLE, "volume")),
    (
        "mounts not ascending",
        lambda m: (setattr(m.pods, "volume_pod", int32([3, 1])), setattr(m.pods, "volume", int32([0, 0]))),
        ("pods", 1, "volume_pod"),
    ),
    ("request of no resource", spec(lambda s: s.requests.add(resource=3)), ("pod_specs", 0, "requests.resource")),
    ("request twice", spec(lambda s: s.requests.add(resource=0)), ("pod_specs", 0, "requests.resource")),
    (
        "request negative",
        spec(lambda s: s.requests.add(resource=2, amount=-1)),
        ("pod_specs", 0, "requests.amount"),
    ),
    (
        "request absurd",
        spec(lambda s: s.requests.add(resource=2, amount=2**53 + 1)),
        ("pod_specs", 0, "requests.amount"),
    ),
    ("requests add up to too much", sum_too_large, ("pod_specs", WHOLE_TABLE, "")),
    (
        "selector twice",
        spec(lambda s: s.node_selector.extend([pb.LabelPair(key=1), pb.LabelPair(key=1, value=1)])),
        ("pod_specs", 0, "node_selector.key"),
    ),
    (
        "operator unknown",
        requirement(key=1, operator=9),
        ("pod_specs", 0, "node_affinity.terms.match_expressions.operator"),
    ),
    (
        "IN without values",
        requirement(key=1, operator=1),
        ("pod_specs", 0, "node_affinity.terms.match_expressions.values"),
    ),
    (
        "EXISTS with values",
        requirement(key=1, operator=3, values=[1]),
        ("pod_specs", 0, "node_affinity.terms.match_expressions.values"),
    ),
    (
        "GT with two values",
        requirement(key=1, operator=5, values=[1, 2]),
        ("pod_specs", 0, "node_affinity.terms.match_expressions.values"),
    ),
    (
        "requirement without key",
        requirement(operator=3),
        ("pod_specs", 0, "node_affinity.terms.match_expressions.key"),
    ),
    (
        "value out of range",
        requirement(key=1, operator=1, values=[77]),
        ("pod_specs", 0, "node_affinity.terms.match_expressions.values"),
    ),
    (
        "GT on pods",
        spec(lambda s: s.pod_affinity.add(topology_key=1).selector.requirements.add(key=1, operator=5, values=[1])),
        ("pod_specs", 0, "pod_affinity.selector.requirements.operator"),
    ),
    ("affinity without key", spec(lambda s: s.pod_affinity.add()), ("pod_specs", 0, "pod_affinity.topology_key")),
    (
        "spread without skew",
        spec(lambda s: s.topology_spread.add(topology_key=1)),
        ("pod_specs", 0, "topology_spread.max_skew"),
    ),
    (
        "spread over no domains",
        spec(lambda s: s.topology_spread.add(topology_key=1, max_skew=1, min_domains=0)),
        ("pod_specs", 0, "topology_spread.min_domains"),
    ),
    ("toleration's effect", spec(lambda s: s.tolerations.add(effect=4)), ("pod_specs", 0, "tolerations.effect")),
    ("toleration's operator", spec(lambda s: s.tolerations.add(operator=7)), ("pod_specs", 0, "tolerations.operator")),
    ("toleration's key", spec(lambda s: s.tolerations.add(key=-1)), ("pod_specs", 0, "tolerations.key")),
    ("port 0", spec(lambda s: s.host_ports.add(port=0)), ("pod_specs", 0, "host_ports.port")),
    ("port 65536", spec(lambda s: s.host_ports.add(port=65536)), ("pod_specs", 0, "host_ports.port")),
    ("protocol unknown", spec(lambda s: s.host_ports.add(port=1, protocol=1)), ("pod_specs", 0, "host_ports.protocol")),
    ("restart policy unknown", row("pod_specs", 0, restart_policy=4), ("pod_specs", 0, "restart_policy")),
    ("safe-to-evict unknown", row("pod_specs", 0, safe_to_evict=-1), ("pod_specs", 0, "safe_to_evict")),
    ("scheduler out of range", row("pod_specs", 0, scheduler_name=99), ("pod_specs", 0, "scheduler_name")),
    (
        "grace negative",
        spec(lambda s: s.termination_grace_period.FromSeconds(-1)),
        ("pod_specs", 0, "termination_grace_period"),
    ),
    (
        "timeout negative",
        spec(lambda s: s.topology_spread_timeout.FromSeconds(-1)),
        ("pod_specs", 0, "topology_spread_timeout"),
    ),
    ("delay negative", spec(lambda s: s.scale_up_delay.FromSeconds(-1)), ("pod_specs", 0, "scale_up_delay")),
    ("disk empty", spec(lambda s: s.exclusive_disks.append(0)), ("pod_specs", 0, "exclusive_disks")),
    ("volume without id", row("volumes", 0, id=""), ("volumes", 0, "id")),
    ("volume's state unknown", row("volumes", 0, state=5), ("volumes", 0, "state")),
    ("volume's driver", row("volumes", 0, driver=99), ("volumes", 0, "driver")),
    ("volume twice, differing", second_volume, ("volumes", 1, "id")),
    ("node without name", row("nodes", 1, name=""), ("nodes", 1, "name")),
    ("node twice", twice("nodes"), ("nodes", 3, "name")),
    ("node's label set", row("nodes", 1, label_set=5), ("nodes", 1, "label_set")),
    ("taint without key", node(lambda n: n.taints.add(effect=1)), ("nodes", 1, "taints.key")),
    ("taint without effect", node(lambda n: n.taints.add(key=1)), ("nodes", 1, "taints.effect")),
    ("taint's effect unknown", node(lambda n: n.taints.add(key=1, effect=4)), ("nodes", 1, "taints.effect")),
    ("too many amounts", node(lambda n: n.allocatable.append(1)), ("nodes", 1, "allocatable")),
    ("amount negative", node(lambda n: n.capacity.extend([1, -1])), ("nodes", 1, "capacity['memory']")),
    (
        "amount absurd",
        node(lambda n: n.allocatable.__setitem__(0, 2**60)),
        ("nodes", 1, "allocatable['cpu']"),
    ),
    (
        "time before 1970",
        node(lambda n: n.ready_transition_time.FromSeconds(-1)),
        ("nodes", 1, "ready_transition_time"),
    ),
    ("time absurd", node(lambda n: n.create_time.FromSeconds(10**11)), ("nodes", 1, "create_time")),
    ("limit twice", node(lambda n: n.attach_limits.add(driver=11)), ("nodes", 1, "attach_limits.driver")),
    ("limit negative", node(lambda n: n.attach_limits.add(driver=1, count=-1)), ("nodes", 1, "attach_limits.count")),
    ("group without id", row("node_groups", 0, id=""), ("node_groups", 0, "id")),
    ("group twice", twice("node_groups"), ("node_groups", 1, "id")),
    ("minimum negative", row("node_groups", 0, min_size=-1), ("node_groups", 0, "min_size")),
    ("maximum below minimum", row("node_groups", 0, min_size=6), ("node_groups", 0, "max_size")),
    ("target negative", row("node_groups", 0, target_size=-1), ("node_groups", 0, "target_size")),
    ("price NaN", row("node_groups", 0, price_per_hour=float("nan")), ("node_groups", 0, "price_per_hour")),
    ("price infinite", row("node_groups", 0, price_per_hour=float("inf")), ("node_groups", 0, "price_per_hour")),
    (
        "price too large",
        row("node_groups", 0, price_per_hour=1e308),
        ("node_groups", 0, "price_per_hour"),
    ),
    ("price negative", row("node_groups", 0, price_per_hour=-1), ("node_groups", 0, "price_per_hour")),
    ("health unknown", row("node_groups", 0, health=4), ("node_groups", 0, "health")),
    (
        "template's taint",
        change("node_groups", lambda t: t[0].template.taints.add(key=99, effect=1)),
        ("node_groups", 0, "template.taints.key"),
    ),
    ("owner without uid", row("owners", 0, uid=""), ("owners", 0, "uid")),
    ("owner without kind", row("owners", 0, kind=""), ("owners", 0, "kind")),
    ("owner twice", twice("owners"), ("owners", 1, "uid")),
    ("replicas negative", row("owners", 0, desired_replicas=-1), ("owners", 0, "desired_replicas")),
    *(
        (f"DaemonSet's {field}", daemon_set_with(**{field: value}), ("owners", 0, f"pod_template.{field}"))
        for field, value in (("spec", 99), ("label_set", -1), ("namespace", ""))
    ),
    ("budget twice", twice("pod_disruption_budgets"), ("pod_disruption_budgets", 1, "name")),
    ("budget without namespace", row("pod_disruption_budgets", 0, namespace=""), BUDGET),
    (
        "disruptions negative",
        change("pod_disruption_budgets", lambda t: setattr(t[0].status, "disruptions_allowed", -1)),
        ("pod_disruption_budgets", 0, "status.disruptions_allowed"),
    ),
    ("namespace without name", change("namespaces", lambda t: t.add()), ("namespaces", 0, "name")),
    ("namespace twice", change("namespaces", lambda t: (t.add(name="a"), t.add(name="a"))), ("namespaces", 1, "name")),
    (
        "namespace's labels",
        change("namespaces", lambda t: t.add(name="a", label_set=9)),
        ("namespaces", 0, "label_set"),
    ),
    ("eviction without uid", evict(uid=""), (EVICTIONS, 0, "uid")),
    ("eviction's spec", evict(spec=2), (EVICTIONS, 0, "spec")),
    ("eviction's labels", evict(label_set=-1), (EVICTIONS, 0, "label_set")),
    ("deletion twice", delete_twice, ("actuation_status.deletions", 1, "node")),
]


@pytest.mark.parametrize(("damage", "place"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_damage_is_refused_with_table_row_and_field(damage: Damage, place: tuple[str, int, str]) -> None:
    message = small_cluster()
    damage(message)
    with pytest.raises(SnapshotError) as caught:
        decode_snapshot(message.SerializeToString())
    assert (caught.value.table, caught.value.row, caught.value.field) == place
    assert str(caught.value).startswith(place[0])
    assert len(caught.value.problem) > 10


def test_the_undamaged_cluster_is_accepted() -> None:
    assert len(decode_snapshot(small_cluster().SerializeToString()).pods.spec) == 5


def test_a_few_bytes_cannot_ask_for_any_amount_of_memory() -> None:
    message = pb.ClusterSnapshot(resources=[f"r{i}" for i in range(5000)])
    for i in range(20_000):
        message.nodes.add(name=f"n{i}")
    assert canonicalize(message).nodes.allocatable.shape == (20_000, 4)
    message.nodes[7].allocatable.extend([1] * 5000)
    with pytest.raises(SnapshotError, match="amounts"):
        canonicalize(message)


@pytest.mark.parametrize(
    ("field", "key", "problem"),
    [
        pytest.param("deleted_pods", "default/absent", "base", id="pod unknown"),
        pytest.param("deleted_pods", "nowhere/gone", "base", id="namespace unknown"),
        pytest.param("deleted_pods", "gone", "base", id="pod without namespace"),
        pytest.param("deleted_nodes", "absent", "base", id="node unknown"),
        pytest.param("deleted_node_groups", "absent", "base", id="group unknown"),
        pytest.param("deleted_owners", "absent", "base", id="owner unknown"),
        pytest.param("deleted_pod_disruption_budgets", "default/absent", "base", id="budget unknown"),
        pytest.param("deleted_namespaces", "absent", "base", id="namespace not listed"),
        pytest.param("deleted_pods", "default/gone", "also changed", id="pod changed and deleted"),
        pytest.param("deleted_nodes", "a", "also changed", id="node changed and deleted"),
    ],
)
def test_a_key_that_cannot_be_deleted_is_refused(field: str, key: str, problem: str) -> None:
    delta = pb.SnapshotDelta(changed=small_cluster())
    getattr(delta, field).append(key)
    with pytest.raises(SnapshotError, match=problem) as caught:
        apply_delta(canonicalize(small_cluster()), delta)
    assert (caught.value.table, caught.value.row) == (field, 0)


@pytest.mark.parametrize(("field", "key"), [("deleted_pods", "default/gone"), ("deleted_nodes", "a")])
def test_a_key_deleted_twice_is_refused(field: str, key: str) -> None:
    delta = pb.SnapshotDelta()
    getattr(delta, field).extend([key, key])
    with pytest.raises(SnapshotError, match="twice") as caught:
        apply_delta(canonicalize(small_cluster()), delta)
    assert (caught.value.table, caught.value.row) == (field, 1)


COLUMNS = [field.name for field in pb.PodTable.DESCRIPTOR.fields if field.name != "count"]


@given(clusters(), st.sampled_from(COLUMNS), st.integers(0, 60), st.integers(-(2**31), 2**31 - 1))
def test_a_wrong_number_in_a_column_is_read_or_refused(cluster: Any, column: str, place: int, value: int) -> None:
    message = write(cluster)
    data = bytearray(getattr(message.pods, column))
    if len(data) >= 4:
        place = place % (len(data) // 4) * 4
        data[place : place + 4] = value.to_bytes(4, "little", signed=True)
    setattr(message.pods, column, bytes(data))
    with suppress(SnapshotError):
        canonicalize(message)
