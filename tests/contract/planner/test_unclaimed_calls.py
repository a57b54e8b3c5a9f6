"""Calls that wait while Python is busy are answered, however long that takes: gRPC cancels none of them by itself."""

import ctypes
import subprocess
import sys

import pytest
from opentelemetry.metrics import NoOpMeterProvider

from trimtab.common.rpc.server import Registration, Shell
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.planner.service.servicer import PlannerServicer
from trimtab.planner.service.settings import PlannerOptions
from trimtab.v1 import planner_pb2_grpc

BUSY_S = 34
"""Longer than gRPC lets calls wait by default."""
CALLER = """
import sys
from trimtab.common.rpc.client import connect
from trimtab.v1 import planner_pb2, planner_pb2_grpc
stub = planner_pb2_grpc.PlannerStub(connect(sys.argv[1]))
stub.GetInfo(planner_pb2.GetPlannerInfoRequest())
print("ready", flush=True)
sys.stdin.readline()
calls = [stub.GetInfo.future(planner_pb2.GetPlannerInfoRequest(), timeout=120) for _ in range(100)]
print(*sorted({"OK" if call.exception() is None else call.code().name for call in calls}))
"""


@pytest.mark.nightly
def test_calls_that_wait_longer_than_grpc_likes_are_answered() -> None:
    handler = RequestHandler(NoOpMeterProvider().get_meter("planner"), 0)
    servicer = PlannerServicer(handler, PlannerOptions())
    add = planner_pb2_grpc.add_PlannerServicer_to_server
    with Shell("planner", [Registration(add, servicer, "trimtab.v1.Planner")]) as shell:
        command = [sys.executable, "-c", CALLER, shell.address]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
            assert caller.stdin is not None
            assert caller.stdout is not None
            assert caller.stdout.readline() == "ready\n"
            caller.stdin.write("\n")
            caller.stdin.flush()
            # As nothing releases the interpreter's lock meanwhile, no call is seen.
            ctypes.PyDLL(None).usleep(BUSY_S * 1_000_000)
            assert caller.stdout.readline() == "OK\n"
