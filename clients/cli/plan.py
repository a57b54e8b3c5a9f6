"""`trimtab plan`: one request over files, one answer."""

from dataclasses import dataclass
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp
from trimtab.v1 import plan_pb2

from clients.cli.documents import read_settings, read_state
from clients.cli.moment import read_moment
from clients.cli.output import Format, as_document, print_document, stdout_console
from clients.cli.planners import open_planner
from clients.cli.sources import read_snapshot


@dataclass(frozen=True)
class Asked:
    """What every command that asks the planner is given; the file names are not read yet."""

    files: tuple[Path, ...]
    planner: str | None = None
    settings: Path | None = None
    state: Path | None = None
    now: str | None = None
    output: Format = Format.TABLE

    def request(self) -> plan_pb2.PlanRequest:
        """Read everything but the cluster; what is wrong with it is said before a large file is read."""
        request = plan_pb2.PlanRequest(settings=read_settings(self.settings), now=self.moment())
        state = read_state(self.state)
        if state is not None:
            request.state.CopyFrom(state)
        return request

    def moment(self) -> Timestamp:
        """Read `--now`."""
        return read_moment(self.now)


def plan(asked: Asked, decisions: list[plan_pb2.Decision.Code.ValueType]) -> None:
    """Ask for a plan and print it."""
    request = asked.request()
    request.decisions.extend(decisions)
    snapshot = read_snapshot(asked.files)
    with open_planner(asked.planner) as planner:
        answer = planner.plan(snapshot, request)
    if asked.output is not Format.TABLE:
        print_document(as_document(answer), asked.output)
        return
    from clients.cli.plan_tables import print_plan

    print_plan(stdout_console(), answer, request.now.ToNanoseconds())
