"""A node must have the CSI driver of a volume that asks for it."""

import pytest

from tests.builders.fitting import fitting, pending, reasons
from tests.builders.rows import NodeRow
from trimtab.planner.model.values import MountedVolume, PodRequirements
from trimtab.v1.snapshot_pb2 import VolumeState

NODES = [
    NodeRow("has", volume_drivers=("csi",), attach_limits=(("csi", 1),)),
    NodeRow("full", volume_drivers=("csi",), attach_limits=(("csi", 0),)),
    NodeRow("lacks", volume_drivers=(), attach_limits=(("csi", 0),)),
    NodeRow("unknown"),
]


def volume(required: str, name: str = "v") -> MountedVolume:
    """Return a bound volume of the driver `csi`."""
    return MountedVolume(name, VolumeState.BOUND, "csi", "", None, (), False, "", required)


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        pytest.param("", {"has", "unknown"}, id="a driver that does not ask"),
        pytest.param("csi", {"has", "unknown"}, id="a driver that asks"),
        pytest.param("other", {"unknown"}, id="a driver that no node has"),
    ],
)
def test_a_node_must_have_the_driver_that_a_volume_requires(required: str, expected: set[str]) -> None:
    assert fitting(pending(PodRequirements())._replace(volumes=(volume(required),)), NODES) == expected


def test_a_missing_driver_and_an_exceeded_limit_are_two_reasons() -> None:
    pod = pending(PodRequirements())._replace(volumes=(volume("csi"),))
    assert reasons(pod, NODES) == {
        "has": [],
        "full": ["VOLUME_LIMIT_EXCEEDED"],
        "lacks": ["CSI_DRIVER_MISSING", "VOLUME_LIMIT_EXCEEDED"],
        "unknown": [],
    }
