"""Callers that send slowly, not at all, or do not read: others are served as if these did not exist."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.builders.slow_callers import Planner
from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.client import invoke
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.rpc.interceptor import MOST_PENDING
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, plan_pb2, planner_pb2, planner_pb2_grpc

ONCE = RetryPolicy(attempts=1)


class Busy(Planner):
    """Works on every plan until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.began = threading.Semaphore(0)
        self.may_go_on = threading.Event()

    def Plan(self, request_iterator, context):
        answer = super().Plan(request_iterator, context)
        self.began.release()
        assert self.may_go_on.wait(LIMIT_S)
        return answer


@contextmanager
def serving(servicer: Planner, **settings: Any) -> Iterator[Shell]:
    registration = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, servicer, "trimtab.v1.Planner")
    with Shell("test", [registration], ServerSettings(**settings)) as shell:
        yield shell


@contextmanager
def connection(shell: Shell) -> Iterator[planner_pb2_grpc.PlannerStub]:
    """Return a separate connection, as another process would have."""
    with grpc.insecure_channel(shell.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield planner_pb2_grpc.PlannerStub(channel)


def drip(stop: threading.Event, pause_s: float = 0.2) -> Iterator[planner_pb2.PlanRequestPart]:
    """Yield an endless request, one byte at a time."""
    yield planner_pb2.PlanRequestPart(request=plan_pb2.PlanRequest(snapshot_size_bytes=1 << 20))
    while not stop.wait(pause_s):
        yield planner_pb2.PlanRequestPart(snapshot=planner_pb2.SnapshotPart(data=b"x"))


def whole() -> Iterator[planner_pb2.PlanRequestPart]:
    return iter([planner_pb2.PlanRequestPart(), planner_pb2.PlanRequestPart()])


def failure(call: Any) -> TrimtabError:
    with pytest.raises(TrimtabError) as caught:
        invoke(lambda: call.result(timeout=LIMIT_S), ONCE)
    return caught.value


@contextmanager
def dripping(shell: Shell, count: int) -> Iterator[list[Any]]:
    """Run `count` callers that send slowly over four connections."""
    stop = threading.Event()
    with ExitStack() as stack:
        stubs = [stack.enter_context(connection(shell)) for _ in range(4)]
        stack.callback(stop.set)
        yield [stubs[i % 4].Plan.future(drip(stop)) for i in range(count)]


def test_a_pause_within_a_request_ends_it_with_a_reason() -> None:
    with serving(Planner(), idle_timeout_s=0.1) as shell, dripping(shell, 1) as calls:
        error = failure(calls[0])
        assert (error.code, error.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, Reason.REQUEST_TIMEOUT)
        assert "--idle-timeout" in error.message


def test_a_request_that_takes_too_long_as_a_whole_ends_with_a_reason() -> None:
    with serving(Planner(), receive_timeout_s=0.5) as shell, dripping(shell, 1) as calls:
        error = failure(calls[0])
        assert error.reason == Reason.REQUEST_TIMEOUT
        assert "--receive-timeout" in error.message


@pytest.mark.ci
def test_every_honest_call_is_answered_beside_200_slow_ones_and_8_that_do_not_read() -> None:
    # However long it takes, the slow ones are not ended because of it.
    patient = {"idle_timeout_s": 3 * LIMIT_S, "receive_timeout_s": 3 * LIMIT_S, "send_timeout_s": 3 * LIMIT_S}
    with serving(Planner(), **patient) as shell, dripping(shell, 200) as slow, connection(shell) as stub:
        frozen = [stub.CheckFit(whole()) for _ in range(8)]
        assert [next(one).pod[:1] for one in frozen] == ["x"] * 8
        assert [stub.Plan(whole(), timeout=LIMIT_S).request_id for _ in range(120)] == ["2"] * 120
        with grpc.insecure_channel(shell.address) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            assert health.Check(health_pb2.HealthCheckRequest(), timeout=LIMIT_S).status == 1
        assert not any(call.done() for call in slow)


def test_slow_callers_make_room_where_all_threads_are_taken() -> None:
    with serving(Planner(), max_workers=16) as shell, dripping(shell, 60) as slow, connection(shell) as stub:
        # One of them is refused once all threads are taken.
        wait_until(lambda: any(call.done() for call in slow))
        assert in_the_end(stub) is None
        ended = {failure(call).reason for call in slow if call.done()}
        assert ended
        assert ended <= {Reason.REQUEST_TIMEOUT, Reason.OVERLOADED}


def test_a_caller_with_many_calls_has_no_more_than_its_share() -> None:
    planner = Busy()
    with serving(planner, max_calls_per_caller=3) as shell, connection(shell) as many, connection(shell) as stub:
        calls = [many.Plan.future(whole()) for _ in range(3)]
        # They are in progress, so none of them makes room for the next one.
        assert all(planner.began.acquire(timeout=LIMIT_S) for _ in calls)
        refused = failure(many.Plan.future(whole()))
        assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, Reason.OVERLOADED)
        other = stub.Plan.future(whole())
        assert planner.began.acquire(timeout=LIMIT_S)
        planner.may_go_on.set()
        assert [call.result(timeout=LIMIT_S).request_id for call in (*calls, other)] == ["2"] * 4


