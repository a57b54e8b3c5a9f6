"""VolumeZone, of zones that readers of Kubernetes objects leave out; the rest is held against the scheduler."""

import pytest

from tests.builders.fitting import ZONE, fitting, node, pending
from tests.builders.rows import PodRow
from trimtab.planner.model.values import MountedVolume, PodRequirements
from trimtab.v1.snapshot_pb2 import VolumeState

BETA = "failure-domain.beta.kubernetes.io/zone"
NODES = [node("n1", "a"), node("n2", "b"), node("n3")]


def volume(name: str = "default/v", **fields: object) -> MountedVolume:
    return MountedVolume(name, VolumeState.BOUND, "", "", None, (), False, "")._replace(**fields)


def mounting(*volumes: MountedVolume, **fields: object) -> PodRow:
    return pending(PodRequirements(), volumes=volumes)._replace(**fields)


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        pytest.param(((ZONE, "a"),), {"n1", "n3"}, id="nodes without any zone label take every volume"),
        pytest.param(((ZONE, "a__ b"),), {"n1", "n2", "n3"}, id="a set of zones, with blanks"),
        pytest.param(((BETA, "b"),), {"n2", "n3"}, id="an old label against a new one"),
        pytest.param(((ZONE, "a__"),), {"n1", "n2", "n3"}, id="a set with an empty part is ignored"),
        pytest.param((("other", "a"),), {"n1", "n2", "n3"}, id="another label is not a zone"),
    ],
)
def test_a_volume_stays_in_its_zone(zones: tuple[tuple[str, str], ...], expected: set[str]) -> None:
    assert fitting(mounting(volume(zone_labels=zones)), NODES) == expected
