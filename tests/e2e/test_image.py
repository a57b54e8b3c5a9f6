"""The image, built from deploy/images/Dockerfile by buildah and started with command lines and volumes of the chart's
pods: a read-only root, the image's own user, no capability. Its base here is Debian's Python, not python:3.12-slim, and
no container runtime, no cgroup and no other architecture is part of it.
"""

import json
import os
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.tls import OwnCa
from tests.e2e.actuator_process import until
from tests.e2e.control_plane.control_plane import free_ports
from tests.e2e.helm.binary import Json, named, rendered
from tests.e2e.image.built import BuiltImage, built

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(1500)]

START_S = 60.0
RECORDING = "clients/data/recordings/openshift-aws.json.gz"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltImage]:
    with built(tmp_path_factory.mktemp("image")) as one:
        yield one


class Pod:
    """A pod of the chart: its command lines, and folders of the image's user for its volumes."""

    def __init__(self, image: BuiltImage, folder: Path, kind: str, name: str) -> None:
        self.spec: Any = named(rendered(), kind, name)["spec"]["template"]["spec"]
        self.image, self.folder, self.name = image, folder, name.removeprefix("trimtab-")
        self.container = self.spec["containers"][0]
        self.ca = OwnCa(folder / "ca")
        self.ca.issue(self.name)
        self.ca.issue("loop", hosts=())
        self.grpc, self.metrics = free_ports(2)

    def volume(self, name: str) -> Path:
        """The folder of a volume; those of Secrets and ConfigMaps are filled."""
        path = self.folder / "volumes" / name
        if not path.exists():
            path.mkdir(parents=True)
            if name in {"tls", "caller"}:
                certificate = self.name if name == "tls" else "loop"
                for key, source in (("tls.crt", f"{certificate}.crt"), ("tls.key", f"{certificate}.key")):
                    shutil.copy(self.ca.directory / source, path / key)
                shutil.copy(self.ca.ca, path / "ca.crt")
            if name in {"policy", "settings"}:
                for key, text in named(rendered(), "ConfigMap", f"trimtab-{name}")["data"].items():
                    (path / key).write_text(text)
            for each in (path, *path.iterdir()):
                os.chown(each, self.image.user, self.image.user)
        return path

    def volumes(self, container: Json) -> dict[str, Path]:
        return {one["mountPath"]: self.volume(one["name"]) for one in container["volumeMounts"]}

    def arguments(self, *without: str, **changed: str) -> list[str]:
        """The container's arguments at free ports; without some options, and with other values of some."""
        values = {"address": f"127.0.0.1:{self.grpc}", "metrics-address": f"127.0.0.1:{self.metrics}", **changed}
        found = []
        for argument in self.container["args"]:
            name = argument.partition("=")[0].removeprefix("--")
            if name not in without:
                found.append(f"--{name}={values[name]}" if name in values else argument)
        return found

    def asked(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the image beside the pod, as the loop does: with its certificate."""
        volumes = {"/tls": self.volume("caller"), "/cache": self.volume("cache"), "/tmp": self.volume("tmp")}
        loop = named(rendered(), "Deployment", "trimtab-loop")["spec"]["template"]["spec"]["containers"][0]
        environment = {one["name"]: one["value"] for one in loop["env"]}
        return self.image.run(command, volumes, **environment)

    def is_ready(self) -> bool:
        """The readiness probe, as the kubelet makes it: HTTPS without a certificate of its own, trusting any."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        path = self.container["readinessProbe"]["httpGet"]["path"]
        try:
            with urllib.request.urlopen(
                f"https://127.0.0.1:{self.metrics}{path}", context=context, timeout=5
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def test_the_image_runs_as_a_user_without_rights_and_says_what_it_is(image: BuiltImage) -> None:
    assert image.config["User"] == "65532:65532"
    labels = image.config["Labels"]
    assert (labels["org.opencontainers.image.title"], labels["org.opencontainers.image.licenses"]) == (
        "Trimtab", "Apache-2.0",
    )  # fmt: skip
    assert {one.partition("=")[0] for one in image.config["Env"]} == {
        "PATH", "PYTHONUNBUFFERED", "NUMBA_CACHE_DIR", "MALLOC_ARENA_MAX",
    }  # fmt: skip
    helped = image.run(image.config["Cmd"])
    assert (helped.returncode, "Usage: trimtab" in helped.stdout) == (0, True), helped.stderr
    assert image.run(["id", "-u"]).stdout == "65532\n"
    assert {path.name for path in (image.root / "licences").iterdir()} == {"LICENSE", "LICENCES.md"}


def test_the_image_has_nothing_that_only_its_build_needs(image: BuiltImage) -> None:
    assert not [name for name in ("src", "build", "wheels") if (image.root / name).exists()]
    (site,) = (image.root / "venv" / "lib").glob("python3*/site-packages")
    assert not [name for name in ("pip", "hatchling", "pytest") if (site / name).exists()]
    assert not [str(path) for path in site.rglob("tests") if path.is_dir()]
    programs = {path.name for path in (image.root / "venv" / "bin").glob("*trimtab*")}
    assert programs == {"trimtab", "trimtab-planner", "trimtab-actuator", "kubectl-trimtab"}


def test_no_file_of_the_programs_can_be_written_by_others_or_gives_rights(image: BuiltImage) -> None:
    found = [path for top in ("venv", "cache", "licences") for path in (image.root / top).rglob("*")]
    assert len(found) > 1000
    assert [str(path) for path in found if not path.is_symlink() and path.stat().st_mode & 0o6002] == []


def test_a_program_can_write_nowhere_but_in_its_volumes(image: BuiltImage, tmp_path: Path) -> None:
    os.chown(tmp_path, image.user, image.user)
    script = "for at in / /tmp /cache /venv /root /etc /volume; do touch $at/written 2>/dev/null && echo $at; done"
    assert image.run(["sh", "-c", script], {"/volume": tmp_path}).stdout == "/volume\n"


def test_the_planners_pod_is_ready_with_the_kernels_of_the_image_and_plans_for_the_loop(
    image: BuiltImage, tmp_path: Path
) -> None:
    pod = Pod(image, tmp_path, "Deployment", "trimtab-planner")
    log = tmp_path / "log"
    with image.running(pod.arguments(), pod.volumes(pod.container), log) as planner:
        until(lambda: pod.is_ready() or planner.poll() is not None, START_S, "the planner is ready")
        assert planner.poll() is None, log.read_text()
        (site,) = (image.root / "venv" / "lib").glob("python3*/site-packages")
        recorded = site.relative_to(image.root) / "trimtab" / RECORDING
        done = pod.asked("trimtab", "plan", f"/{recorded}", "--planner", f"127.0.0.1:{pod.grpc}", "-o", "json")
        assert done.returncode == 0, done.stderr
        assert "scaleDown" in json.loads(done.stdout)
    assert planner.returncode == 0
    # No kernel is compiled again.
    told = log.read_text()
    assert (told.count("data loaded from") > 10, told.count("data saved to")) == (True, 0)


def test_the_actuators_pod_is_ready_and_answers_the_loop(image: BuiltImage, tmp_path: Path) -> None:
    pod = Pod(image, tmp_path, "StatefulSet", "trimtab-actuator")
    log = tmp_path / "log"
    # Without a cluster: the cloud in memory, and no leadership.
    arguments = pod.arguments("cloud-config", "namespace", "leader-elect", cloud="memory")
    with image.running(arguments, pod.volumes(pod.container), log) as actuator:
        until(lambda: pod.is_ready() or actuator.poll() is not None, START_S, "the actuator is ready")
        assert actuator.poll() is None, log.read_text()
        at = f"127.0.0.1:{pod.grpc}"
        done = pod.asked("trimtab", "top", "--status", "--actuator", at, "--status-config-map=", "-o", "json")
        assert done.returncode == 0, done.stderr
    assert actuator.returncode == 0
    assert list(pod.volume("state").iterdir()), "its journal"
