"""Karpenter's kwok build with our method (`clients/go/karpenter`), as a process on a real control plane."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.e2e.actuator_process import kill, until
from tests.e2e.built_programs import built_by_go, go, skip_without_go
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports

Json = dict[str, Any]
MODULE = Path(__file__).parents[3] / "clients" / "go" / "karpenter"


def built() -> Path:
    """Return the binary, built now; skip the test where there is no Go."""
    skip_without_go("Karpenter")
    return built_by_go(MODULE, "./cmd/karpenter-kwok", "karpenter-kwok")


def install_kinds(plane: ControlPlane) -> None:
    """Create Karpenter's own CustomResourceDefinitions, of the version that the module names."""
    source = Path(go(MODULE, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/karpenter").strip())
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
