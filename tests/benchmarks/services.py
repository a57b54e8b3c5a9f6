"""A planner as a process, for scenarios that go over the wire, with its peak memory."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from trimtab.clients.cli.demo.services import planner
from trimtab.clients.planner_client import GrpcLink, PlannerClient


class RunningPlanner:
    """A planner service and a client connected to it; close it in the end. options : of its command line."""

    def __init__(self, *options: str) -> None:
        self._stack = ExitStack()
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-benchmark-")))
        self._service = self._stack.enter_context(planner(directory, options=options))
        self.address = self._service.address
        self.link = self._stack.enter_context(GrpcLink(self._service.address))
        self.client = PlannerClient(self.link)

    def new_client(self) -> PlannerClient:
        """Return a client that the planner has not seen, connected: its first snapshot travels whole."""
        client = self._stack.enter_context(PlannerClient(self._service.address))
        client.info()
        return client

    def peak_bytes(self) -> int:
        """Largest memory that the service has had, bytes."""
        status = Path(f"/proc/{self._service.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def close(self) -> None:
        """End the service."""
        self._stack.close()
