"""Fixtures for all tests of the planner's service."""

import pytest

from trimtab.planner.service.warm_up import warm_up


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Compile the kernels before a call is timed."""
    warm_up()
