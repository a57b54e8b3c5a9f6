"""The Deployments of bursts, their measurements, and how they run one after the other: begin, observe, end, observe the
quiet period. Decides names, labels and form of the Deployments, the order and the messages; clock and pauses are
given. Cleans up in any case. Durations in seconds, times in Unix seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.common.kubernetes.signals import well_known
from trimtab.words import counted

Json = dict[str, Any]
LABEL: Final = well_known.MANAGED_BY.key
VALUE: Final = "trimtab-load"
IMAGE: Final = "registry.k8s.io/pause:3.10"
AT_ONCE_S: Final = 1.0
"""Times in Kubernetes are whole seconds: a pod that is bound at once may seem to have waited for one second."""


@dataclass(frozen=True)
class LoadSettings:
    """The bursts of a load. length_s : how long a burst lasts; quiet_s : the pause after it. namespace : of all
    objects, made and removed; burst_count : bursts; deployment_count : Deployments of a burst; replicas : pods of each;
    cpu, memory : requests of a pod, as Kubernetes writes them; node_selector : of the pods; image : of their only
    container.
    """

    namespace: str = "trimtab-load"
    burst_count: int = 3
    deployment_count: int = 4
    replicas: int = 5
    cpu: str = "500m"
    memory: str = "256Mi"
    length_s: float = 300.0
    quiet_s: float = 900.0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    image: str = IMAGE

    @property
    def pods(self) -> int:
        """Return how many pods a burst has."""
        return self.deployment_count * self.replicas


class PodTimes(NamedTuple):
    """created_s : when a pod was created; bound_s : when it was bound to a node, None = it waits. name : of the pod.
    Times are Unix seconds.
    """

    name: str
    created_s: float
    bound_s: float | None


@dataclass
class MeasuredBurst:
    """One burst as observed. waits_s : how long each bound pod waited. number : from 1; pod_count : its pods;
    nodes_before, nodes_most, nodes_after : nodes before it, at most, and at its end; waits_s : seconds, by name of the
    pod.
    """

    number: int
    pod_count: int
    nodes_before: int
    nodes_most: int = 0
    nodes_after: int = 0
    waits_s: dict[str, float] = field(default_factory=dict)

    def see(self, pods: list[PodTimes], node_count: int) -> None:
        """Note the current state."""
        self.nodes_most = max(self.nodes_most, node_count)
        for pod in pods:
            if pod.bound_s is not None:
                self.waits_s[pod.name] = max(0.0, pod.bound_s - pod.created_s)

    def document(self) -> Json:
        """Return the burst for JSON output. Waits are null if no pod was bound."""
        waits = sorted(self.waits_s.values())
        return {
            "number": self.number,
            "pods": self.pod_count,
            "scheduled": min(len(waits), self.pod_count),
            "atOnce": sum(wait <= AT_ONCE_S for wait in waits),
            "medianWaitS": waits[(len(waits) - 1) // 2] if waits else None,
            "longestWaitS": waits[-1] if waits else None,
            "nodesBefore": self.nodes_before,
            "nodesMost": self.nodes_most,
            "nodesAfter": self.nodes_after,
        }


def deployment(settings: LoadSettings, burst: int, number: int) -> Json:
    """Return one Deployment of a burst: idle pods, which every Pod Security Standard permits."""
    name = f"burst-{burst}-{number}"
    labels = {"app": name, LABEL: VALUE}
    requests = {"cpu": settings.cpu, "memory": settings.memory}
    container = {
        "name": "pause",
        "image": settings.image,
        "resources": {"requests": requests},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec: Json = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    if settings.node_selector:
        spec["nodeSelector"] = dict(settings.node_selector)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": {LABEL: VALUE}},
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def namespace(settings: LoadSettings) -> Json:
    """Return the namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": settings.namespace, "labels": {LABEL: VALUE}}}


LOOK_S: Final = 2.0
"""Pause between two observations."""


class InUseError(KubernetesError):
    """Another load runs in the namespace, or has left something there."""


class Loaded(Protocol):
    """The part of a cluster's interface used here; see `trimtab.clients.load.cluster.LoadedCluster`."""

    def prepare(self) -> None:
        """Create the namespace."""

    def begin(self, burst: int) -> None:
        """Create the Deployments of a burst."""

    def end(self) -> None:
        """Delete the Deployments."""

    def clean(self) -> None:
        """Delete everything."""

    def pods(self) -> list[PodTimes]:
        """Return the pods."""

    def node_count(self) -> int:
        """Return the number of nodes."""


class Around(NamedTuple):
    """Clock, pauses, and the receiver of progress messages, a line each. `clock` : monotonic seconds; `sleep` : for
    that many seconds; `say` : gets the line.
    """

    clock: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]


def run(cluster: Loaded, settings: LoadSettings, around: Around) -> list[MeasuredBurst]:
    """Run all bursts. Raises KubernetesError; the created objects are deleted then, too."""
    cluster.prepare()
    if cluster.pods():
        raise InUseError(
            f"namespace {settings.namespace} has pods of another load: let it end, delete the namespace, or give"
            " another one with --namespace"
        )
    try:
        return [_burst(cluster, settings, number, around) for number in range(1, settings.burst_count + 1)]
    finally:
        cluster.clean()


def _burst(cluster: Loaded, settings: LoadSettings, number: int, around: Around) -> MeasuredBurst:
    burst = MeasuredBurst(number, settings.pods, cluster.node_count())
    cluster.begin(number)
    _look(cluster, burst, settings.length_s, around, f"burst {number} of {settings.burst_count}")
    cluster.end()
    quiet = MeasuredBurst(number, 0, burst.nodes_before)
    burst.nodes_after = _look(cluster, quiet, settings.quiet_s, around, f"quiet after burst {number}")
    burst.nodes_most = max(burst.nodes_most, quiet.nodes_most)
    return burst


def _look(cluster: Loaded, burst: MeasuredBurst, length_s: float, around: Around, what: str) -> int:
    """Observe repeatedly for this long, and report changes; return the number of nodes at the end."""
    until, said = around.clock() + length_s, ""
    while True:
        pods, nodes = cluster.pods(), cluster.node_count()
        burst.see(pods, nodes)
        waiting = sum(pod.bound_s is None for pod in pods)
        now = f"{what}: {counted(len(pods), 'pod')}, {waiting} of them wait; {counted(nodes, 'node')}"
        if now != said:
            around.say(now)
            said = now
        if around.clock() >= until:
            return nodes
        around.sleep(min(LOOK_S, max(until - around.clock(), 0.0)))
