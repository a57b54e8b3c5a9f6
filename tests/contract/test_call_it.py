"""The programs of docs/call-it.md answer as they stand there, in a folder of their own, each with the nodes that the
others name.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.notes import Note
from tests.builders.planner_service import make_shell

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/call-it.md").read_text()
SPARE = ["n1", "n2"]
"""Nodes that can go, of three with little on them."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with make_shell() as shell:
        yield shell.address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the two files of the page, and the contract."""
    owner = k8s.replica_set("web", replicas=6)
    pods = [k8s.pod(f"p{at}", node=f"n{at % 3}", owner=owner) for at in range(6)]
    pods += [k8s.pod("large", cpu="3", node="n0", owner=owner)]
    nodes = [k8s.node(f"n{at}", labels={"pool": "workers"}) for at in range(3)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": [*nodes, *pods, owner]}))
    (tmp_path / "groups.json").write_text(block("json"))
    (tmp_path / "protos").symlink_to(ROOT / "protos")
    return tmp_path


def block(language: str, contains: str = "") -> str:
    """Return a fenced block of the page."""
    found = re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return next(text for text in found if contains in text)


def output(folder: Path, address: str, command: str, **environment: str) -> list[str]:
    """Return the lines that a command of the page prints, with the planner of the test."""
    shell = ["bash", "-euo", "pipefail", "-c", command.replace("127.0.0.1:8085", address)]
    everything = {**os.environ, **environment}
    done = subprocess.run(shell, cwd=folder, env=everything, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout.split()


def needs(note: Note, *programs: str) -> None:
    """Skip the test, loudly, where a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            note(f"NOT TESTED: a program of docs/call-it.md, because there is no {program} here")
            pytest.skip(f"needs {program} on PATH")


def test_python_needs_no_package_of_ours(folder: Path, address: str) -> None:
    (folder / "plan.py").write_text(block("python").replace("127.0.0.1:8085", address))
    output(folder, address, block("bash", "grpc_tools").replace("python ", f"{sys.executable} ", 1))
    # -S: without the installed package, which is of the same name.
    command = f"{sys.executable} -S plan.py"
    assert output(folder, address, command, PYTHONPATH=f"{folder}:{sysconfig.get_path('purelib')}") == SPARE


def test_grpcurl_needs_only_the_contract(folder: Path, address: str, note: Note) -> None:
    needs(note, "jq", "grpcurl")
    assert output(folder, address, block("bash", "grpcurl")) == SPARE


@pytest.mark.ci
def test_typescript_reads_the_contract_when_it_starts(folder: Path, address: str, note: Note) -> None:
    needs(note, "npm", "npx")
    (folder / "plan.ts").write_text(block("typescript").replace("127.0.0.1:8085", address))
    install, run = block("bash", "npm install").strip().splitlines()
    output(folder, address, f"{install} --no-audit --no-fund")
    assert output(folder, address, run) == SPARE


@pytest.mark.nightly
def test_go_sends_what_kubectl_prints(folder: Path, address: str, note: Note) -> None:
    needs(note, "go")
    module = ROOT / "clients/go"
    source, overlay = folder / "main.go", folder / "overlay.json"
    source.write_text(block("go").replace("127.0.0.1:8085", address))
    overlay.write_text(json.dumps({"Replace": {str(module / "program/main.go"): str(source)}}))
    options = f"-buildvcs=false -mod=mod -overlay={overlay} -o {folder / 'program'}"
    output(module, address, f"go build {options} ./program")
    assert output(folder, address, "./program") == SPARE
