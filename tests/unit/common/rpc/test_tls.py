"""TLS on loopback: who is admitted, certificates that change, ports that must not be in plain text."""

import shutil
import ssl
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from tests.builders.tls import OwnCa, make_ca
from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect, invoke
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.port_security import PortSecurity, is_loopback
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

ONCE = RetryPolicy(attempts=1)


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def GetInfo(self, request, context):
        return actuator_pb2.GetActuatorInfoResponse(version="1")

    def WatchStatus(self, request_iterator, context):
        yield actuator_pb2.WatchStatusResponse()
        yield actuator_pb2.WatchStatusResponse()


def make_shell(security: PortSecurity, **settings) -> Shell:
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, Servicer(), "trimtab.v1.Actuator")
    return Shell("test", [registration], ServerSettings(security=security, **settings))


def ask(channel: grpc.Channel) -> str:
    stub = actuator_pb2_grpc.ActuatorStub(channel)
    request = actuator_pb2.GetActuatorInfoRequest()
    return invoke(lambda: stub.GetInfo(request, timeout=LIMIT_S), ONCE).version


def ask_once(shell: Shell, security: ChannelSecurity) -> str:
    with connect(shell.address, security) as channel:
        return ask(channel)


def test_a_caller_with_a_certificate_of_the_ca_is_admitted(ca: OwnCa) -> None:
    with make_shell(ca.port()) as shell:
        assert ask_once(shell, ca.channel("client")) == "1"


