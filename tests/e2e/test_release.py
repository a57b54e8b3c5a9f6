"""What `.ci/release` builds: by the real tools, which come from the package index, and the real helm."""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.e2e.helm.binary import KWOK, ROOT, binary, helm

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
IMAGE = "registry.example/ours/trimtab"
WHEEL = f"trimtab-{VERSION}-py3-none-manylinux_2_17_{platform.machine()}.whl"
COUNTED = """
import sys
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event): compiled.append(event)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
from trimtab.clients.cli import run_app
try:
    run_app()
finally:
    print(len(compiled), "kernels compiled", file=sys.stderr)
"""
"""The command, and the number of compilations."""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "out"
    environment = {**os.environ, "HELM": str(binary()), "IMAGE": IMAGE}
    done = subprocess.run(
        [ROOT / ".ci" / "release", out], env=environment, capture_output=True, text=True, check=False, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_a_release_has_each_file_and_its_checksum(release: Path) -> None:
    built = {
        f"trimtab-{VERSION}-py3-none-any.whl", WHEEL, f"trimtab-{VERSION}.tar.gz", f"trimtab-{VERSION}.tgz",
        f"trimtab-{VERSION}.cdx.json", f"trimtab-{VERSION}-kwok.yaml",
    }  # fmt: skip
    assert {path.name for path in release.iterdir()} == {*built, "SHA256SUMS"}
    sums = dict(reversed(line.split("  ")) for line in (release / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((release / name).read_bytes()).hexdigest() for name in built}


def test_the_wheel_of_a_release_has_its_version(release: Path) -> None:
    with zipfile.ZipFile(release / f"trimtab-{VERSION}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"trimtab-{VERSION}.dist-info/METADATA").decode()
    assert f"\nVersion: {VERSION}\n" in metadata


def test_a_user_of_the_wheel_of_this_architecture_compiles_nothing(release: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True, timeout=100)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", f"{release / WHEEL}[planner]"]
    subprocess.run(install, check=True, timeout=300)
    recording = ROOT / "clients" / "data" / "recordings" / "openshift-vsphere.json.gz"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    decisions = [f"--decision={one}" for one in ("scale-up", "slack", "scale-down", "replacement", "pod-costs")]
    for options in ([], decisions):
        command = [python, "-c", COUNTED, "plan", recording, *options]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200
        )
        assert done.returncode == 0, done.stderr
        assert "0 kernels compiled" in done.stderr
        assert "nodes can go" in done.stdout


def test_the_chart_of_a_release_names_the_image_of_its_version(release: Path) -> None:
    chart = release / f"trimtab-{VERSION}.tgz"
    objects = [one for one in yaml.safe_load_all(helm("template", "release", chart, "--values", KWOK)) if one]
    pods = [one["spec"]["template"]["spec"] for one in objects if one["kind"] in {"Deployment", "StatefulSet"}]
    containers = [one for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"])]
    assert {one["image"] for one in containers} == {f"{IMAGE}:{VERSION}"}


def test_the_bill_of_materials_lists_what_the_image_has_locked_with_its_hashes(release: Path) -> None:
    bill = json.loads((release / f"trimtab-{VERSION}.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
    lock = (ROOT / "deploy" / "images" / "requirements.lock").read_text()
    locked = set(re.findall(r"^([\w.-]+==[^ ;\\]+)", lock, re.MULTILINE))
    assert {f"{one['name']}=={one['version']}" for one in bill["components"]} == locked
    hashes = {found["content"] for one in bill["components"] for found in one["externalReferences"][0]["hashes"]}
    assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", lock))


def test_a_folder_that_is_there_is_not_written_to(release: Path) -> None:
    done = subprocess.run([ROOT / ".ci" / "release", release], capture_output=True, check=False, timeout=100)
    assert done.returncode == 1
