"""Runs bursts one after the other: begin, observe, end, observe the quiet period. Decides the order and the messages;
clock and pauses are given. Cleans up in any case. Durations in seconds.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from trimtab.clients.load.bursts import LoadSettings, MeasuredBurst, PodTimes
from trimtab.common.kubernetes.errors import KubernetesError
from trimtab.words import counted

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