def test_a_token_is_enough_if_no_certificate_is_required(ca: OwnCa, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with make_shell(ca.port(client_ca=False)) as shell:
        assert ask_once(shell, ca.channel(token_file=tmp_path / "token")) == "1"


@pytest.mark.parametrize(
    "case", ["none", "expired", "not yet valid", "of another CA", "signed by itself", "plain text"]
)
def test_a_caller_without_a_good_certificate_is_not_admitted(ca: OwnCa, tmp_path: Path, case: str) -> None:
    other = make_ca(tmp_path / "other")
    ca.issue("expired", hosts=(), age=timedelta(days=2))
    ca.issue("early", hosts=(), age=timedelta(days=-2))
    channels = {
        "none": ca.channel(),
        "expired": ca.channel("expired"),
        "not yet valid": ca.channel("early"),
        "of another CA": other.channel("client", ca.ca),
        "plain text": ChannelSecurity(),
        # A self-signed certificate.
        "signed by itself": ChannelSecurity(ca.ca, other.ca, _key_of(other)),
    }
    with make_shell(ca.port()) as shell:
        with pytest.raises(TrimtabError) as caught:
            ask_once(shell, channels[case])
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        assert ask_once(shell, ca.channel("client")) == "1", "the server is there for others"


def _key_of(ca: OwnCa) -> Path:
    path = ca.directory / "ca.key"
    path.write_bytes(ca.made[1].key)
    return path


@pytest.mark.parametrize("case", ["of another CA", "expired", "with another name"])
def test_a_server_without_a_valid_certificate_gets_no_data(ca: OwnCa, tmp_path: Path, case: str) -> None:
    ca.issue("expired", age=timedelta(days=2))
    ca.issue("elsewhere", hosts=("planner.example",))
    name = {"expired": "expired", "with another name": "elsewhere"}.get(case, "server")
    trusted = make_ca(tmp_path / "other").ca if case == "of another CA" else ca.ca
    with make_shell(ca.port(name)) as shell:
        with pytest.raises(TrimtabError) as caught:
            ask_once(shell, ca.channel("client", trusted))
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        if case == "with another name":
            assert ask_once(shell, ca.channel("client", tls_server_name="planner.example")) == "1"


def test_a_rotated_certificate_of_the_server_holds_for_the_next_connection(ca: OwnCa, tmp_path: Path) -> None:
    new = make_ca(tmp_path / "new")
    with make_shell(ca.port()) as shell, connect(shell.address, ca.channel("client")) as before:
        assert ask(before) == "1"
        _copy(new, ca, "server")
        with pytest.raises(TrimtabError):
            ask_once(shell, ca.channel("client"))
        assert ask_once(shell, ca.channel("client", new.ca)) == "1"
        assert ask(before) == "1", "connections that stand go on"


def test_callers_of_a_new_ca_are_admitted_and_those_of_the_old_one_are_not(ca: OwnCa, tmp_path: Path) -> None:
    new = make_ca(tmp_path / "new")
    with make_shell(ca.port()) as shell:
        trusted = tmp_path / "trusted"
        shutil.copy(ca.ca, trusted)
        shutil.copy(new.ca, ca.ca)
        assert ask_once(shell, new.channel("client", trusted)) == "1"
        with pytest.raises(TrimtabError):
            ask_once(shell, ca.channel("client", trusted))


def test_a_client_continues_with_its_rotated_certificate(ca: OwnCa, tmp_path: Path) -> None:
    new = make_ca(tmp_path / "new")
    client = tmp_path / "client"
    shutil.copytree(ca.directory, client)
    own = ChannelSecurity(client / "ca.crt", client / "client.crt", client / "client.key")
    with connect("127.0.0.1:1", own) as unused, make_shell(ca.port()) as shell, connect(shell.address, own) as channel:
        assert ask(channel) == "1"
        for file in ("server.crt", "server.key", "ca.crt"):
            shutil.copy(new.directory / file, ca.directory / file)
        for file in ("client.crt", "client.key", "ca.crt"):
            shutil.copy(new.directory / file, client / file)
        assert ask(channel) == "1", "over a new connection, with the new certificate"
        assert len(list(actuator_pb2_grpc.ActuatorStub(channel).WatchStatus(actuator_pb2.WatchStatusRequest()))) == 2
        del unused


def test_a_new_certificate_that_cannot_be_used_is_reported_once_and_the_old_one_stays(ca: OwnCa) -> None:
    with capture_logs() as logs, make_shell(ca.port()) as shell:
        key = ca.directory / "server.key"
        kept = key.read_bytes()
        key.write_text("no key")
        for _ in range(3):
            assert ask_once(shell, ca.channel("client")) == "1"
        key.unlink()
        assert ask_once(shell, ca.channel("client")) == "1"
        key.write_bytes(kept)
        assert ask_once(shell, ca.channel("client")) == "1"
    warnings = [one["detail"] for one in logs if one["log_level"] == "warning"]
    assert len(warnings) == 2
    assert "server.key" in warnings[0]
    assert "no key" not in str(logs), "nothing of a key is in a log"


@pytest.mark.parametrize(
    ("security", "message"),
    [
        pytest.param({}, "--allow-plaintext-on-network", id="plain text"),
        pytest.param({"cert": Path("a")}, "give --tls-key too", id="a certificate without its key"),
        pytest.param({"client_ca": Path("a")}, "needs --tls-cert", id="a CA of callers without TLS"),
    ],
)
def test_a_port_on_the_network_without_protection_is_not_opened(security: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_shell(PortSecurity(**security), address="0.0.0.0:0")


def test_callers_from_the_network_must_be_known_unless_the_operator_says_otherwise(ca: OwnCa) -> None:
    with pytest.raises(ValueError, match="--allow-anonymous-on-network"):
        make_shell(ca.port(client_ca=False), address="0.0.0.0:0")
    for security in (ca.port(client_ca=False, allow_anonymous=True), PortSecurity(allow_plaintext=True), ca.port()):
        with make_shell(security, address="0.0.0.0:0"):
            pass


def test_metrics_on_the_network_in_plain_text_are_not_served_either() -> None:
    with pytest.raises(ValueError, match="--metrics-address"):
        make_shell(PortSecurity(), metrics_address="0.0.0.0:0")


@pytest.mark.parametrize(
    ("host", "expected"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)]
)
def test_loopback_is_distinguished_from_the_network(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "security",
    [ChannelSecurity(token_file=Path("t")), ChannelSecurity(tls_server_name="n"), ChannelSecurity(tls_cert=Path("c"))],
)
def test_what_a_client_shows_is_never_shown_in_plain_text(security: ChannelSecurity) -> None:
    with pytest.raises(ValueError, match=r"--tls-ca|--tls-key"):
        connect("127.0.0.1:1", security)


def test_the_environment_says_how_to_connect(ca: OwnCa, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_TLS_CA", str(ca.ca))
    monkeypatch.setenv("TRIMTAB_TLS_CERT", str(ca.directory / "client.crt"))
    monkeypatch.setenv("TRIMTAB_TLS_KEY", str(ca.directory / "client.key"))
    with make_shell(ca.port()) as shell, connect(shell.address) as channel:
        assert ask(channel) == "1"


def get(ca: OwnCa, address: str, path: str, name: str = "") -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(ca.ca))
    if name:
        context.load_cert_chain(ca.directory / f"{name}.crt", ca.directory / f"{name}.key")
    try:
        with urllib.request.urlopen(f"https://{address}{path}", timeout=LIMIT_S, context=context) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_are_for_callers_with_a_certificate_and_health_is_for_all(ca: OwnCa, tmp_path: Path) -> None:
    shell = make_shell(ca.port(), metrics_address="127.0.0.1:0")
    address = shell.telemetry.metrics_address
    try:
        assert get(ca, address, "/readyz")[0] == 503
        assert get(ca, address, "/healthz") == (200, "ok\n")
        shell.start()
        shell.ready()
        assert get(ca, address, "/readyz") == (200, "ok\n")
        assert get(ca, address, "/metrics")[0] == 403
        assert "python_info" in get(ca, address, "/metrics", "client")[1]
        with pytest.raises((urllib.error.URLError, ssl.SSLError, OSError)):
            get(ca, address, "/metrics", _foreign(ca, tmp_path))
        _copy(make_ca(tmp_path / "new"), ca, "server")
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            get(ca, address, "/healthz")
    finally:
        shell.stop()


def test_metrics_are_not_served_to_tls_1_2(ca: OwnCa) -> None:
    with make_shell(ca.port(), metrics_address="127.0.0.1:0") as shell:
        context = ssl.create_default_context(cafile=str(ca.ca))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        address = f"https://{shell.telemetry.metrics_address}/healthz"
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(address, timeout=LIMIT_S, context=context)


def _foreign(ca: OwnCa, directory: Path) -> str:
    """Add a certificate of another CA to those of this one."""
    other = make_ca(directory / "other")
    for suffix in ("crt", "key"):
        shutil.copy(other.directory / f"client.{suffix}", ca.directory / f"foreign.{suffix}")
    return "foreign"


def _copy(source: OwnCa, target: OwnCa, name: str) -> None:
    for suffix in ("crt", "key"):
        shutil.copy(source.directory / f"{name}.{suffix}", target.directory / f"{name}.{suffix}")
