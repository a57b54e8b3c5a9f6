"""Bad input ends with code 2, one message on stderr with the place, nothing on stdout and no traceback."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.common.rpc.server import Registration, Shell
from trimtab.v1 import actuator_pb2_grpc

COMMANDS = [
    pytest.param(("plan", "{file}"), id="plan"),
    pytest.param(("explain", "{file}", "fit"), id="fit"),
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


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        pytest.param("scaleDown: {unneededTime: -5s}", "scaleDown.unneededTime: -5 s is too short", id="decision"),
        pytest.param(
            "nodeGroups: {a_b: {utilizationThreshold: 9}}",
            "nodeGroups.a_b.utilizationThreshold: 9 is above 1",
            id="node group",
        ),
    ],
)
def test_a_setting_that_the_planner_refuses_is_named_with_the_file_and_its_key(
    trimtab: Run, tmp_path: Path, written: str, complaint: str
) -> None:
    file, settings = listed(tmp_path, k8s.node("n1"), k8s.node_group("a_b", selector={})), tmp_path / "settings.yaml"
    settings.write_text(written)
    message = refused(trimtab, "plan", file, "--settings", settings, "--group-by", "none")
    assert f"settings file {settings}: {complaint}" in message


@pytest.mark.parametrize("text", ["scaleDown: {unneededTime: 10m}", "apiVersion: v1\nkind: List\nitems: []"])
def test_the_error_for_a_file_that_is_no_state_says_what_a_state_is(
    trimtab: Run, cluster: Path, tmp_path: Path, text: str
) -> None:
    state = tmp_path / "state.json"
    state.write_text(text)
    message = refused(trimtab, "plan", cluster, "--state", state)
    assert f"state file {state}: this is no state: " in message
    assert "a state is what a plan keeps for the next one: give the output of `trimtab plan -o json`" in message


@pytest.mark.parametrize("option", ["--tls-ca", "--tls-cert", "--tls-key", "--token-file"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(None, "cannot be read: No such file", id="missing"),
        pytest.param(b"\xff\xfe", "not text", id="binary"),
    ],
)
def test_a_file_for_tls_that_cannot_be_read_is_named_with_its_option(
    trimtab: Run, cluster: Path, tmp_path: Path, option: str, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "nosuch.pem"
    if content is not None:
        file.write_bytes(content)
    assert refused(trimtab, option, file, "plan", cluster).startswith(f"trimtab: {option} {file}: ")
    assert problem in refused(trimtab, option, file, "plan", cluster)


def test_a_kind_that_is_misspelled_is_named_where_nodes_are_missing(trimtab: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, k8s.node("n1") | {"kind": "Nodes"}, k8s.pod("p1"))
    outcome = trimtab("plan", "--no-advice", file)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == (
        "trimtab: there is no Node and no NodeGroup in the input: v1 Nodes: this kind is unknown; did you mean Node?"
    )
    assert "not needed" not in outcome.err


@pytest.mark.parametrize("amount", ["9" * 40, "-" + "9" * 40, "1e30", "9Ei"])
@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_an_amount_that_no_api_server_stores_is_refused(trimtab: Run, tmp_path: Path, kind: str, amount: str) -> None:
    pod, node = (
        (k8s.pod("p1", cpu=amount), k8s.node("n1")) if kind == "Pod" else (k8s.pod(), k8s.node("n1", cpu=amount))
    )
    message = refused(trimtab, "plan", listed(tmp_path, pod, node))
    assert f"{kind} " in message
    assert ".cpu: " in message
    assert ("is negative" if amount.startswith("-") else "is too large; give an amount of at most") in message


@pytest.mark.parametrize("output", ["table", "json"])
def test_pods_on_nodes_that_are_not_in_the_input_are_noted_once(trimtab: Run, tmp_path: Path, output: str) -> None:
    pods = [k8s.pod("p1", node="gone"), k8s.pod("p2", node="gone"), k8s.pod("p3", node="gone", phase="Succeeded")]
    outcome = trimtab(
        "plan", "--no-advice", listed(tmp_path, k8s.node("n1"), *pods), "--group-by", "none", "-o", output
    )
    assert outcome.code == 0
    said = [line for line in (outcome.err + outcome.out).splitlines() if "not in the input" in line]
    assert said == [
        "note: 2 pods are bound to nodes that are not in the input (default/p1 on gone) and left out; "
        "give all nodes, or leave such pods out"
    ]


def test_nodes_without_conditions_are_noted(trimtab: Run, tmp_path: Path) -> None:
    nodes = [k8s.node(name) for name in ("n1", "n2", "n3")]
    del nodes[0]["status"]["conditions"]
    nodes[1]["status"]["conditions"] = []
    err = trimtab("plan", "--no-advice", listed(tmp_path, *nodes), "--group-by", "none").err
    assert "note: 2 nodes have no condition Ready in status.conditions, so it counts as not ready" in err


@pytest.mark.parametrize("pod", ["web-0", "default/", "/web-0", "a/b/c"])
def test_a_pod_to_fit_is_written_with_its_namespace(trimtab: Run, cluster: Path, pod: str) -> None:
    assert "NAMESPACE/NAME" in refused(trimtab, "explain", cluster, f"fit/{pod}")


@pytest.mark.parametrize(
    "subject",
    ["pod/web-0", "node/", "deployment/web", "service/default/web", "n1", "node/a/b", "placeholder/", "slack/a"],
)
def test_a_subject_to_explain_is_of_a_known_kind(trimtab: Run, cluster: Path, subject: str) -> None:
    assert "pod/NAMESPACE/NAME, node/NAME, a workload such as deploy/NAMESPACE/NAME" in refused(
        trimtab, "explain", cluster, subject
    )


@pytest.mark.parametrize(
    ("subject", "near"),
    [
        pytest.param("node/n11", "n1", id="node"),
        pytest.param("pod/default/web-00", "default/web-0", id="pod"),
        pytest.param("deploy/default/wep", "rs/default/web", id="workload"),
    ],
)
def test_what_is_not_there_is_said_with_what_was_meant(trimtab: Run, cluster: Path, subject: str, near: str) -> None:
    message = refused(trimtab, "explain", cluster, subject)
    assert "there is no" in message
    assert near in message


@pytest.mark.ci
def test_a_command_whose_reader_has_gone_ends_as_kubectl_does(cluster: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "trimtab.clients.cli", "explain", cluster, "fit/default/web-0", "-o", "json"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=200,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, "")


def test_a_planner_that_is_not_there_is_named_with_its_address(trimtab: Run, cluster: Path) -> None:
    outcome = trimtab("plan", "--no-advice", cluster, "--planner", "127.0.0.1:9")
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


@pytest.mark.parametrize("command", COMMANDS)
def test_the_limit_of_an_input_is_named_with_its_flag(trimtab: Run, cluster: Path, command: tuple[str, ...]) -> None:
    arguments = [part.format(file=cluster) for part in command]
    message = refused(trimtab, *arguments, "--max-input-bytes", "1000")
    assert "larger than 1000 bytes" in message
    assert "--max-input-bytes" in message


@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param(
            ("plan", "x.json", "--scale-down-utilization-threshold=0.4"),
            "give --set scaleDown.utilizationThreshold=VALUE",
            id="the Cluster Autoscaler's flag",
        ),
        pytest.param(("replay", "x", "--scan-interval=1s"), "No such option", id="what no setting is"),
        pytest.param(("demo", "--scale-down-unneeded-time", "1m"), "it belongs in settings", id="without settings"),
        pytest.param(("plan", "x.json", "--setings", "y"), "--settings", id="misspelled"),
    ],
)
def test_an_option_that_is_not_there_is_answered_with_what_was_meant(
    trimtab: Run, command: tuple[str, ...], told: str
) -> None:
    done = trimtab(*command)
    assert (done.code, told in " ".join(done.err.split())) == (2, True), done.err
