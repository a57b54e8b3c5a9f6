"""Certificates for tests of secured connections."""

from pathlib import Path

import pytest

from tests.builders.tls import OwnCa, make_ca


@pytest.fixture
def ca(tmp_path: Path) -> OwnCa:
    """Return a CA with certificates "server" and "client"."""
    return make_ca(tmp_path / "ca")
