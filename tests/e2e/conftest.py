"""The control plane of a file of end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane for the tests of one file. A file with other settings has a fixture of the same name."""
    with ControlPlane(cached_binaries(), tmp_path_factory.mktemp("plane") / "state") as started:
        yield started
