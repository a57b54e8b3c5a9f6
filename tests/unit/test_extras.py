"""An installation that lacks extras: every command runs, or names the extra that it needs in one line; the client alone
needs none.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.forked import Programs, programs
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.recording import RecordingWriter
from trimtab.common.rpc.extras import EXTRAS
from trimtab.v1 import plan_pb2

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("cli", "planner", "actuator")
HIDE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == hidden or name.startswith(hidden + ".") for hidden in {hidden!r}):
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Absent())
"""


def environment_with(site: Path, *installed: str) -> dict[str, str]:
    """Return an environment in which processes and their children cannot import packages of other extras than these."""
    there = {package for extra in installed for package in EXTRAS[extra]}
    hidden = sorted({package for packages in EXTRAS.values() for package in packages} - there)
    site.mkdir()
    (site / "sitecustomize.py").write_text(HIDE.format(hidden=hidden))
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "protos")])}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with the extras of the programs, and no other."""
    return environment_with(tmp_path_factory.mktemp("programs") / "site", *PROGRAMS)


@pytest.fixture(scope="module")
def run(environment: dict[str, str]) -> Iterator[Programs]:
    """Return a function that runs commands in such processes."""
    with programs(environment=environment) as started:
        yield started


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Return a cluster of two nodes, a recording with one request, and paths to write to."""
    objects = [k8s.node("n1", labels={"pool": "a"}), k8s.node("n2", labels={"pool": "a"}), k8s.pod("p1", node="n1")]
    objects.append(k8s.node_group("a", selector={"pool": "a"}))
    cluster, recording = tmp_path / "cluster.json", tmp_path / "cluster.trimtab"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    with RecordingWriter(recording) as writer:
        writer.write(build_snapshot(decode_objects(objects)).snapshot)
        writer.write(plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN], now={"seconds": 1_800_000_000}))
        writer.write(plan_pb2.PlanResponse())
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("duration: 1m\n")
    return {
        "cluster": cluster,
        "recording": recording,
        "scenario": scenario,
        "new": tmp_path / "new.json",
        "state": tmp_path / "state",
    }


def test_the_client_and_the_readers_of_files_need_no_extra_and_load_no_compiler(tmp_path: Path) -> None:
    program = """
import sys
import trimtab.clients.actuator_client, trimtab.clients.planner_client
import trimtab.common.objects, trimtab.common.recording
assert not {"numba", "llvmlite", "sqlalchemy", "typer"} & set(sys.modules)
"""
    environment = environment_with(tmp_path / "site")
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "installed", "extra"),
    [
        pytest.param("trimtab.clients.cli --version", (), "cli", id="the command line"),
        pytest.param("trimtab.planner --version", ("cli",), "planner", id="the planner"),
        pytest.param("trimtab.actuator --version", ("cli",), "actuator", id="the actuator"),
        pytest.param("trimtab.clients.cli plan {cluster}", ("cli",), "planner", id="a plan in process"),
        pytest.param("trimtab.clients.cli demo", ("cli", "planner"), "actuator", id="the demo"),
        pytest.param("trimtab.clients.cli simulate {scenario}", ("cli", "planner"), "actuator", id="a simulation"),
    ],
)
def test_a_program_whose_extra_is_not_installed_names_it_in_one_line(
    files: dict[str, Path], tmp_path: Path, arguments: str, installed: tuple[str, ...], extra: str
) -> None:
    call = [sys.executable, "-m", *arguments.format(**files).split()]
    environment = environment_with(tmp_path / "site", *installed)
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"pip install 'trimtab[{extra}]'" in done.stderr


def test_with_the_command_line_alone_a_running_planner_is_asked(files: dict[str, Path], tmp_path: Path) -> None:
    call = [sys.executable, "-m", "trimtab.clients.cli", "plan", str(files["cluster"]), "--planner", "127.0.0.1:9"]
    environment = environment_with(tmp_path / "site", "cli")
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr
    assert "pip install" not in done.stderr


