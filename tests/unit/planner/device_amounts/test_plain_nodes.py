"""Equal plain nodes are read once: their pools are those found by looking at each node by itself."""

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.device_snapshots import GPU_CLASS, DeviceWorld
from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.device_amounts.cluster_devices import features_of, slices_of
from trimtab.planner.device_amounts.node_pools import NodePoolReader, nodes_like_others
from trimtab.planner.devices.model import (
    AttributeKind,
    DeviceAttribute,
    DeviceContent,
    DeviceSet,
    DeviceSlice,
    DeviceTaint,
    NodeSelection,
)
from trimtab.planner.devices.taint_rules import TaintRule
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize

NODES = ("a", "b", "c", "d", "e", "f")
SETS = tuple(
    DeviceSet(names, (DeviceContent((DeviceAttribute("model", AttributeKind.STRING, model),)),) * len(names))
    for names in ((), ("gpu-0",), ("gpu-0", "gpu-1"), ("gpu-0", "gpu-0"))
    for model in ("small", "large")
)


@st.composite
def worlds(draw: st.DrawFn) -> DeviceWorld:
    """Slices of some nodes, most of them plain."""
    slices = []
    for at in range(draw(st.integers(0, 12))):
        node = draw(st.sampled_from((*NODES, "gone")))
        pool = draw(st.sampled_from((node, node, node, "common")))
        slices.append(
            DeviceSlice(
                f"s{at}",
                draw(st.sampled_from(("x.example.com", "y.example.com"))),
                pool,
                draw(st.sampled_from((1, 1, 1, 2))),
                draw(st.sampled_from((1, 1, 1, 2))),
                NodeSelection(node) if draw(st.integers(0, 30)) else NodeSelection(all_nodes=True),
                devices=draw(st.sampled_from(SETS)),
            )
        )
    taint = DeviceTaint("off", "", "NoSchedule")
    rule = TaintRule(None, draw(st.sampled_from((None, *NODES))), None, taint)
    return DeviceWorld(tuple(slices), (GPU_CLASS,), taint_rules=(rule,) if draw(st.booleans()) else ())


def snapshot_of(world: DeviceWorld) -> Snapshot:
    return canonicalize(write(Cluster(nodes={name: NodeRow() for name in NODES}, devices=world)))


@given(worlds())
def test_pools_read_by_columns_are_those_read_node_by_node(world: DeviceWorld) -> None:
    snapshot = snapshot_of(world)
    devices, names = snapshot.devices, snapshot.nodes.name
    ours = NodePoolReader(features_of(devices)).read_cluster(devices, names, lambda _: ())
    naive = NodePoolReader(features_of(devices)).read(slices_of(devices), names, lambda _: ())
    assert ours.layout.tolist() == naive.layout.tolist()
    assert (ours.layouts, ours.shared, ours.error) == (naive.layouts, naive.shared, naive.error)
    assert [(one.names, one.contents) for one in ours.tables] == [(one.names, one.contents) for one in naive.tables]
    assert ours.place == naive.place


def test_nodes_with_equal_slices_are_read_once() -> None:
    slices = [DeviceSlice(name, "x.example.com", name, nodes=NodeSelection(name), devices=SETS[4]) for name in NODES]
    snapshot = snapshot_of(DeviceWorld(tuple(slices)))
    assert nodes_like_others(snapshot.devices, NODES) == {at: (0, [at]) for at in range(1, len(NODES))}
