"""The actuator as a process over TLS: TLS 1.3 alone, and no port on the network without protection."""

import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clients.actuator_client import ActuatorClient
from clients.transport.client import RetryPolicy
from tests.builders.tls import OwnCa, make_ca
from tests.builders.waiting import LIMIT_S

START = [sys.executable, "-m", "actuator", "--log-level=warning"]


@pytest.fixture
def ca(tmp_path: Path) -> OwnCa:
    return make_ca(tmp_path / "ca")


def handshake(ca: OwnCa, address: str, newest: ssl.TLSVersion) -> str | None:
    """Shake hands as a caller with a certificate; return the version agreed upon."""
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


def test_the_process_speaks_tls_1_3_alone_and_answers_callers_with_a_certificate(ca: OwnCa, tmp_path: Path) -> None:
    files = {"CERT": "server.crt", "KEY": "server.key", "CLIENT_CA": "ca.crt"}
    variables = {f"TRIMTAB_ACTUATOR_TLS_{name}": str(ca.directory / file) for name, file in files.items()}
    address_file = tmp_path / "address"
    arguments = [f"--state-dir={tmp_path / 'state'}", f"--address-file={address_file}"]
    process = subprocess.Popen([*START, *arguments], env=os.environ | variables)
    try:
        until_s = time.monotonic() + LIMIT_S
        while not address_file.exists() and time.monotonic() < until_s:
            assert process.poll() is None
            time.sleep(0.02)
        address = address_file.read_text().strip()
        policy = RetryPolicy(total_s=LIMIT_S)
        with ActuatorClient(address, policy, security=ca.channel("client")) as client:
            client.wait_until_serving(LIMIT_S)
            assert client.get_status().deletions == []
        assert handshake(ca, address, ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
        with pytest.raises((ssl.SSLError, OSError)):
            handshake(ca, address, ssl.TLSVersion.TLSv1_2)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--address=0.0.0.0:0"], "--allow-plaintext-on-network", id="plain text"),
        pytest.param(["--metrics-address=0.0.0.0:0"], "--metrics-address", id="metrics in plain text"),
        pytest.param(["--tls-cert=missing.crt"], "give --tls-key too", id="certificate without key"),
        pytest.param(["--tls-cert=no.crt", "--tls-key=no.key"], "no.crt", id="certificate that is not there"),
    ],
)
def test_a_process_that_is_not_protected_does_not_start(tmp_path: Path, arguments: list[str], message: str) -> None:
    command = [*START, f"--state-dir={tmp_path / 'state'}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr
