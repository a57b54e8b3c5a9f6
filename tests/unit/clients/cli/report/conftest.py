"""The recording that several modules read, and the simulation that made it."""

from pathlib import Path

import pytest

from tests.unit.clients.cli.report.recordings import recorded, scenario
from trimtab.clients.simulation.simulation import ClusterSimulation


@pytest.fixture(scope="session")
def recorded_hour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ClusterSimulation]:
    path = tmp_path_factory.mktemp("recorded") / "monday.trimtab"
    return path, recorded(path, scenario())


@pytest.fixture(scope="session")
def recording(recorded_hour: tuple[Path, ClusterSimulation]) -> Path:
    return recorded_hour[0]


@pytest.fixture(scope="session")
def simulation(recorded_hour: tuple[Path, ClusterSimulation]) -> ClusterSimulation:
    return recorded_hour[1]
