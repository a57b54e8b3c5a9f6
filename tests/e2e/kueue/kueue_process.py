"""Kueue's own controller manager, as a process on a real control plane.

Its webhooks are left out: in a real cluster the API server reaches them by a Service, which needs a network of pods.
They set defaults and refuse mistakes; objects of a test are written out instead. Its kinds are served in the version
that it stores, since another one would need the conversion webhook.
"""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.actuator_process import apply, kill, until
from tests.e2e.built_programs import built_by_go, go, skip_without_go
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports

Json = dict[str, Any]
MODULE = Path(__file__).parent
NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Kinds into whose conversion webhook Kueue writes its certificate before it starts."""
SLOW_S = 120.0


def built() -> Path:
    """Return the binary: that of TRIMTAB_KUEUE, or one built now; skip the test where there is no Go."""
    skip_without_go("Kueue")
    given = os.environ.get("TRIMTAB_KUEUE")
    return Path(given) if given else built_by_go(MODULE, "sigs.k8s.io/kueue/cmd/kueue", "kueue")


def install_kinds(plane: ControlPlane, webhook_port: int) -> None:
    """Create Kueue's CustomResourceDefinitions of the version that the module names, and what it needs to start."""
    source = Path(go(MODULE, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue").strip())
    kinds = [yaml.safe_load(path.read_text()) for path in sorted((source / "config/components/crd/bases").glob("*"))]
    client = {"url": f"https://127.0.0.1:{webhook_port}/convert"}
    for kind in kinds:
        kind["spec"]["versions"] = [one for one in kind["spec"]["versions"] if one["storage"]]
        if kind["spec"]["names"]["plural"] in CONVERTED:
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            kind["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    apply(
        plane,
        *kinds,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{part}WebhookConfiguration",
                "metadata": {"name": f"kueue-{part.lower()}-webhook-configuration"},
                "webhooks": [],
            }
            for part in ("Mutating", "Validating")
        ),
    )
    apply(plane, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}})
    until(lambda: "workloads" in plane.kubectl("api-resources", "--api-group=kueue.x-k8s.io"), SLOW_S, "Kueue's kinds")


def mounted(plane: ControlPlane, directory: Path) -> bool:
    """Write the certificate that Kueue has made for itself to files, as a kubelet mounts its Secret."""
    secret = json.loads(plane.kubectl("get", "secret", "-n", NAMESPACE, SECRET, "-o", "json"))
    for name, value in secret.get("data", {}).items():
        (directory / name).write_bytes(base64.b64decode(value))
    return "data" in secret


@contextmanager
def kueue(plane: ControlPlane, directory: Path) -> Iterator[None]:
    """Run Kueue for Jobs, with its admission check for ProvisioningRequests."""
    binary = built()
    health, metrics, webhook = free_ports(3)
    install_kinds(plane, webhook)
    settings = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(directory / "certificates")},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
        "integrations": {"frameworks": ["batch/job"]},
    }
    (directory / "certificates").mkdir()
    (directory / "kueue.yaml").write_text(yaml.safe_dump(settings))
    log = directory / "kueue.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [binary, f"--config={directory / 'kueue.yaml'}", "--feature-gates=VisibilityOnDemand=false"],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig("admin"))},
            cwd=directory,
        )
    try:
        until(lambda: mounted(plane, directory / "certificates"), SLOW_S, "Kueue's certificate")
        yield
    except BaseException:
        print(log.read_text(errors="replace")[-8000:])
        raise
    finally:
        kill(process)
