"""Where pods with claims go on a real control plane, beside what `CheckFit` says of the same cluster.

Pods come in waves. A node on which the scheduler puts a pod of a wave is one that fitted before the wave; at the end, a
pod that waits fits nowhere, so the scheduler and `CheckFit` agree on each.

In two of three runs, one to three pods of 200 were bound where `CheckFit` had said no. The scheduler was right, and
had given up nobody's devices: it does so only for claims of the waiting pod itself that nobody has reserved. Plans
counted claims that compete without being alike by shares that fit in any order, which is less than there is. They count
what the allocator gives now (`planner/device_amounts/kind_counts.py`).
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import device_places as places
from tests.e2e.actuator_process import apply, listed
from tests.e2e.control_plane.control_plane import DEVICE_GATES, SERVED, ControlPlane, cached_binaries
from tests.e2e.fit_and_scheduler import fitting, settle, snapshot_of
from trimtab.clients.cli.planners import open_planner

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
PODS, WAVES = 200, 5


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state, feature_gates=DEVICE_GATES, served=SERVED) as started:
        yield started


def run_waves(plane: ControlPlane, pods: list[Json], size: int) -> dict[str, str]:
    """Create pods in waves; check that each goes where it fitted, and that those that wait fit nowhere."""
    there: dict[str, str] = {}
    with open_planner(None) as planner:
        for first in range(0, len(pods), size):
            wave = pods[first : first + size]
            names = [one["metadata"]["name"] for one in wave]
            fits = fitting(planner, snapshot_of(plane, wave), names)
            apply(plane, *wave)
            before, there = there, settle(plane, planner)
            wrong = {name: (there[name], fits[name]) for name in names if there[name] and there[name] not in fits[name]}
            assert wrong == {}
            assert {name: node for name, node in before.items() if node and there[name] != node} == {}
            if size == 1:
                assert bool(there[names[0]]) == bool(fits[names[0]])
    return there


def held_devices(plane: ControlPlane) -> Counter[tuple[str, str, str]]:
    """Return how many claims hold each device that is not shared."""
    return Counter(
        (one["driver"], one["pool"], one["device"])
        for claim in listed(plane, "resourceclaims")
        for one in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        if "shareID" not in one
    )


def check_ends(plane: ControlPlane, there: dict[str, str]) -> None:
    """Check that pods of each kind but one have a place, that some of most kinds wait, and no device has two claims."""
    bound = {name.partition("-")[0] for name, node in there.items() if node}
    waiting = {name.partition("-")[0] for name, node in there.items() if not node}
    assert bound == set(places.KINDS) - {"missing"}
    assert len(waiting) > len(places.KINDS) / 2
    assert set(held_devices(plane).values()) == {1}


@pytest.mark.nightly
def test_two_hundred_pods_with_claims_go_where_they_fit_and_wait_where_they_fit_nowhere(plane: ControlPlane) -> None:
    apply(plane, *places.objects())
    pods = places.pods(PODS, seed=1)
    there = run_waves(plane, pods, PODS // WAVES)
    assert len(there) == PODS
    check_ends(plane, there)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.timeout(1800)
def test_one_pod_after_the_other_goes_where_it_fits_or_waits(tmp_path: Path, seed: int) -> None:
    with ControlPlane(cached_binaries(), tmp_path / "state", feature_gates=DEVICE_GATES, served=SERVED) as own:
        apply(own, *places.objects())
        check_ends(own, run_waves(own, places.pods(PODS, seed), 1))
