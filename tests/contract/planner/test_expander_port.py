"""The planner as a process with a port for autoscalers: a server certificate, no client certificate, no other
service.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.builders.best_options import a_node, a_pod, sent
from tests.builders.forked import Programs
from tests.builders.tls import OwnCa, make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.clusterautoscaler import expander_pb2_grpc
from trimtab.v1 import planner_pb2, planner_pb2_grpc


def listening(log: Path, process: subprocess.Popen[bytes]) -> list[str]:
    """Return the addresses of both ports in order of opening, once both are open."""
    until_s = time.monotonic() + 3 * LIMIT_S
    while time.monotonic() < until_s:
        assert process.poll() is None, log.read_text()
        # The last line may be incomplete.
        written, _, _ = log.read_text().rpartition("\n")
        lines = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
        found = [str(line["address"]) for line in lines if line["event"] == "listening"]
        if len(found) == 2 and sum(line["event"] == "ready" for line in lines) == 2:
            return found
        time.sleep(0.05)
    raise AssertionError(log.read_text())


POLICY = "apiVersion: trimtab.dev/v1\nkind: AccessPolicy\ncallers: []\n"
GRANTED = POLICY + "anonymous: [choose]\n"


def command(ca: OwnCa, *more: str) -> list[str]:
    files = {"cert": "server.crt", "key": "server.key", "client-ca": "ca.crt"}
    options = [f"--tls-{name}={ca.directory / file}" for name, file in files.items()]
    return ["trimtab.planner", *options, "--expander-chain=least-nodes", *more]


@pytest.fixture
def ca(tmp_path: Path) -> OwnCa:
    return make_ca(tmp_path / "ca")


def code_of(call: Callable[[], object]) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    return refused.value.code()


@pytest.mark.ci
def test_an_autoscaler_without_a_certificate_may_have_options_chosen_and_nothing_else(
    ca: OwnCa, tmp_path: Path
) -> None:
    log, policy = tmp_path / "log", tmp_path / "policy.yaml"
    policy.write_text(GRANTED)
    options = command(ca, "--expander-address=0.0.0.0:0", f"--policy={policy}")
    with log.open("w") as opened:
        process = subprocess.Popen([sys.executable, "-m", *options], stderr=opened)
    try:
        main, expander = (one.replace("0.0.0.0", "127.0.0.1") for one in listening(log, process))
        # As the autoscaler connects: credentials.NewClientTLSFromFile(cert, "").
        autoscaler = grpc.ssl_channel_credentials(ca.ca.read_bytes())
        request = sent({"a": (2, [a_pod("p")]), "b": (1, [a_pod("p")])}, {"a": a_node("a"), "b": a_node("b")})
        with grpc.secure_channel(expander, autoscaler) as channel:
            choose = expander_pb2_grpc.ExpanderStub(channel).BestOptions
            answer = choose(request, timeout=LIMIT_S)
            assert [one.node_group_id for one in answer.options] == ["b"]
            info = planner_pb2_grpc.PlannerStub(channel).GetInfo
            question = planner_pb2.GetPlannerInfoRequest()
            assert code_of(lambda: info(question, timeout=LIMIT_S)) == grpc.StatusCode.UNIMPLEMENTED
            policy.write_text(POLICY)
            assert code_of(lambda: choose(request, timeout=LIMIT_S)) == grpc.StatusCode.UNAUTHENTICATED
        refusals = [json.loads(line) for line in log.read_text().splitlines() if '"refused"' in line]
        assert [one["method"].rpartition("/")[2] for one in refusals] == ["BestOptions"]
        with grpc.secure_channel(main, autoscaler) as channel:
            choose = expander_pb2_grpc.ExpanderStub(channel).BestOptions
            assert code_of(lambda: choose(request, timeout=LIMIT_S)) == grpc.StatusCode.UNAVAILABLE
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("policy", [None, POLICY], ids=["no policy", "a policy that grants nothing to anyone"])
def test_a_port_for_anyone_on_the_network_is_not_opened_unless_the_policy_says_so(
    ca: OwnCa, tmp_path: Path, forked: Programs, policy: str | None
) -> None:
    more = ["--expander-address=0.0.0.0:0"]
    if policy is not None:
        (tmp_path / "policy.yaml").write_text(policy)
        more.append(f"--policy={tmp_path / 'policy.yaml'}")
    done = forked(*command(ca, *more))
    assert done.returncode == 2
    assert "--expander-address" in done.stderr
    assert "anonymous: [choose]" in done.stderr
    assert "Traceback" not in done.stderr
