"""A planner in this process."""

from collections.abc import Iterator

import pytest

from trimtab.clients.cli.planners import open_planner
from trimtab.clients.planner_client import PlannerClient


@pytest.fixture(scope="session")
def planner() -> Iterator[PlannerClient]:
    with open_planner(None) as opened:
        yield opened
