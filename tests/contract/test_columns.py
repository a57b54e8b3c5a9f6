"""The layout of columns: the page of the contract, the comments of the `.proto` files, and what the planner reads."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.builders.contract_columns import DTYPES, PROTOS, Column, bytes_fields, columns, fields
from tests.builders.contract_page import table
from tests.builders.device_snapshots import ClaimRow, DeviceWorld, gpu_slice
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.devices.model import AllocatedDevice, DeviceClaim, DeviceId, NodeSelection
from trimtab.planner.model.values import MountedVolume
from trimtab.planner.placement.hints import pod_groups
from trimtab.planner.scale_down.state import recall as recall_scale_down
from trimtab.planner.slack.places import recall as recall_slack
from trimtab.planner.snapshot.caches import UNCACHED
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

FILES = ("snapshot.proto", "devices.proto", "plan.proto")
OF_SNAPSHOT, OF_PLAN = [*columns("snapshot.proto"), *columns("devices.proto")], columns("plan.proto")
OF_STATE = [one for one in OF_PLAN if one.message != "PodCostShare"]  # which only answers have
OTHER_BYTES = {
    "SnapshotPart.data", "ScaleUpState.opaque", "ScaleDownState.opaque",
}  # fmt: skip
VOLUME = MountedVolume("v", 1, "", "", None, (), False, "")
SHARE = AllocatedDevice("r", DeviceId("d", "n", "x"), shared=True, consumed=(("memory", 1),))
CLAIM = ClaimRow("ns", "c", DeviceClaim(""), "a", "mine", (SHARE,), NodeSelection("n"), ("a",))
DEVICES = DeviceWorld(slices=(gpu_slice("m", 1), gpu_slice("n", 1)), claims=(CLAIM, CLAIM._replace(name="e")))


def name_of(column: Column) -> str:
    return f"{column.message}.{column.field}"


def test_the_page_of_the_contract_has_the_layout_that_the_comments_state() -> None:
    assert table("Columns") == [column.row for column in (*OF_SNAPSHOT, *OF_PLAN)]


def test_every_field_of_bytes_is_a_column_or_known_to_be_something_else() -> None:
    every = {".".join(name) for file in FILES for name in bytes_fields(file)}
    assert {name_of(column) for column in (*OF_SNAPSHOT, *OF_PLAN)} == every - OTHER_BYTES
    opaque = {".".join(name) for name in bytes_fields("opaque_state.proto")}
    assert {name_of(column) for column in columns("opaque_state.proto")} == opaque


@pytest.mark.parametrize("file", sorted(path.name for path in PROTOS.glob("*.proto")))
def test_no_comment_says_that_zero_or_an_empty_text_of_a_scalar_means_unknown(file: str) -> None:

    zero = re.compile(
        r'(?:\b0|""|\bNaN)(?: =| means) (?:unknown|not known|none, or not known)|if (?:it is|it was) (?:known|computed)'
    )
    found = [name for name, comment in fields(file).items() if name[2] != "bytes" and zero.search(comment)]
    assert found == []


def snapshot() -> snapshot_pb2.ClusterSnapshot:
    """Return a snapshot in which every column has elements, two of each length."""
    pods = {
        ("ns", name): PodRow(
            uid=f"uid-{name}", node="n", owner="o", labels={"app": name}, phase=2, flags=1, created_s=7, pinned="n",
            volumes=(VOLUME,), numbers=(("idle", 1.5),), deletion_s=9, deletion_cost=-3, pod_group="g", nominated="n",
        )
        for name in ("a", "b")
    }  # fmt: skip
    message = write(Cluster(pods=pods, nodes={"n": NodeRow()}, devices=DEVICES))
    assert all(getattr(part_of(message, column), column.field) for column in OF_SNAPSHOT)
    return message


def part_of(message: snapshot_pb2.ClusterSnapshot, column: Column) -> Any:
    parts = {
        "PodTable": message.pods,
        "LabelSets": message.label_sets,
        "ResourceSliceTable": message.devices.slices,
        "ResourceClaimTable": message.devices.claims,
    }
    return parts[column.message]


@pytest.mark.parametrize("column", [pytest.param(one, id=name_of(one)) for one in OF_SNAPSHOT])
def test_a_byte_too_many_in_a_column_of_the_snapshot_is_refused_with_its_name_and_its_size(column: Column) -> None:
    message = snapshot()
    part = part_of(message, column)
    setattr(part, column.field, getattr(part, column.field) + b"\0")
    with pytest.raises(SnapshotError) as caught:
        canonicalize(message)
    size = np.dtype(DTYPES[column.type]).itemsize
    assert caught.value.field == column.field
    if column.type != "utf8":
        assert f"values of {size} bytes" in caught.value.problem


@pytest.mark.parametrize("column", [pytest.param(one, id=name_of(one)) for one in OF_SNAPSHOT if one.length == "P"])
def test_an_empty_column_of_pods_is_refused_if_it_is_required_and_the_same_as_zeros_otherwise(column: Column) -> None:
    message, zeros = snapshot(), snapshot()
    message.pods.ClearField(column.field)  # type: ignore[arg-type]
    if not column.empty:
        with pytest.raises(SnapshotError) as caught:
            canonicalize(message)
        assert caught.value.field == column.field
        return
    assert (column.empty, column.sentinel[:4]) == ("0 for all", "0 = ")
    setattr(zeros.pods, column.field, bytes(message.pods.count * np.dtype(DTYPES[column.type]).itemsize))
    assert canonicalize(message).version == canonicalize(zeros).version != canonicalize(snapshot()).version


def test_mounts_and_numbers_may_be_missing_together_and_not_alone() -> None:
    for group in (["volume_pod", "volume"], ["number_pod", "number_key", "number"]):
        message = snapshot()
        for field in group[1:]:
            message.pods.ClearField(field)  # type: ignore[arg-type]
        with pytest.raises(SnapshotError):
            canonicalize(message)
        message.pods.ClearField(group[0])  # type: ignore[arg-type]
        assert len(canonicalize(message).pods.spec) == 2


@pytest.mark.parametrize(
    ("field", "values", "read"),
    [
        ("created", [2**33, 5], lambda pods: pods.created_s),
        ("deletion", [0, 2**33], lambda pods: pods.deletion_s),
        ("phase", [0, 4], lambda pods: pods.phase),
        ("flags", [127, 0], lambda pods: pods.flags),
        ("deletion_cost", [-(2**31), 2**31 - 1], lambda pods: pods.deletion_cost),
        ("number", [-0.25, float("nan")], lambda pods: np.where(np.isfinite(pods.number), pods.number, np.nan)),
    ],
)
def test_elements_are_read_as_the_type_of_their_column(
    field: str, values: list[float], read: Callable[[Any], Any]
) -> None:
    (column,) = (one for one in OF_SNAPSHOT if name_of(one) == f"PodTable.{field}")
    message = snapshot()
    setattr(message.pods, field, np.array(values, DTYPES[column.type]).tobytes())
    np.testing.assert_array_equal(read(canonicalize(message).pods), values)


def noted(column: Column, data: bytes) -> str:
    """Return the note on a state of which one column has other bytes."""
    if column.message == "SlackSetState":
        one = plan_pb2.SlackSetState(name="s", number=bytes(4), node=bytes(4))
        setattr(one, column.field, data)
        (note,) = recall_slack(plan_pb2.SlackState(strings=[""], sets=[one]), dict)[1]
        return note
    state = plan_pb2.ScaleDownState(strings=["", "n"])
    part = {"NodeTimes": state.unneeded, "FailedNodes": state.unremovable, "ScaleDownState": state}[column.message]
    setattr(part, column.field, data)
    made = canonicalize(snapshot())
    (note,) = recall_scale_down(state, made.nodes.name, pod_groups(made, (), UNCACHED), 1)[1]
    return note


@pytest.mark.parametrize("column", [pytest.param(one, id=name_of(one)) for one in OF_STATE])
def test_a_column_of_the_state_that_ends_within_an_element_or_has_one_more_than_those_parallel_to_it_is_noted(
    column: Column,
) -> None:
    size = np.dtype(DTYPES[column.type]).itemsize
    if size > 1:
        assert f"multiple of {size}" in noted(column, bytes(size - 1))
    if name_of(column) != "ScaleDownState.filled":  # a set of nodes: nothing is parallel to it
        assert "differ in length" in noted(column, bytes(2 * size))
