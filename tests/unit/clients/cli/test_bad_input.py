"""Bad input ends with code 2, one message on stderr with the place, nothing on stdout and no traceback."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from trimtab.v1 import actuator_pb2_grpc

from clients.transport.server import Registration, Shell
from tests.builders import kubernetes as k8s
from tests.unit.clients.cli.conftest import Run, listed

COMMANDS = [
    pytest.param(("plan", "{file}"), id="plan"),
    pytest.param(("fit", "{file}"), id="fit"),
    pytest.param(("explain", "{file}", "node/n1"), id="explain"),
]


def refused(trimtab: Run, *arguments: object) -> str:
    """Return a function that runs a command that must be refused, and returns the message."""
    outcome = trimtab(*arguments)
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    assert outcome.err.count("\n") == 1, "one line"
    return outcome.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "there is no such file", id="missing"),
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"\x00\xff\x01garbage\x80" * 50, "cluster.json", id="binary garbage"),
        pytest.param(b'{"kind": "List", "items": [', "cluster.json", id="cut off"),
        pytest.param(gzip.compress(b'{"kind": "List"}' * 100)[:-20], "cluster.json", id="cut off while packed"),
        pytest.param(b'"just text"', "cluster.json", id="not an object"),
    ],
)
def test_files_that_are_not_a_cluster_are_named(
    trimtab: Run, tmp_path: Path, command: tuple[str, ...], content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "cluster.json"
    if content is not None:
        file.write_bytes(content)
    message = refused(trimtab, *[part.format(file=file) for part in command])
    assert complaint in message
    assert str(file) in message


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_is_not_a_file(trimtab: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    assert "this is a directory" in refused(trimtab, *[part.format(file=tmp_path) for part in command])


def test_a_broken_object_is_named_with_file_kind_name_and_field(trimtab: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, k8s.node("n1"), k8s.pod("p1", cpu="many"))
    message = refused(trimtab, "plan", file)
    for part in (str(file), "Pod", "default/p1", "spec.containers[0].resources.requests.cpu"):
        assert part in message


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(("--decision", "scale-sideways"), "scale-sideways", id="decision"),
        pytest.param(("--now", "soon"), "--now soon", id="moment"),
        pytest.param(("--settings", "absent.yaml"), "absent.yaml", id="settings"),
        pytest.param(("--state", "absent.json"), "absent.json", id="state"),
    ],
)
def test_options_are_checked_before_the_cluster_is_read(
    trimtab: Run, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    assert complaint in refused(trimtab, "plan", tmp_path / "no such cluster.json", *arguments)


def test_an_unknown_setting_is_named(trimtab: Run, cluster: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {unneededTme: 1s}")
    assert "unneededTme" in refused(trimtab, "plan", cluster, "--settings", settings)


@pytest.mark.parametrize("pod", ["web-0", "default/", "/web-0", "a/b/c"])
def test_a_pod_to_fit_is_written_with_its_namespace(trimtab: Run, cluster: Path, pod: str) -> None:
    assert "NAMESPACE/NAME" in refused(trimtab, "fit", cluster, "--pod", pod)


@pytest.mark.parametrize(
    "subject", ["pod/web-0", "node/", "deployment/default/web", "n1", "node/a/b", "placeholder/", "slack/a"]
)
def test_a_subject_to_explain_is_a_pod_or_a_node(trimtab: Run, cluster: Path, subject: str) -> None:
    assert "pod/NAMESPACE/NAME or node/NAME" in refused(trimtab, "explain", cluster, subject)


@pytest.mark.parametrize(
    ("subject", "near"),
    [pytest.param("node/n11", "n1", id="node"), pytest.param("pod/default/web-00", "default/web-0", id="pod")],
)
def test_what_is_not_there_is_said_with_what_was_meant(trimtab: Run, cluster: Path, subject: str, near: str) -> None:
    message = refused(trimtab, "explain", cluster, subject)
    assert "there is no" in message
    assert near in message


def test_a_reader_that_goes_away_is_not_an_error(cluster: Path) -> None:
    command = f'"{sys.executable}" -m clients.cli fit "{cluster}" --pod default/web-0 | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in {"0", "1"}


def test_a_planner_that_is_not_there_is_named_with_its_address(trimtab: Run, cluster: Path) -> None:
    outcome = trimtab("plan", cluster, "--planner", "127.0.0.1:9")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("trimtab: no planner at 127.0.0.1:9: ")
    assert outcome.err.count("\n") == 1


def test_an_actuator_in_place_of_a_planner_is_named(
    trimtab: Run, cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    servicer = actuator_pb2_grpc.ActuatorServicer()
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, servicer, "trimtab.v1.Actuator")
    with Shell("actuator", [registration]) as shell:
        capsys.readouterr()
        message = refused(trimtab, "plan", cluster, "--planner", shell.address)
    assert f"no planner at {shell.address}: that is an actuator" in message


@pytest.mark.parametrize("command", COMMANDS)
def test_a_cluster_without_nodes_is_refused_with_what_to_export(
    trimtab: Run, tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = listed(tmp_path, k8s.pod("p1"))
    message = refused(trimtab, *[part.format(file=file) for part in command])
    assert "no Node" in message
    assert "kubectl get nodes," in message


def test_a_cluster_is_read_from_a_pipe_and_from_standard_input(cluster: Path) -> None:
    command = (
        f'cat "{cluster}" | "{sys.executable}" -m clients.cli fit - --pod default/web-0 && '
        f'"{sys.executable}" -m clients.cli fit <(cat "{cluster}") --pod default/web-0'
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == lines[3:]
    assert len(lines) == 6


@pytest.mark.parametrize("command", COMMANDS)
def test_the_limit_of_an_input_is_named_with_its_flag(trimtab: Run, cluster: Path, command: tuple[str, ...]) -> None:
    arguments = [part.format(file=cluster) for part in command]
    message = refused(trimtab, *arguments, "--max-input-bytes", "1000")
    assert "larger than 1000 bytes" in message
    assert "--max-input-bytes" in message
