"""`trimtab admin certificates`: with its files the parts can talk to each other, and no one else can."""

import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from tests.builders.cli import Run
from trimtab.clients.cli.certificates.authority import PARTS
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def GetInfo(self, request, context):
        names = context.auth_context()["x509_subject_alternative_name"]
        return actuator_pb2.GetActuatorInfoResponse(version=names[0].decode())


def san(path: Path) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_each_part_is_admitted_and_known_by_its_identity(trimtab: Run, tmp_path: Path) -> None:
    assert trimtab("admin", "certificates", tmp_path / "c").code == 0
    made = tmp_path / "c"
    security = PortSecurity(made / "actuator.crt", made / "actuator.key", made / "ca.crt")
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, Servicer(), "trimtab.v1.Actuator")
    with Shell("test", [registration], ServerSettings(security=security)) as shell:
        for part in PARTS:
            ours = ChannelSecurity(made / "ca.crt", made / f"{part.name}.crt", made / f"{part.name}.key")
            with connect(shell.address, ours) as channel:
                answer = actuator_pb2_grpc.ActuatorStub(channel).GetInfo(actuator_pb2.GetActuatorInfoRequest())
            assert answer.version == part.identity == f"spiffe://trimtab/{part.name}"


def test_keys_are_for_their_owner_alone_and_the_cas_key_is_in_no_secret(trimtab: Run, tmp_path: Path) -> None:
    trimtab("admin", "certificates", tmp_path, "--namespace", "elsewhere")
    for path in [*tmp_path.glob("*.key"), tmp_path / "secrets.yaml"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    text = (tmp_path / "secrets.yaml").read_text()
    secrets = {one["metadata"]["name"]: one for one in yaml.safe_load_all(text)}
    assert set(secrets) == {f"trimtab-{part.name}-tls" for part in PARTS}
    assert {one["metadata"]["namespace"] for one in secrets.values()} == {"elsewhere"}
    assert secrets["trimtab-planner-tls"]["stringData"]["tls.key"] == (tmp_path / "planner.key").read_text()
    assert secrets["trimtab-planner-tls"]["stringData"]["ca.crt"] == (tmp_path / "ca.crt").read_text()
    assert (tmp_path / "ca.key").read_text() not in {one["stringData"]["tls.key"] for one in secrets.values()}
    assert "trimtab-planner.elsewhere.svc" in san(tmp_path / "planner.crt").get_values_for_type(x509.DNSName)


def test_a_ca_is_never_overwritten_and_renewed_certificates_are_of_the_same_one(trimtab: Run, tmp_path: Path) -> None:
    trimtab("admin", "certificates", tmp_path)
    ca, planner = (tmp_path / "ca.crt").read_bytes(), (tmp_path / "planner.crt").read_bytes()
    refused = trimtab("admin", "certificates", tmp_path)
    assert (refused.code, "--renew" in refused.err) == (2, True)
    assert (tmp_path / "planner.crt").read_bytes() == planner
    assert trimtab("admin", "certificates", tmp_path, "--renew", "--name", "planner=planner.example").code == 0
    assert (tmp_path / "ca.crt").read_bytes() == ca
    renewed = x509.load_pem_x509_certificate((tmp_path / "planner.crt").read_bytes())
    renewed.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    assert "planner.example" in san(tmp_path / "planner.crt").get_values_for_type(x509.DNSName)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--namespace", "Not One"], "--namespace", id="namespace"),
        pytest.param(["--name", "nobody=a.example"], "with one of these parts", id="part"),
        pytest.param(["--name", "planner=a b"], "neither a DNS name", id="host"),
        pytest.param(["--renew"], "no CA to issue", id="nothing to renew"),
    ],
)
def test_bad_input_is_reported_before_anything_is_written(
    trimtab: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    outcome = trimtab("admin", "certificates", tmp_path, *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_connection_options_that_cannot_be_used_are_reported_at_once(trimtab: Run, tmp_path: Path) -> None:
    missing = trimtab("--tls-ca", tmp_path / "none.crt", "plan", "x.json")
    assert (missing.code, "none.crt" in missing.err) == (2, True)
    (tmp_path / "token").write_text("t")
    plain = trimtab("--token-file", tmp_path / "token", "plan", "x.json")
    assert (plain.code, "--tls-ca" in plain.err) == (2, True)
