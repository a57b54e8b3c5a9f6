"""A Cluster Autoscaler as a process on a real control plane, with an actuator as its cloud."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import pytest

from tests.e2e.actuator_process import kill
from tests.e2e.control_plane.control_plane import ControlPlane

QUICK = (
    "--scan-interval=2s",
    "--scale-down-unneeded-time=10s",
    "--scale-down-delay-after-add=1s",
    "--skip-nodes-with-system-pods=false",
    "--unremovable-node-recheck-timeout=2s",
    "--v=2",
)


WITH_OUR_PROCESSORS, UPSTREAM = "TRIMTAB_CLUSTER_AUTOSCALER", "TRIMTAB_UPSTREAM_AUTOSCALER"
"""Variables with the paths of binaries: built by `clients/go/autoscaler/processors/check.sh`, and unchanged, by
`go build -tags externalgrpc` in the folder cluster-autoscaler of github.com/kubernetes/autoscaler."""


@contextmanager
def autoscaler(
    plane: ControlPlane, directory: Path, address: str, *flags: str, variable: str = WITH_OUR_PROCESSORS
) -> Iterator[Path]:
    """Run a Cluster Autoscaler with the cloud at an address; yield its log. variable : with the path of its binary."""
    binary = os.environ.get(variable)
    if not binary:
        pytest.skip(f"NOT TESTED: there is no such Cluster Autoscaler ({variable})")
    config, log = directory / "cloud.yaml", directory / "autoscaler.log"
    config.write_text(f"address: {address}\n")
    cloud = ("--cloud-provider=externalgrpc", f"--cloud-config={config}", f"--kubeconfig={plane.kubeconfig('admin')}")
    with log.open("wb") as out:
        process = Popen([binary, *cloud, *QUICK, *flags], stdout=out, stderr=out)
    try:
        yield log
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        kill(process)
