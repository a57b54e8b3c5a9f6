"""The actuator as a process with TLS: only TLS 1.3, and no unprotected port on the network."""

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders.actuator import small_cluster
from tests.builders.forked import Programs
from tests.builders.kubernetes import listed
from tests.builders.tls import OwnCa, make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.tracker.admission import digest_of
from trimtab.actuator.tracker.states import Reason
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.v1 import actuator_pb2, plan_pb2

START = [sys.executable, "-m", "trimtab.actuator", "--log-level=warning"]


@pytest.fixture
def ca(tmp_path: Path) -> OwnCa:
    return make_ca(tmp_path / "ca")


def handshake(ca: OwnCa, address: str, newest: ssl.TLSVersion) -> str | None:
    """Do a TLS handshake as a caller with a certificate; return the negotiated version."""
    context = ssl.create_default_context(cafile=str(ca.ca))
    context.load_cert_chain(ca.directory / "client.crt", ca.directory / "client.key")
    context.maximum_version = newest
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), LIMIT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        return secured.version()


@contextmanager
def started(ca: OwnCa, directory: Path, *more: str) -> Iterator[str]:
    """Run a process with the CA's certificate "server"; yield its address, then end it."""
    files = {"CERT": "server.crt", "KEY": "server.key", "CLIENT_CA": "ca.crt"}
    variables = {f"TRIMTAB_ACTUATOR_TLS_{name}": str(ca.directory / file) for name, file in files.items()}
    address_file = directory / "address"
    arguments = [f"--state-dir={directory / 'state'}", f"--address-file={address_file}", *more]
    process = subprocess.Popen([*START, *arguments], env=os.environ | variables)
    try:
        until_s = time.monotonic() + LIMIT_S
        while not address_file.exists() and time.monotonic() < until_s:
            assert process.poll() is None
            time.sleep(0.02)
        yield address_file.read_text().strip()
    finally:
        process.kill()
        process.wait()


def test_the_process_speaks_tls_1_3_alone_and_answers_callers_with_a_certificate(ca: OwnCa, tmp_path: Path) -> None:
    with started(ca, tmp_path) as address:
        policy = RetryPolicy(total_s=LIMIT_S)
        with ActuatorClient(address, policy, security=ca.channel("client")) as client:
            client.wait_until_serving(LIMIT_S)
            assert list(client.get_status().deletions) == []
        assert handshake(ca, address, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
        with pytest.raises((ssl.SSLError, OSError)):
            handshake(ca, address, ssl.TLSVersion.TLSv1_2)


POLICY = """
apiVersion: trimtab.dev/v1
kind: AccessPolicy
callers:
  - {identities: ["spiffe://trimtab/client"], rights: [read, delete]}
  - {identities: ["spiffe://trimtab/reader"], rights: [read]}
deletions: {requireAssumption: true, requirePlanTime: true, maxNodesPerHour: 1}
"""


def test_the_process_holds_callers_to_its_policy_and_deletions_to_its_last_line(ca: OwnCa, tmp_path: Path) -> None:
    ca.issue("reader", hosts=())
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "cluster.json").write_text(json.dumps(listed(*small_cluster())))
    with (
        started(
            ca, tmp_path, f"--policy={tmp_path / 'policy.yaml'}", f"--cluster={tmp_path / 'cluster.json'}"
        ) as address,
        ActuatorClient(address, RetryPolicy(total_s=LIMIT_S), security=ca.channel("client")) as client,
        ActuatorClient(address, RetryPolicy(total_s=LIMIT_S), security=ca.channel("reader")) as reader,
    ):
        client.wait_until_serving(LIMIT_S)
        reader.get_status()
        bare = actuator_pb2.NodeToDelete(node="n6")
        empty = plan_pb2.NodeAssumption(pods_to_move_count=0, pods_to_move_digest=digest_of(()))
        nodes = [actuator_pb2.NodeToDelete(node=name, assumption=empty) for name in ("n6", "n7")]
        asked = {
            "no plan time": actuator_pb2.StartDeletionRequest(request_id="1", nodes=nodes),
            "no assumption": actuator_pb2.StartDeletionRequest(request_id="2", nodes=[bare]),
            "two": actuator_pb2.StartDeletionRequest(request_id="3", nodes=nodes),
        }
        for name in ("no assumption", "two"):
            asked[name].plan_time.GetCurrentTime()
        with pytest.raises(TrimtabError, match="CALLER_NOT_ALLOWED"):
            reader.start_deletion(asked["two"])
        answers = {name: client.start_deletion(request).nodes for name, request in asked.items()}
    found = {name: [Reason.Name(one.reason) for one in nodes] for name, nodes in answers.items()}
    assert found == {
        "no plan time": ["PLAN_TIME_REQUIRED"] * 2,
        "no assumption": ["ASSUMPTION_REQUIRED"],
        "two": ["UNSPECIFIED", "HOURLY_LIMIT_REACHED"],
    }
    assert "maxNodesPerHour 1" in answers["two"][1].detail


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--address=0.0.0.0:0"], "--allow-plaintext-on-network", id="plain text"),
        pytest.param(["--metrics-address=0.0.0.0:0"], "--metrics-address", id="metrics in plain text"),
        pytest.param(["--tls-cert=missing.crt"], "give --tls-key too", id="certificate without key"),
        pytest.param(["--tls-cert=no.crt", "--tls-key=no.key"], "no.crt", id="certificate that is not there"),
    ],
)
def test_a_process_that_is_not_protected_does_not_start(
    tmp_path: Path, forked: Programs, arguments: list[str], message: str
) -> None:
    done = forked("trimtab.actuator", f"--state-dir={tmp_path / 'state'}", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr
