"""A real Kubernetes control plane on loopback: etcd, kube-apiserver, controller-manager, scheduler and kwok.

No containers, no kubelet, no root. All state lives in one folder that is thrown away; every process is started here and
ended here, by its id. kwok plays the kubelet of nodes labelled `kwok=on`.
"""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Final

from tests.e2e.built_programs import cache_folder

_WORKER: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
_PORTS: Final = cycle(range(16_000 + 2_000 * _WORKER, 18_000 + 2_000 * _WORKER))

TOKENS = {
    "admin": ("admin", '"system:masters"'),
    "kcm": ("system:kube-controller-manager", '""'),
    "sched": ("system:kube-scheduler", '""'),
    "kwok": ("kwok", '"system:masters"'),
    "trimtab": ("trimtab", '"trimtab"'),
    "nobody": ("nobody", '""'),
    "first": ("first", '"system:masters"'),
    "second": ("second", '"system:masters"'),
}


def free_ports(count: int) -> list[int]:
    """Return distinct free loopback ports, each given once by a process.

    They lie below those that connections of the kernel's choice get, and each process of the tests has a range of its
    own: what starts on one later finds it free.
    """
    given = []
    while len(given) < count:
        port = next(_PORTS)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            given.append(port)
    return given


class ControlPlane:
    """The processes and their addresses; use as a context manager."""

    def __init__(
        self,
        binaries: Path,
        state: Path,
        *,
        stages: Sequence[Path] = (),
        kcm_flags: Sequence[str] = (),
        audited: Sequence[str] = (),
        audits_reads: bool = False,
        audits_pods: bool = False,
        feature_gates: Sequence[str] = (),
        served: Sequence[str] = (),
    ) -> None:
        """`audit_log` gets what users in `audited` change, with `audits_reads` also what they read, as JSON lines; with
        `audits_pods` whatever anybody changes in pods too, with the answers.

        feature_gates : to switch on in all components; served : API versions to serve beyond the default ones
        """
        self.binaries = binaries
        self.state = state
        self.stages = list(stages)
        self.kcm_flags = list(kcm_flags)
        self.audited = list(audited)
        self.audits_reads = audits_reads
        self.audits_pods = audits_pods
        self.audit_log = state / "audit.jsonl"
        self.gate_flags = (
            [f"--feature-gates={','.join(f'{one}=true' for one in feature_gates)}"] if feature_gates else []
        )
        self.served_flags = [f"--runtime-config={','.join(f'{one}=true' for one in served)}"] if served else []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd_port, self.peer_port, self.api_port, self.kcm_port, self.sched_port, self.kwok_port = free_ports(6)

    @property
    def server(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.api_port}"

    def kubeconfig(self, user: str) -> Path:
        """Path of a user's kubeconfig."""
        return self.state / f"{user}.kubeconfig"

    def __enter__(self) -> "ControlPlane":
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process at once; the state is thrown away anyway."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(timeout=30)
        self.processes.clear()
        shutil.rmtree(self.state, ignore_errors=True)

    def kill(self, name: str) -> None:
        """Kill one process, by the name of its program."""
        process = self.processes[name]
        process.kill()
        process.wait(timeout=30)

    def start_api_server(self) -> None:
        """Start one after `kill`: it remembers no versions of objects from before."""
        self._api_server()

    def start_controller_manager(self) -> None:
        """Start one after `kill`: it lists all objects before it acts, so it sees what happened meanwhile."""
        self._controller_manager()
        self._until(f"https://127.0.0.1:{self.kcm_port}/healthz", "kube-controller-manager")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as admin; return its output, raise with its message when it fails."""
        command = [self.binaries / "kubectl", f"--kubeconfig={self.kubeconfig('admin')}", *arguments]
        done = subprocess.run(command, check=False, input=stdin, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def scheduler_metrics(self) -> str:
        """Return what the scheduler counts of itself, as text."""
        url = f"https://127.0.0.1:{self.sched_port}/metrics"
        request = urllib.request.Request(url, headers={"Authorization": "Bearer admin-token"})
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return str(answer.read(), "utf-8")

    def _start(self) -> None:
        self.state.mkdir(parents=True)
        self._credentials()
        self._etcd()
        self._api_server()
        self._controllers()
        self._kwok()
        self._until(f"{self.server}/api/v1/namespaces/default/serviceaccounts/default", "kwok")

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self.state / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [self.binaries / name, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.state
            )

    def _until(self, url: str, name: str, *, limit_s: float = 120) -> None:
        """Wait until a URL answers 200; give the end of the log when the process ends or time is out."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        request = urllib.request.Request(url, headers={"Authorization": "Bearer admin-token"})
        handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
        opener = urllib.request.build_opener(*handlers)
        end = time.monotonic() + limit_s
        while True:
            try:
                with opener.open(request, timeout=5):
                    return
            except OSError as error:
                if self.processes[name].poll() is not None or time.monotonic() > end:
                    tail = (self.state / f"{name}.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{name} is not ready at {url}: {error}\n{tail}") from error
                time.sleep(0.05)

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.state)

    def _credentials(self) -> None:
        self._openssl("genrsa", "-out", "sa.key", "2048")
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        self._openssl(
            "req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=test-ca"
        )
        self._openssl("req", *curve, "-keyout", "api.key", "-out", "api.csr", "-subj", "/CN=kube-apiserver")
        (self.state / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes,IP:10.96.0.1")
        sign = ("x509", "-req", "-in", "api.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial")
        self._openssl(*sign, "-out", "api.crt", "-days", "2", "-extfile", "san")
        lines = [f"{name}-token,{user},{name},{groups}" for name, (user, groups) in TOKENS.items()]
        (self.state / "tokens.csv").write_text("\n".join(lines) + "\n")
        for name in TOKENS:
            self.write_kubeconfig(name, f"{name}-token")

    def write_kubeconfig(self, name: str, token: str) -> Path:
        """Write the kubeconfig of a user with a bearer token; return its path."""
        cluster = f'server: "{self.server}", certificate-authority: {self.state}/ca.crt'
        path = self.kubeconfig(name)
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            f"clusters: [{{name: c, cluster: {{{cluster}}}}}]\n"
            f"users: [{{name: {name}, user: {{token: {token}}}}}]\n"
            f"contexts: [{{name: c, context: {{cluster: c, user: {name}}}}}]\n"
        )
        return path

    def _etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        self._spawn(
            "etcd",
            *("--name", "test", "--data-dir", str(self.state / "etcd"), "--log-level", "warn"),
            "--unsafe-no-fsync",  # nothing here outlives the test
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"test={peer}"),
        )
        self._until(f"{client}/health", "etcd")

    def _api_server(self) -> None:
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            *("--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.api_port}"),
            *("--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16"),
            *("--tls-cert-file=api.crt", "--tls-private-key-file=api.key", "--client-ca-file=ca.crt"),
            *("--token-auth-file=tokens.csv", "--authorization-mode=Node,RBAC"),
            *("--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=sa.key"),
            *("--service-account-signing-key-file=sa.key", "--profiling=false"),
            *self.gate_flags,
            *self.served_flags,
            *self._audit_flags(),
        )
        self._until(f"{self.server}/readyz", "kube-apiserver")

    def _audit_flags(self) -> list[str]:
        if not self.audited:
            return []
        changes = ", verbs: [create, update, patch, delete, deletecollection]"
        pods = '[{group: "", resources: [pods, pods/status, pods/eviction, pods/binding]}]'
        rules = [
            *([f"level: RequestResponse, resources: {pods}{changes}"] if self.audits_pods else ()),
            f"level: Metadata, users: {json.dumps(self.audited)}{'' if self.audits_reads else changes}",
            "level: None",
        ]
        (self.state / "audit.yaml").write_text(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nomitManagedFields: true\n"
            "rules:\n" + "".join(f"- {{{rule}}}\n" for rule in rules)
        )
        return [f"--audit-policy-file={self.state / 'audit.yaml'}", f"--audit-log-path={self.audit_log}"]

    def _controller_manager(self) -> None:
        self._spawn(
            "kube-controller-manager",
            *(f"--{flag}={self.kubeconfig('kcm')}" for flag in _KUBECONFIG_FLAGS),
            *("--bind-address=127.0.0.1", f"--secure-port={self.kcm_port}", f"--cert-dir={self.state}/kcm"),
            *("--leader-elect=false", "--use-service-account-credentials=true", "--root-ca-file=ca.crt"),
            *("--service-account-private-key-file=sa.key", "--concurrent-replicaset-syncs=20"),
            *("--kube-api-qps=1000", "--kube-api-burst=2000"),  # the default rate makes thousands of pods take minutes
            *self.gate_flags,
            *self.kcm_flags,
        )

    def _controllers(self) -> None:
        self._controller_manager()
        (self.state / "scheduler.yaml").write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\n"
            f"clientConnection: {{kubeconfig: {self.kubeconfig('sched')}, qps: 1000, burst: 2000}}\n"
        )
        self._spawn(
            "kube-scheduler",
            "--config=scheduler.yaml",
            *(f"--{flag}={self.kubeconfig('sched')}" for flag in _KUBECONFIG_FLAGS[1:]),
            *("--bind-address=127.0.0.1", f"--secure-port={self.sched_port}", f"--cert-dir={self.state}/scheduler"),
            *self.gate_flags,
        )
        self._until(f"https://127.0.0.1:{self.kcm_port}/healthz", "kube-controller-manager")
        self._until(f"https://127.0.0.1:{self.sched_port}/healthz", "kube-scheduler")

    def _kwok(self) -> None:
        configs = [self.binaries / "stages.yaml", *self.stages] if not self.stages else self.stages
        self._spawn(
            "kwok",
            f"--kubeconfig={self.kubeconfig('kwok')}",
            *(f"--config={path}" for path in configs),
            *("--manage-all-nodes=false", "--manage-nodes-with-label-selector=kwok=on"),
            *("--node-lease-duration-seconds=40", "--cidr=10.0.0.0/16", "--node-ip=127.0.0.1"),
            f"--server-address=127.0.0.1:{self.kwok_port}",
        )
        self._until(f"http://127.0.0.1:{self.kwok_port}/healthz", "kwok")


DEVICE_GATES = ("DRADeviceTaintRules",)
GANG_GATES = ("GenericWorkload", "GangScheduling")
SERVED = ("resource.k8s.io/v1beta2", "scheduling.k8s.io/v1alpha2")
"""What Kubernetes 1.36 has for devices and groups of pods beyond its defaults: `feature_gates` and `served`."""
_KUBECONFIG_FLAGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")


def cached_binaries() -> Path:
    """Where `.ci/e2e` builds the binaries: outside the checkout, thrown away at will."""
    return Path(os.environ.get("TRIMTAB_CONTROL_PLANE") or cache_folder() / "control-plane")
