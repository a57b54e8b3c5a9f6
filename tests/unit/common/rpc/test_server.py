"""The shell on loopback: health, errors, malformed bytes, graceful stop."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.client import connect, invoke, stream, wait_until_serving
from trimtab.common.rpc.errors import Reason, ServiceError, TrimtabError, invalid_request
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, planner_pb2, planner_pb2_grpc

ONCE = RetryPolicy(attempts=1)
METHOD = "/trimtab.v1.Actuator/GetStatus"


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def __init__(self) -> None:
        self.entered = threading.Event()
        self.may_go_on = threading.Event()
        self.unavailable_left = 0

    def GetInfo(self, request, context):
        if self.unavailable_left > 0:
            self.unavailable_left -= 1
            raise ServiceError(grpc.StatusCode.UNAVAILABLE, Reason.BACKEND_UNAVAILABLE, "not now")
        return actuator_pb2.GetActuatorInfoResponse(version="1")

    def StartDeletion(self, request, context):
        raise invalid_request("nodes: none given; name at least one", field="nodes")

    def CancelDeletion(self, request, context):
        raise ZeroDivisionError("secret detail")

    def GetStatus(self, request, context):
        self.entered.set()
        assert self.may_go_on.wait(LIMIT_S)
        return actuator_pb2.GetStatusResponse()

    def WatchStatus(self, request, context) -> Iterator[actuator_pb2.WatchStatusResponse]:
        yield actuator_pb2.WatchStatusResponse()
        raise invalid_request("enough")


@pytest.fixture
def servicer() -> Servicer:
    return Servicer()


@pytest.fixture
def shell(servicer: Servicer) -> Iterator[Shell]:
    with make_shell(servicer) as running:
        yield running


@pytest.fixture
def channel(shell: Shell) -> Iterator[grpc.Channel]:
    with connect(shell.address) as opened:
        yield opened


def make_shell(servicer: Servicer, **settings) -> Shell:
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, servicer, "trimtab.v1.Actuator")
    return Shell("test", [registration], ServerSettings(**settings))


def fail(call) -> TrimtabError:
    with pytest.raises(TrimtabError) as caught:
        invoke(call, ONCE)
    return caught.value


def test_a_service_error_reaches_the_caller_with_code_reason_message_and_metadata(channel) -> None:
    stub = actuator_pb2_grpc.ActuatorStub(channel)
    error = fail(lambda: stub.StartDeletion(actuator_pb2.StartDeletionRequest()))
    assert (error.code, error.reason_name) == (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID")
    assert error.message == "nodes: none given; name at least one"
    assert error.metadata == {"field": "nodes"}


def test_an_error_that_passes_says_when_to_try_again_and_one_that_stays_does_not(channel, servicer) -> None:
    stub = actuator_pb2_grpc.ActuatorStub(channel)
    servicer.unavailable_left = 1
    found = {}
    for name, call in (
        ("passes", lambda: stub.GetInfo(actuator_pb2.GetActuatorInfoRequest())),
        ("stays", lambda: stub.StartDeletion(actuator_pb2.StartDeletionRequest())),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            call()
        status = rpc_status.from_call(caught.value)
        retries = [one for one in status.details if one.Is(error_details_pb2.RetryInfo.DESCRIPTOR)]
        found[name] = [
            error_details_pb2.RetryInfo.FromString(one.value).retry_delay.ToMilliseconds() for one in retries
        ]
    assert found == {"passes": [2000], "stays": []}


def test_an_unknown_exception_is_internal_and_keeps_its_details_to_itself(channel) -> None:
    stub = actuator_pb2_grpc.ActuatorStub(channel)
    error = fail(lambda: stub.CancelDeletion(actuator_pb2.CancelDeletionRequest()))
    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, Reason.INTERNAL)
    assert "ZeroDivisionError" in error.message
    assert "secret" not in error.message


def test_a_method_without_implementation_says_so_with_a_reason(channel) -> None:
    stub = actuator_pb2_grpc.ActuatorStub(channel)
    error = fail(lambda: stub.ApplyPodCosts(actuator_pb2.ApplyPodCostsRequest()))
    assert (error.code, error.reason) == (grpc.StatusCode.UNIMPLEMENTED, Reason.DECISION_UNAVAILABLE)


def test_a_service_that_is_not_there_is_unimplemented_without_a_trimtab_reason(channel) -> None:
    stub = planner_pb2_grpc.PlannerStub(channel)
    error = fail(lambda: stub.GetInfo(planner_pb2.GetPlannerInfoRequest()))
    assert (error.code, error.reason) == (grpc.StatusCode.UNIMPLEMENTED, Reason.UNSPECIFIED)


def test_bytes_that_are_not_a_message_are_refused_and_the_next_call_works(channel) -> None:
    raw = channel.unary_unary("/trimtab.v1.Actuator/StartDeletion")
    error = fail(lambda: raw(b"\xff\xff\xff\xff"))
    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.REQUEST_INVALID)
    assert invoke(lambda: raw_info(channel), ONCE).version == "1"


def raw_info(channel: grpc.Channel) -> actuator_pb2.GetActuatorInfoResponse:
    return actuator_pb2_grpc.ActuatorStub(channel).GetInfo(actuator_pb2.GetActuatorInfoRequest())


def test_a_stream_ends_with_the_error_raised_in_it(channel) -> None:
    stub = actuator_pb2_grpc.ActuatorStub(channel)
    answers = stream(lambda: stub.WatchStatus(actuator_pb2.WatchStatusRequest()))
    assert next(answers) == actuator_pb2.WatchStatusResponse()
    with pytest.raises(TrimtabError, match="enough"):
        next(answers)


def test_calls_before_ready_are_turned_away_and_health_says_not_serving(servicer) -> None:
    shell = make_shell(servicer)
    shell.start()
    try:
        with connect(shell.address) as channel:
            error = fail(lambda: raw_info(channel))
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, Reason.NOT_READY)
            health = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service="trimtab.v1.Actuator")
            assert health.Check(request).status == health_pb2.HealthCheckResponse.NOT_SERVING
            shell.ready()
            wait_until_serving(channel, "trimtab.v1.Actuator", LIMIT_S)
            assert raw_info(channel).version == "1"
    finally:
        shell.stop()


def test_a_call_in_flight_finishes_when_the_server_stops(servicer) -> None:
    shell = make_shell(servicer)
    shell.start()
    shell.ready()
    with connect(shell.address) as channel:
        stub = actuator_pb2_grpc.ActuatorStub(channel)
        answer = stub.GetStatus.future(actuator_pb2.GetStatusRequest())
        assert servicer.entered.wait(LIMIT_S)
        stopper = threading.Thread(target=shell.stop, args=(servicer.may_go_on.set,))
        stopper.start()
        assert answer.result(timeout=LIMIT_S) == actuator_pb2.GetStatusResponse()
        stopper.join(LIMIT_S)
        assert not stopper.is_alive()


def test_the_address_file_holds_the_bound_address_while_the_server_runs(servicer, tmp_path: Path) -> None:
    file = tmp_path / "address"
    with make_shell(servicer, address_file=file) as shell:
        assert file.read_text() == shell.address + "\n"
        assert not shell.address.endswith(":0")
    assert not file.exists()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "127.0.0.1:", ":x"])
def test_a_malformed_address_is_refused_with_its_text(servicer, address: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        make_shell(servicer, address=address)


def test_a_port_that_is_taken_is_an_error(shell, servicer) -> None:
    with pytest.raises(OSError, match=f"cannot listen on {shell.address}: Address already in use$"):
        make_shell(servicer, address=shell.address)


PROGRAM = """
from trimtab.common.rpc.server import Registration, ServerSettings, Shell, serve
from trimtab.common.rpc.telemetry import configure_logging
from trimtab.v1 import actuator_pb2_grpc as g
configure_logging("info")
registration = Registration(g.add_ActuatorServicer_to_server, g.ActuatorServicer(), "trimtab.v1.Actuator")
serve(Shell("test", [registration], ServerSettings(metrics_address="127.0.0.1:0")))
"""


def test_a_process_logs_its_address_serves_metrics_and_stops_on_sigterm() -> None:
    import json
    import urllib.request

    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        first = json.loads(process.stderr.readline())
        assert first["event"] == "listening"
        with connect(first["address"]) as channel:
            wait_until_serving(channel, timeout_s=LIMIT_S)
            error = fail(lambda: raw_info(channel))
            assert error.code is grpc.StatusCode.UNIMPLEMENTED
        with urllib.request.urlopen(f"http://{first['metrics_address']}/metrics", timeout=LIMIT_S) as page:
            text = page.read().decode()
        assert 'grpc_server_call_duration_seconds_count{code="UNIMPLEMENTED",method="GetInfo"' in text
        process.terminate()
        assert process.wait(LIMIT_S) == 0
        lines = [json.loads(line) for line in process.stderr]
        assert [line["event"] for line in lines if line["event"] != "call"] == ["ready", "stopped"]
        call = next(line for line in lines if line["event"] == "call")
        assert (call["method"], call["reason"]) == ("/trimtab.v1.Actuator/GetInfo", "DECISION_UNAVAILABLE")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


TOLD_EARLY = """
import os, signal
from trimtab.common.rpc.server import Shell, serve
from trimtab.common.rpc.telemetry import configure_logging
configure_logging("info")
def prepare():
    signal.pthread_sigmask(signal.SIG_BLOCK, {blocked})
    {then}
serve(Shell("test", []), prepare)
"""


@pytest.mark.parametrize(
    ("blocked", "then", "events"),
    [
        pytest.param("[]", "os.kill(os.getpid(), signal.SIGTERM)", ["listening", "stopped"], id="before it is ready"),
        # The kernel delivers the signal to another thread, as if it had arrived just before the main thread slept.
        pytest.param("[signal.SIGTERM]", "pass", ["listening", "ready", "stopped"], id="while the main thread sleeps"),
    ],
)
def test_a_process_that_gets_one_stop_signal_stops(blocked: str, then: str, events: list[str]) -> None:
    import json

    program = TOLD_EARLY.format(blocked=blocked, then=then)
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = [json.loads(process.stderr.readline())["event"] for _ in events[:-1]]
        if "ready" in found:
            process.terminate()
        assert process.wait(LIMIT_S) == 0
        found += [json.loads(line)["event"] for line in process.stderr]
        assert found == events
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_no_service_answers_unavailable_within_the_given_time() -> None:
    with connect("127.0.0.1:1") as channel, pytest.raises(TrimtabError) as caught:
        wait_until_serving(channel, timeout_s=0.3)
    # On a busy machine the time can elapse before the connection is refused.
    assert caught.value.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
