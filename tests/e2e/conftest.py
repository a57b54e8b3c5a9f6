"""The control plane of a file of end-to-end tests, and the order of files: with two processes the longest begin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane for the tests of one file. A file with other settings has a fixture of the same name."""
    with ControlPlane(cached_binaries(), tmp_path_factory.mktemp("plane") / "state") as started:
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files whose tests may take longest first, as what comes last has a process for itself."""
    allowed: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        allowed[item.path] = max(allowed.get(item.path, 0), mark.args[0] if mark else 0)
    items.sort(key=lambda item: -allowed[item.path])
