"""How long pods and machines of a scenario take, and which machines never become a node.

Drawn from the seed and the name, so one does not depend on what happened to others. Seconds.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.clients.simulation.scenario import NodeGroupModel


@dataclass(frozen=True)
class ScenarioDelays(Delays):
    """groups : by name, as declared; pod_starts : from binding to ready, by uid of the pod's owner. Times are seconds.
    seed : of the random part of delays.
    """

    groups: Mapping[str, NodeGroupModel] = field(default_factory=dict)
    pod_starts: dict[str, float] = field(default_factory=dict)
    seed: int = 0

    def pod_start_of(self, pod: SimulatedPod) -> float:
        """Return how long one pod takes to become ready."""
        return self.pod_starts.get(pod.owner_uid, self.pod_start_s)

    def node_start_of(self, name: str, group: str) -> float:
        """Return how long one machine takes to become a ready node."""
        model = self.groups[group]
        return model.start + model.start_spread * self._share("start", name)

    def is_broken(self, name: str, group: str) -> bool:
        """Return whether a machine never becomes a node."""
        return self._share("broken", name) < self.groups[group].start_failure_rate

    def _share(self, what: str, name: str) -> float:
        return drawn_share(self.seed, what, name)


def drawn_share(seed: int, what: str, name: str) -> float:
    """Return a number in [0, 1), always the same for the same seed, purpose and name."""
    digest = hashlib.sha256(f"{seed}/{what}/{name}".encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48