def test_callers_that_do_not_read_are_ended() -> None:
    planner = Planner()
    with serving(planner, send_timeout_s=0.2) as shell, connection(shell) as stub:
        frozen = [stub.CheckFit(whole()) for _ in range(8)]
        assert all(planner.fits_ended.acquire(timeout=LIMIT_S) for _ in frozen)
        for call in frozen:
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            assert caught.value.code() is grpc.StatusCode.CANCELLED


def wait_until(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def in_the_end(stub: planner_pb2_grpc.PlannerStub) -> TrimtabError | None:
    """Return the error of a call that is repeated until it is answered; None = success."""
    until_s = time.monotonic() + LIMIT_S
    while (error := attempt(stub)) and time.monotonic() < until_s:
        # On a busy machine its own request can be the slowest to arrive.
        assert error.reason in (Reason.OVERLOADED, Reason.REQUEST_TIMEOUT)
        time.sleep(0.05)
    return error


def attempt(stub: planner_pb2_grpc.PlannerStub) -> TrimtabError | None:
    try:
        invoke(lambda: stub.Plan(whole(), timeout=LIMIT_S), ONCE)
    except TrimtabError as error:
        return error
    return None


def test_a_single_message_that_does_not_come_is_not_waited_for() -> None:
    with serving(Planner(), idle_timeout_s=0.1) as shell, grpc.insecure_channel(shell.address) as channel:
        stop = threading.Event()
        # On the wire a stream that sends nothing looks like a caller of GetInfo whose only message does not arrive.
        call = channel.stream_unary("/trimtab.v1.Planner/GetInfo").future(silence(stop))
        assert failure(call).reason == Reason.REQUEST_TIMEOUT
        health = channel.stream_unary("/grpc.health.v1.Health/Check").future(silence(stop))
        stop.set()
        assert failure(health).reason in (Reason.REQUEST_INVALID, Reason.REQUEST_TIMEOUT)


def silence(stop: threading.Event) -> Iterator[bytes]:
    stop.wait(LIMIT_S)
    yield from ()


class Slow(actuator_pb2_grpc.ActuatorServicer):
    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def GetStatus(self, request, context):
        assert self.may_go_on.wait(2 * LIMIT_S)
        return actuator_pb2.GetStatusResponse()


@pytest.mark.ci
@pytest.mark.parametrize(("connections", "calls_each"), [(5, 500), pytest.param(1, 4000, marks=pytest.mark.nightly)])
def test_every_one_of_thousands_of_calls_is_answered_or_refused_with_a_reason(
    connections: int, calls_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine an answer can wait for long although its caller reads.
    limits = ServerSettings(send_timeout_s=3 * LIMIT_S).limits()
    patient = replace(limits, room_after_unread_s=3 * LIMIT_S)
    monkeypatch.setattr(ServerSettings, "limits", lambda _self: patient)
    servicer = Slow()
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, servicer, "trimtab.v1.Actuator")
    with Shell("test", [registration]) as shell, ExitStack() as stack:
        calls = []
        for _ in range(connections):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(shell.address, options=options))
            get_status = actuator_pb2_grpc.ActuatorStub(channel).GetStatus
            request = actuator_pb2.GetStatusRequest()
            calls += [get_status.future(request, timeout=2 * LIMIT_S) for _ in range(calls_each)]
        wait_until(lambda: sum(call.done() for call in calls) >= len(calls) - MOST_PENDING - 256)
        servicer.may_go_on.set()
        reasons = [outcome(call) for call in calls]
    # On a busy machine a call whose only message is late makes room for others.
    assert {"OK", "OVERLOADED"} <= set(reasons) <= {"OK", "OVERLOADED", "REQUEST_TIMEOUT"}


