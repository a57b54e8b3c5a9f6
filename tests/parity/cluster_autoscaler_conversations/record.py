"""Records conversations of a real Cluster Autoscaler with our services; README.md has the commands.

Usage: python -m tests.parity.cluster_autoscaler_conversations.record --cluster-autoscaler PROGRAM --of TEXT
PROGRAM is the binary; TEXT is its version and commit, which goes to the header. An older version gets files of its own.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.builders.tls import OwnCa, make_ca
from tests.e2e import workloads
from tests.e2e.actuator_process import apply, listed, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries, free_ports
from tests.parity.cluster_autoscaler_conversations.conversation import Json, write
from tests.parity.cluster_autoscaler_conversations.recording_proxy import RecordingProxy, recording
from trimtab.actuator.cloud.kwok.groups import CAPACITY_ANNOTATION
from trimtab.actuator.cloud.options import ANNOTATION_PREFIX

SLOW_S = 300.0
PODS = 24
FLAGS = (
    "--cloud-provider=externalgrpc", "--scan-interval=2s", "--scale-down-delay-after-add=5s",
    "--scale-down-unneeded-time=5s", "--scale-down-delay-after-failure=5s", "--max-drain-parallelism=5",
    "--max-graceful-termination-sec=10", "--unremovable-node-recheck-timeout=10s", "--leader-elect=false",
    "--namespace=kube-system", "--v=4",
)  # fmt: skip


class Scene(NamedTuple):
    """The running services and both proxies."""

    plane: ControlPlane
    provider: RecordingProxy
    expander: RecordingProxy
    autoscaler: Callable[..., Any]


def groups() -> list[Json]:
    """Return two similar groups, one with capacity for three nodes only, and a group of larger, dearer nodes."""
    made = []
    for name, cpu, price, low in (("small-a", 4, 0.1, 1), ("small-b", 4, 0.1, 0), ("large", 16, 0.6, 0)):
        one = workloads.group(name, 20, pool="main")
        amounts = {"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        labels = {"pool": "main", "group": name, "topology.kubernetes.io/zone": name[-1]}
        one["spec"] |= {"minSize": low, "price": price, "nodeSelector": {"group": name}}
        one["spec"]["template"] = {
            "metadata": {"labels": labels},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        made.append(one)
    made[0]["metadata"]["annotations"] = {CAPACITY_ANNOTATION: "3"}
    made[1]["metadata"]["annotations"] = {ANNOTATION_PREFIX + "scaledownunneededtime": "4s"}
    return made


@contextmanager
def process(command: Sequence[object], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program; terminate it at the end."""
    with log.open("ab") as out:
        started = subprocess.Popen([str(one) for one in command], stdout=out, stderr=out)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.send_signal(signal.SIGTERM)
        try:
            started.wait(60)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait(60)


@contextmanager
def scene(program: Path, folder: Path) -> Iterator[Scene]:
    """A control plane, our services with the cloud kwok, and a function that starts the Cluster Autoscaler."""
    ports = free_ports(6)
    actuator, planner, expander, to_actuator, to_expander, own = (f"localhost:{port}" for port in ports)
    ca = make_ca(folder / "tls")
    tls = [f"--tls-cert={ca.directory}/server.crt", f"--tls-key={ca.directory}/server.key", f"--tls-client-ca={ca.ca}"]
    (folder / "groups.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": groups()}))
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(cached_binaries(), folder / "state"))
        ours = {
            "actuator": [
                f"--address={actuator}", f"--state-dir={folder}/store", "--cloud=kwok", "--serve-externalgrpc",
                f"--cloud-config={folder}/groups.json", f"--kubeconfig={plane.kubeconfig('admin')}",
                "--node-start=1", "--instance-delete=1",
            ],
            "planner": [f"--address={planner}", f"--expander-address={expander}", "--expander-chain=least-waste"],
        }  # fmt: skip
        for name, options in ours.items():
            log = folder / f"{name}.log"
            stack.enter_context(process([sys.executable, "-m", f"trimtab.{name}", *tls, *options], log))
            until(lambda log=log: '"ready"' in log.read_text(), SLOW_S, f"{name} ready")  # type: ignore[misc]
        provider = stack.enter_context(recording(to_actuator, actuator, ca, True))
        chooser = stack.enter_context(recording(to_expander, expander, ca, False))
        config = _cloud_config(folder, to_actuator, ca)

        def autoscaler(*flags: str) -> Any:
            fixed = (f"--cloud-config={config}", f"--kubeconfig={plane.kubeconfig('first')}", f"--address={own}")
            url = (f"--grpc-expander-url={to_expander}", f"--grpc-expander-cert={ca.ca}")
            return process([program, *FLAGS, *fixed, *url, *flags], folder / "autoscaler.log")

        yield Scene(plane, provider, chooser, autoscaler)


def _cloud_config(folder: Path, address: str, ca: OwnCa) -> Path:
    path = folder / "cloud-config.yaml"
    path.write_text(
        f"address: {address}\ncacert: {ca.ca}\ncert: {ca.directory}/client.crt\nkey: {ca.directory}/client.key\n"
    )
    return path


def is_bound(plane: ControlPlane, count: int) -> bool:
    """Return whether `count` pods exist, each with a node."""
    pods = listed(plane, "pods")
    return len(pods) == count and all(pod["spec"].get("nodeName") for pod in pods)


def grow_and_shrink(now: Scene, *flags: str) -> None:
    """Add pods and remove them again, with a Cluster Autoscaler that has these flags."""
    until(lambda: len(listed(now.plane, "nodes")) == 1, SLOW_S, "the first node")
    apply(
        now.plane, workloads.deployment("web", PODS, "900m", "main"), workloads.budget("web", "web", maxUnavailable=3)
    )
    with now.autoscaler(*flags):
        until(lambda: is_bound(now.plane, PODS), SLOW_S, "pods bound")
        now.plane.kubectl("scale", "deployment/web", "--replicas=3")
        until(lambda: len(listed(now.plane, "nodes")) == 1, SLOW_S, "nodes gone")


RECORDINGS: dict[str, tuple[str, ...]] = {
    "grpc": ("--expander=grpc,least-waste",),
    "price": ("--expander=price",),
}
"""Names of the recordings, and the flags of each."""


def main() -> None:
    """Record all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster-autoscaler", type=Path, required=True)
    parser.add_argument("--of", required=True)
    parser.add_argument("--only", choices=RECORDINGS, help="one of the recordings; default: all")
    parser.add_argument("--suffix", default="", help="of the files' names, such as -1.33")
    arguments = parser.parse_args()
    os.environ["NO_PROXY"] = "localhost,127.0.0.1"
    wanted = {name: RECORDINGS[name] for name in ([arguments.only] if arguments.only else RECORDINGS)}
    for name, flags in wanted.items():
        with TemporaryDirectory() as folder, scene(arguments.cluster_autoscaler, Path(folder)) as now:
            grow_and_shrink(now, *flags)
            header = {"clusterAutoscaler": arguments.of, "flags": [*FLAGS, *flags], "groups": groups()}
            write(name + arguments.suffix, header, [*now.provider.calls, *now.expander.calls])


if __name__ == "__main__":
    main()
