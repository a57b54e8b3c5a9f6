"""The image: its build compiles exactly the kernels that a planner needs to serve, to where the planner's pods read
them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.manifests import installed_objects
from trimtab.clients.cli.demo import services

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCKERFILE = (DEPLOY / "images" / "Dockerfile").read_text()
KERNELS = ".ci/kernels"
"""The script with which the build compiles kernels into the package."""


def built() -> list[str]:
    """Return the options with which the build runs the planner."""
    assert f"RUN {KERNELS} /venv/bin/python\n" in DOCKERFILE
    text = (DEPLOY.parent / KERNELS).read_text()
    (options,) = re.findall(r"-m trimtab\.planner (.+)$", text, re.MULTILINE)
    return str(options).split()


def deployed() -> dict[str, dict[str, object]]:
    """Return the containers of the planner's pods by name."""
    spec = installed_objects()["Deployment", "trimtab-planner"]["spec"]["template"]["spec"]
    return {one["name"]: one for one in spec["containers"]}


def cached(log: str, verb: str) -> set[str]:
    """Return the files of compiled kernels that numba's log names. verb : "loaded from", "saved to"."""
    return set(re.findall(rf"data {verb} '([^']+)'", log))


@pytest.mark.nightly
@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler: leave out NUMBA_DISABLE_JIT"
)
def test_the_build_compiles_exactly_the_kernels_of_a_planner_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_DEBUG_CACHE", "1")
    command = [sys.executable, "-m", "trimtab.planner", *built()]
    # What is compiled the first time includes kernels that others contain, which nobody loads by themselves.
    subprocess.run(command, capture_output=True, timeout=280, check=True)
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    compiled = cached(done.stdout, "loaded from") | cached(done.stdout, "saved to")
    assert len(compiled) > 10

    # Its options in the pods select ports, peers and limits, none what is compiled.
    arguments = deployed()["planner"]["args"]
    assert isinstance(arguments, list)
    assert services.QUICK_START not in arguments
    with services.planner(tmp_path) as planner:
        assert planner.address
    log = planner.log.read_text()
    assert cached(log, "saved to") == set()
    assert cached(log, "loaded from") == compiled


def test_kernels_that_a_pod_compiles_are_kept_in_a_volume() -> None:
    (directory,) = re.findall(r"NUMBA_CACHE_DIR=(\S+)", DOCKERFILE)
    mounts = {one["name"]: one["mountPath"] for one in deployed()["planner"]["volumeMounts"]}  # type: ignore[attr-defined]
    assert mounts["cache"] == directory
