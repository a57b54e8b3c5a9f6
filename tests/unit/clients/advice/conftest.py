"""A planner in this process."""

from collections.abc import Iterator

import pytest

from trimtab.clients.cli.planners import PlannerAccess, open_planner


@pytest.fixture(scope="session")
def planner() -> Iterator[PlannerAccess]:
    with open_planner(None) as opened:
        yield opened