def outcome(call: Any) -> str:
    try:
        invoke(lambda: call.result(timeout=LIMIT_S), ONCE)
    except TrimtabError as error:
        return error.reason_name if error.reason else error.code.name
    return "OK"


PROGRAM = """
from tests.builders import slow_callers as tests
from trimtab.common.rpc.server import Registration, ServerSettings, Shell, serve
from trimtab.common.rpc.telemetry import configure_logging
from trimtab.v1 import planner_pb2, planner_pb2_grpc as g
configure_logging("info")
planner = Registration(g.add_PlannerServicer_to_server, tests.Planner(), "trimtab.v1.Planner")
serve(Shell("test", [planner], ServerSettings(grace_s=3600)))
"""


def test_a_process_with_slow_callers_and_callers_that_do_not_read_stops_at_once() -> None:

    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = json.loads(process.stderr.readline())["address"]
        stop = threading.Event()
        with grpc.insecure_channel(address) as channel:
            stub = planner_pb2_grpc.PlannerStub(channel)
            grpc.channel_ready_future(channel).result(LIMIT_S)
            calls = [stub.Plan.future(drip(stop)) for _ in range(50)]
            frozen = [stub.CheckFit(whole()) for _ in range(8)]
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            next(iter(watching))
            assert next(frozen[0]).pod
            process.terminate()
            # The grace period is an hour: the process must not wait for callers that do not continue.
            assert process.wait(LIMIT_S) == 0
            assert {failure(call).reason for call in calls} <= {Reason.NOT_READY, Reason.UNSPECIFIED}
            stop.set()
            del frozen
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


FLOODED = """
from tests.builders import slow_callers as tests
from trimtab.common.rpc.server import Registration, ServerSettings, Shell, serve
from trimtab.common.rpc.telemetry import configure_logging
from trimtab.v1 import actuator_pb2_grpc as g
configure_logging("info")
actuator = Registration(g.add_ActuatorServicer_to_server, tests.Waiting(), "trimtab.v1.Actuator")
serve(Shell("test", [actuator], ServerSettings(grace_s=60)))
"""


@pytest.mark.nightly
def test_a_process_that_stops_gives_each_of_thousands_of_calls_an_answer_or_a_reason(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as output:
        process = subprocess.Popen([sys.executable, "-c", FLOODED], stderr=output)
    try:
        wait_until(lambda: "ready" in (tmp_path / "log").read_text())
        address = json.loads((tmp_path / "log").read_text().splitlines()[0])["address"]
        with ExitStack() as stack:
            calls = []
            for _ in range(8):
                options = [("grpc.use_local_subchannel_pool", 1)]
                channel = stack.enter_context(grpc.insecure_channel(address, options=options))
                get_status = actuator_pb2_grpc.ActuatorStub(channel).GetStatus
                calls += [get_status.future(actuator_pb2.GetStatusRequest(), timeout=LIMIT_S) for _ in range(500)]
            wait_until(lambda: any(call.done() for call in calls))
            process.terminate()
            reasons = Counter(outcome(call) for call in calls)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
    assert {"OK", "NOT_READY"} <= set(reasons) <= {"OK", "NOT_READY", "OVERLOADED", "REQUEST_TIMEOUT"}, reasons