def test_hidden_modules_cannot_be_imported(environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", "import urllib3"], env=environment, capture_output=True, check=False)
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        pytest.param("trimtab.clients.cli plan {cluster} -o json", '"scaleDown"', id="plan"),
        pytest.param("trimtab.clients.cli explain {cluster} fit/default/p1 -o json", '"fits"', id="fit"),
        pytest.param("trimtab.clients.cli explain {cluster} node/n1", "n1", id="explain"),
        pytest.param("trimtab.clients.cli replay {recording} -o json", '"rounds": 1', id="replay"),
        pytest.param("trimtab.clients.cli simulate --schema", "nodeGroups", id="simulate"),
        pytest.param("trimtab.clients.cli --version", "0.", id="version"),
        pytest.param("trimtab.clients.cli demo --help", "FILE", id="demo"),
        pytest.param("trimtab.clients.cluster_generator {new} --nodes 12 --pods 60", "", id="cluster generator"),
    ],
)
def test_a_command_that_needs_no_live_cluster_runs(
    run: Programs, environment: dict[str, str], files: dict[str, Path], arguments: str, printed: str
) -> None:
    done = run(*arguments.format(**files).split(), environment=environment)
    # The recorded answer is empty, so a working replay reports differences, with code 1.
    assert done.returncode == (1 if "replay" in arguments else 0), done.stderr
    assert "Traceback" not in done.stderr
    assert printed in done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        pytest.param("trimtab.clients.cli run --planner 127.0.0.1:9", "kubernetes", id="run"),
        pytest.param("trimtab.clients.cli admin load", "kubernetes", id="load"),
        pytest.param("trimtab.clients.cli record {new}", "kubernetes", id="record"),
        pytest.param("trimtab.clients.cli top --status", "kubernetes", id="status"),
        pytest.param("trimtab.clients.cli run --act steer --planner 127.0.0.1:9", "kubernetes", id="steer"),
        pytest.param("trimtab.clients.cli top", "kubernetes", id="top of a live cluster"),
        pytest.param("trimtab.clients.cli plan --context c", "kubernetes", id="plan of a live cluster"),
        pytest.param("trimtab.clients.cli admin certificates {state}", "certificates", id="certificates"),
        pytest.param("trimtab.planner --token-audience a", "kubernetes", id="tokens for the planner"),
        pytest.param("trimtab.clients.cli plan {cluster} -o html={new}", "report", id="report"),
        pytest.param("trimtab.clients.cli top {cluster} --web 127.0.0.1:0", "report", id="a served page"),
        pytest.param("trimtab.clients.cli simulate {scenario} --dask tcp://127.0.0.1:9", "dask", id="dask"),
        pytest.param(
            "trimtab.actuator --state-dir {state} --cloud kwok --cloud-config {cluster}", "kubernetes", id="kwok"
        ),
        pytest.param("trimtab.actuator --state-dir {state} --cloud externalgrpc", "kubernetes", id="externalgrpc"),
        pytest.param("trimtab.actuator --state-dir {state} --cloud aws --aws-groups g", "kubernetes", id="aws"),
        pytest.param(
            "trimtab.actuator --state-dir {state} --store postgres://u@127.0.0.1:9/d", "postgresql", id="PostgreSQL"
        ),
    ],
)
def test_a_command_names_the_extra_that_it_needs_in_one_line(
    run: Programs, environment: dict[str, str], files: dict[str, Path], arguments: str, extra: str
) -> None:
    done = run(*arguments.format(**files).split(), environment=environment)
    assert done.returncode in (1, 2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert f"pip install 'trimtab[{extra}]'" in done.stderr


def test_a_program_with_traces_of_its_own_can_call(environment: dict[str, str]) -> None:
    program = (
        "import grpc; from opentelemetry import trace; from opentelemetry.sdk.trace import TracerProvider;"
        "from trimtab.common.rpc.client import traced; trace.set_tracer_provider(TracerProvider());"
        "channel = grpc.insecure_channel('127.0.0.1:9'); assert traced(channel) is channel"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.ci
@pytest.mark.parametrize("service", ["planner", "actuator"])
def test_a_service_listens(environment: dict[str, str], files: dict[str, Path], service: str) -> None:
    address = files["new"]
    arguments = ["--address-file", str(address)]
    if service == "actuator":
        arguments += ["--state-dir", str(files["state"]), "--cluster", str(files["cluster"])]
    process = subprocess.Popen(
        [sys.executable, "-m", f"trimtab.{service}", *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 200
    while not address.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    is_listening = address.exists()
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=200)
    assert is_listening, log
    assert "Traceback" not in log


def test_every_extra_of_the_project_is_known_and_in_the_table_of_the_page_on_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    assert set(EXTRAS) == extras - {"all", "test", "dev", "docs"}
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `")]
    assert extras - set(re.findall(r"`([a-z]+)`", " ".join(rows))) == set()


def test_readme_names_extras_that_exist_and_leads_to_their_table() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cli", "planner", "actuator", "all"} <= set(re.findall(r"trimtab\[([a-z]+)\]", text))
    assert set(re.findall(r"trimtab\[([a-z]+)\]", text)) <= set(project["optional-dependencies"])
    assert "docs/install.md#extras" in text


@pytest.mark.ci
@pytest.mark.parametrize("program", ["trimtab.clients.cli", "trimtab.planner", "trimtab.actuator"])
def test_every_program_prints_its_version(run: Programs, environment: dict[str, str], program: str) -> None:
    done = run(program, "--version", environment=environment | {"TRIMTAB_PLANNER_SHOW_VERSION": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{version('trimtab')}\n"
