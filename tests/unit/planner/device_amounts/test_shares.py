"""The share of its devices that a node uses, and what it means for scale-down."""

from dataclasses import replace

import numpy as np

from tests.builders.device_snapshots import DRIVER, ClaimRow, claim, device, gpu_slice, partitioned, world
from tests.builders.rows import NodeRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.device_amounts.shares import device_shares
from trimtab.planner.devices.model import (
    AllocatedDevice,
    DeviceContent,
    DeviceId,
    DeviceSet,
    DeviceSlice,
    NodeSelection,
)
from trimtab.planner.snapshot.decode import canonicalize


def shares(*slices: DeviceSlice, held: tuple[AllocatedDevice, ...] = ()) -> list[float | None]:
    claims = (ClaimRow("ns", "c", claim(), devices=held),) if held else ()
    nodes = {"a": NodeRow(), "b": NodeRow()}
    found = device_shares(canonicalize(write(Cluster(nodes=nodes, devices=world(*slices, claims=claims)))))
    return [None if np.isnan(one) else float(one) for one in found]


def test_a_node_counts_by_the_pool_of_its_own_that_is_used_most() -> None:
    other = replace(gpu_slice("a", 2, driver="other"), pool="more")
    second = AllocatedDevice("gpu", DeviceId("other", "more", "gpu-1"))
    held = (device("a", 0), second)
    assert shares(gpu_slice("a", 4), other, held=held) == [0.5, None]
    assert shares(gpu_slice("a", 4), gpu_slice("b", 2), held=(device("b", 0), device("b", 1))) == [0.0, 1.0]


def test_devices_for_administration_and_those_that_several_nodes_reach_do_not_count() -> None:
    admin = replace(device("a", 0), admin_access=True)
    assert shares(gpu_slice("a", 2), held=(admin,)) == [0.0, None]
    everywhere = NodeSelection(all_nodes=True)
    network = DeviceSlice("net", DRIVER, "net", 1, 1, everywhere, devices=DeviceSet(("x",), (DeviceContent(),)))
    assert shares(network) == [None, None]


def test_partitions_count_by_their_counters() -> None:
    half = AllocatedDevice("gpu", DeviceId(DRIVER, "a", "left"))
    whole = AllocatedDevice("gpu", DeviceId(DRIVER, "a", "whole"))
    assert shares(*partitioned("a"), held=(half,)) == [0.5, None]
    assert shares(*partitioned("a"), held=(whole,)) == [1.0, None]
