"""README's dry run, line by line, on a real control plane: it shows a plan, and writes nothing to the cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.documentation import Command, commands
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries, free_ports
from tests.e2e.workloads import kwok_node, workload

pytestmark = pytest.mark.e2e
PORT, CONTEXT, POOL = "8085", "my-cluster", "karpenter.sh/nodepool"


def dry_run() -> list[Command]:
    """Return README's lines from the one that prepares the shell to the one that ends the planner."""
    lines = [one for one in commands() if one.page == "README.md"]
    first = next(place for place, one in enumerate(lines) if one.line.startswith("source "))
    last = next(place for place, one in enumerate(lines) if one.line.startswith("kill "))
    return lines[first : last + 1]


def prepared(directory: Path, plane: ControlPlane) -> dict[str, str]:
    """Make an environment as README's reader has it: `.venv`, and a kubeconfig with a context; return its variables."""
    folder = directory / ".venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "activate").write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    path = directory / "kubeconfig"
    path.write_bytes(plane.kubeconfig("first").read_bytes())
    kubectl = [str(plane.binaries / "kubectl"), f"--kubeconfig={path}", "config"]
    names = subprocess.run([*kubectl, "get-contexts", "-o=name"], check=True, capture_output=True, text=True).stdout
    subprocess.run([*kubectl, "rename-context", names.strip(), CONTEXT], check=True, capture_output=True)
    subprocess.run([*kubectl, "unset", "current-context"], check=True, capture_output=True)
    return {**os.environ, "KUBECONFIG": str(path), "COLUMNS": "100"}


def test_readmes_five_lines_show_a_plan_beside_another_autoscaler_and_write_nothing(tmp_path: Path) -> None:
    lines = dry_run()
    assert len(lines) == 5
    state = tmp_path / "state"
    with ControlPlane(cached_binaries(), state, audited=["first"]) as plane:
        for number in range(3):
            node = kwok_node(f"n{number}", "a")
            node["metadata"]["labels"][POOL] = "default"
            plane.kubectl("create", "-f", "-", stdin=json.dumps(node))
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(workload("web", 2)))
        plane.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        (port,) = free_ports(1)
        text = "\n".join(one.line for one in lines).replace(f":{PORT}", f":{port}")
        done = subprocess.run(
            ["bash", "-c", text + "\nwait"], cwd=tmp_path, env=prepared(tmp_path, plane),
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        written = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    assert "of 3 nodes can go" in done.stdout, done.stderr
    changes = [entry["requestURI"] for entry in written if "selfsubjectaccessreviews" not in entry["requestURI"]]
    assert changes == []
