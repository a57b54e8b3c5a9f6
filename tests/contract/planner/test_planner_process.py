"""`python -m trimtab.planner` as a process: ready once it can answer, stopped, and given bad settings."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.builders import metrics
from tests.builders.forked import Programs
from tests.builders.metrics import check_page
from tests.builders.waiting import LIMIT_S
from trimtab.clients.planner_client import GrpcLink, PlannerClient
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.planner.service.warm_up import NOW_S, small_cluster
from trimtab.v1 import plan_pb2


@contextmanager
def running(directory: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a listening process and its address; kill it at the end if it still runs."""
    file = directory / "address"
    command = [sys.executable, "-m", "trimtab.planner", f"--address-file={file}", *options]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stderr=log, env=os.environ | environment, text=True)
        try:
            while not file.exists():
                assert process.poll() is None, (directory / "log").read_text()
                sleep(0.01)
            yield process, file.read_text().strip()
        finally:
            process.kill()
            process.wait()


# A planner compiles its kernels before it serves, unless they are cached.
START_S = 2.5 * LIMIT_S


def request() -> plan_pb2.PlanRequest:
    """Return a request for scale-down."""
    message = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN], request_id="r7")
    message.now.seconds = NOW_S
    return message


def test_a_planner_serves_measures_logs_and_ends_in_order(tmp_path: Path) -> None:
    with running(tmp_path, "--metrics-address=127.0.0.1:0") as (process, address):
        with GrpcLink(address, policy=RetryPolicy(total_s=START_S)) as link:
            link.wait_until_serving(START_S)
            answer = PlannerClient(link).plan(small_cluster(), request())
        with connect(address) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check
            status = check(health_pb2.HealthCheckRequest(service="trimtab.v1.Planner"), timeout=LIMIT_S).status
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        metrics_address = next(line["metrics_address"] for line in lines if line["event"] == "listening")
        with urllib.request.urlopen(f"http://{metrics_address}/metrics") as response:
            page = response.read().decode()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert status == health_pb2.HealthCheckResponse.SERVING
    (decision,) = [line for line in lines if line["event"] == "decision"]
    assert (decision["request_id"], decision["snapshot_version"]) == ("r7", answer.snapshot_version)
    check_page(page, metrics.PLANNER)
    assert not (tmp_path / "address").exists()


@pytest.mark.ci
def test_limits_come_from_the_environment_too(tmp_path: Path) -> None:
    environment = {"TRIMTAB_PLANNER_MAX_SNAPSHOT_BYTES": "12345"}
    with (
        running(tmp_path, **environment) as (_, address),
        GrpcLink(address, policy=RetryPolicy(total_s=START_S)) as client,
    ):
        client.wait_until_serving(START_S)
        assert client.info().max_snapshot_size_bytes == 12345


@pytest.mark.parametrize(
    ("option", "word"),
    [("--address=nowhere", "host:port"), ("--log-level=loud", "loud"), ("--max-snapshot-bytes=0", "Invalid value")],
)
def test_a_bad_setting_is_reported_and_ends_the_process(forked: Programs, option: str, word: str) -> None:
    done = forked("trimtab.planner", option)
    assert done.returncode == 2
    assert word in done.stderr
