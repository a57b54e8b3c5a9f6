"""A planner to ask: a running service, or one in this process. Both give the same answers."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from trimtab.v1 import plan_pb2, planner_pb2, snapshot_pb2


class PlannerAccess(Protocol):
    """What commands need of a planner. Raises `TrimtabError` or `ServiceError`."""

    def plan(self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest) -> plan_pb2.PlanResponse:
        """Answer `Plan`."""

    def check_fit(
        self, snapshot: snapshot_pb2.ClusterSnapshot, request: plan_pb2.PlanRequest
    ) -> Iterable[planner_pb2.CheckFitResponse]:
        """Answer `CheckFit`."""


@contextmanager
def open_planner(address: str | None) -> Iterator[PlannerAccess]:
    """Open the planner at `address` ("host:port"), or one in this process for None."""
    raise NotImplementedError
    yield
