"""The planner as a process with a port for autoscalers: our certificate, none of theirs, and no other service."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.v1 import planner_pb2, planner_pb2_grpc

from tests.builders.best_options import a_node, a_pod, sent
from tests.builders.tls import make_ca
from tests.builders.waiting import LIMIT_S


def listening(log: Path, process: subprocess.Popen[bytes]) -> list[str]:
    """The addresses of both ports, in the order in which they were opened, once both are."""
    until_s = time.monotonic() + 3 * LIMIT_S
    while time.monotonic() < until_s:
        assert process.poll() is None, log.read_text()
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        found = [str(line["address"]) for line in lines if line["event"] == "listening"]
        if len(found) == 2 and sum(line["event"] == "ready" for line in lines) == 2:
            return found
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def test_an_autoscaler_without_a_certificate_reaches_the_expander_and_nothing_else(tmp_path: Path) -> None:
    ca = make_ca(tmp_path / "ca")
    files = {"cert": "server.crt", "key": "server.key", "client-ca": "ca.crt"}
    options = [f"--tls-{name}={ca.directory / file}" for name, file in files.items()]
    options += ["--expander-address=127.0.0.1:0", "--expander-chain=least-nodes"]
    log = tmp_path / "log"
    with log.open("w") as opened:
        environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
        process = subprocess.Popen([sys.executable, "-m", "planner", *options], stderr=opened, env=environment)
    try:
        main, expander = listening(log, process)
        # As the autoscaler dials: credentials.NewClientTLSFromFile(cert, "").
        autoscaler = grpc.ssl_channel_credentials(ca.ca.read_bytes())
        request = sent({"a": (2, [a_pod("p")]), "b": (1, [a_pod("p")])}, {"a": a_node("a"), "b": a_node("b")})
        with grpc.secure_channel(expander, autoscaler) as channel:
            answer = expander_pb2_grpc.ExpanderStub(channel).BestOptions(request, timeout=LIMIT_S)
            assert [one.node_group_id for one in answer.options] == ["b"]
            with pytest.raises(grpc.RpcError) as refused:
                planner_pb2_grpc.PlannerStub(channel).GetInfo(planner_pb2.GetPlannerInfoRequest(), timeout=LIMIT_S)
            assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED
        with grpc.secure_channel(main, autoscaler) as channel, pytest.raises(grpc.RpcError) as refused:
            expander_pb2_grpc.ExpanderStub(channel).BestOptions(request, timeout=LIMIT_S)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    finally:
        process.kill()
        process.wait()
