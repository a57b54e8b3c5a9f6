"""Machines that the cloud takes back: a notice at a random time, and the end of machine and node after it.

Decides the times, from the seed and the name of the machine alone, so that one machine's fate does not depend on what
happens to others; the time from a node's start to its notice has an exponential distribution. A machine that the
autoscaler has deleted before its notice ends is not reclaimed. Units: seconds, Unix time.
"""

import heapq
import math
from collections.abc import Mapping
from typing import Any, Final

from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.objects import labels_of
from trimtab.clients.simulation.cluster.state import ClusterState, SimulatedInstance
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_values import ReclaimModel
from trimtab.clients.simulation.timers import drawn_share

_NOTICE, _END = "notice", "end"
MOST_ENTRIES: Final = 2000
"""Maximum number of reclaims listed in a result."""


class Reclaims:
    """The reclaims of one simulation, in order of time."""

    def __init__(self, scenario: Scenario) -> None:
        self._models, self._seed = scenario.reclaims, scenario.seed
        self._due: list[tuple[float, str, str, int]] = []
        self._known: set[str] = set()
        self._started: list[str] = []
        self.entries: list[dict[str, Any]] = []

    def watch(self, things: Mapping[str, Any]) -> None:
        """Note machines that may have become nodes."""
        if self._models:
            keys = (key.removeprefix("Instance//") for key in things if key.startswith("Instance//"))
            self._started += [name for name in keys if name not in self._known]

    def draw(self, state: ClusterState, now_s: float) -> None:
        """Draw the times of the notices of nodes that are new."""
        if not self._started:
            return
        names, self._started = self._started, []
        for name in names:
            instance, info = state.instances.get(name), state.nodes.get(name)
            if instance is None or info is None or name in self._known:
                continue
            self._known.add(name)
            labels = labels_of(info.node)
            found = [number for number, model in enumerate(self._models) if _matches(model, instance.group, labels)]
            if found:
                share = drawn_share(self._seed, "reclaim", name)
                after_s = -self._models[found[0]].mean_s * math.log(1 - share)
                heapq.heappush(self._due, (now_s + after_s, _NOTICE, name, found[0]))

    def next_s(self) -> float | None:
        """Return the time of the next event, None = there is none."""
        return self._due[0][0] if self._due else None

    def run(self, cluster: SimulatedCluster, now_s: float) -> None:
        """Execute everything that is due, in one transaction."""
        with cluster.transaction() as state:
            while self._due and self._due[0][0] <= now_s:
                _, what, name, number = heapq.heappop(self._due)
                instance = state.instances.get(name)
                if instance is None:
                    continue
                if what == _NOTICE:
                    self._give_notice(state, instance, now_s, number)
                else:
                    self._take(cluster, instance, now_s, number)

    def _give_notice(self, state: ClusterState, instance: SimulatedInstance, now_s: float, number: int) -> None:
        """Cordon a node."""
        if instance.gone_due_ms:
            return
        info = state.nodes.get(instance.name)
        if info is not None:
            info.node.setdefault("spec", {})["unschedulable"] = True
            state.node_changed(info)
        if len(self.entries) < MOST_ENTRIES:
            self.entries.append({"node": instance.name, "group": instance.group, "notice": now_s})
        heapq.heappush(self._due, (now_s + self._models[number].notice, _END, instance.name, number))

    def _take(self, cluster: SimulatedCluster, instance: SimulatedInstance, now_s: float, number: int) -> None:
        """End a machine with its node and pods."""
        state = cluster.state
        info = state.nodes.get(instance.name)
        pods = [] if info is None else [pod for pod in info.pods.values() if pod.active and not pod.stays_with_node]
        for entry in self.entries:
            if entry["node"] == instance.name:
                entry.update(end=now_s, pods=len(pods))
        state.note("reclaimed", instance.name)
        group = state.groups[instance.group]["spec"]
        # The autoscaler may be deleting the machine, and has lowered the size then.
        is_counted = not instance.gone_due_ms
        cluster.controllers.lose_node(instance.name)
        state.note("reclaim_ended", instance.name)
        state.drop_instance(instance.name)
        if is_counted and self._models[number].replace:
            cluster.controllers.grow(instance.group, 1)
        elif is_counted:
            group["targetSize"] -= 1
            state.group_changed(instance.group)


def _matches(model: ReclaimModel, group: str, labels: Mapping[str, str]) -> bool:
    if model.node_groups and group not in model.node_groups:
        return False
    return all(labels.get(key) == value for key, value in model.labels.items())
