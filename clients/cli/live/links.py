"""A planner for sessions of several rounds: a running service, or one in this process that keeps bases of deltas."""

from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.clients.cli.output import stderr_console
from trimtab.clients.cli.planners import address_failures
from trimtab.clients.reference_loop.planner_session import GrpcLink, PlannerLink


@contextmanager
def open_link(address: str | None) -> Iterator[PlannerLink]:
    """Open the planner at `address` ("host:port"), or one in this process for None."""
    if address is None:
        from trimtab.clients.simulation.planner_link import InProcessLink

        with stderr_console().status("loading the planner (the first time, its kernels are compiled) …"):
            link: PlannerLink = InProcessLink()
        yield link
        return
    with address_failures(address), GrpcLink(address) as connected:
        yield connected
