"""What all tests of the planner's service need."""

import pytest

from planner.service.warm_up import warm_up


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Compile before a call's time is counted."""
    warm_up()
