"""Karpenter's kwok build with our method (`clients/go/karpenter`), as a process on a real control plane."""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.actuator_process import kill, until
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports

Json = dict[str, Any]
MODULE = Path(__file__).parents[3] / "clients" / "go" / "karpenter"


def _go(*arguments: str) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        ["go", *arguments], check=False, cwd=MODULE, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, f"go {' '.join(arguments)}: {done.stderr[-3000:]}"
    return done.stdout


def built() -> Path:
    """Return the binary, built now; skip the test where there is no Go."""
    if shutil.which("go") is None:
        pytest.skip("NOT TESTED: there is no Go to build Karpenter with")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab"
    binary = cache / "karpenter-kwok"
    _go("build", "-o", str(binary), "./cmd/karpenter-kwok")
    return binary


def install_kinds(plane: ControlPlane) -> None:
    """Create Karpenter's own CustomResourceDefinitions, of the version that the module names."""
    source = Path(_go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter").strip())
    for folder in ("pkg/apis/crds", "kwok/apis/crds"):
        for path in sorted((source / folder).glob("*.yaml")):
            plane.kubectl("create", "-f", str(path))
    until(lambda: "kwoknodeclasses" in plane.kubectl("api-resources", "--api-group=karpenter.kwok.sh"), 60, "kinds")
    until(lambda: "nodeclaims" in plane.kubectl("api-resources", "--api-group=karpenter.sh"), 60, "kinds")


class Karpenter:
    """A running Karpenter: its log and its metrics."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, port: int) -> None:
        self.process = process
        self._log = log
        self._port = port

    def lines(self) -> list[Json]:
        """Return the lines of the log."""
        found = []
        for line in self._log.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def samples(self) -> list[Sample]:
        """Return the samples of Trimtab's and Karpenter's metrics."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self._port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        return [
            sample
            for family in text_string_to_metric_families(text)
            if family.name.startswith(("trimtab_", "karpenter_"))
            for sample in family.samples
        ]

    def count(self, name: str, **labels: str) -> float:
        """Return the sum of a metric over the samples that have the labels."""
        return sum(one.value for one in self.samples() if one.name == name and labels.items() <= one.labels.items())


@contextmanager
def karpenter(plane: ControlPlane, folder: Path, *flags: str, more: Sequence[str] = ()) -> Iterator[Karpenter]:
    """Yield a running Karpenter. more : NAME=VALUE of its environment."""
    folder.mkdir(exist_ok=True)
    metrics, health = free_ports(2)
    environment = {
        **os.environ,
        "KUBECONFIG": str(plane.kubeconfig("admin")),
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "LOG_LEVEL": "debug",
        **dict(one.split("=", 1) for one in more),
    }
    log = folder / "karpenter.log"
    with log.open("wb") as out:
        process = subprocess.Popen([built(), *flags], stdout=out, stderr=out, env=environment)
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def ready() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            try:
                with opener.open(f"http://127.0.0.1:{health}/readyz", timeout=5):
                    return True
            except OSError:
                return False

        until(ready, 120, "Karpenter is ready")
        yield Karpenter(process, log, metrics)
    finally:
        kill(process)
