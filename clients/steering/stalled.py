"""Released nodes that the autoscaler does not remove, and a planner's state in which they stay for a while.

A Cluster Autoscaler forgets a node for some minutes when a drain or a simulation fails. If it has forgotten every node
that was released, nothing goes while the others are protected. Decides when that is so, and for how long the next plans
do without these nodes: they then name others that can go. Releasing more nodes is never wrong, only slower: the
autoscaler checks each itself. Writes nothing. Seconds, monotonic, unless named.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import structlog

from trimtab.clients.steering.marks import NodeMarks
from trimtab.common.kubernetes.signals.ours import STEERED
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import UnremovableReason

log = structlog.get_logger("steer")

RECHECK_S: Final = 300.0
"""How long plans do without a stalled node. Source: CA, `--unremovable-node-recheck-timeout`."""


class Patience(NamedTuple):
    """How long released nodes may show no sign of the autoscaler: that long, and `unneeded_s` longer while it has never
    marked a candidate, as it may be set up to mark none. `stalled_s` : seconds.
    """

    stalled_s: float
    unneeded_s: float


class StalledNodes:
    """Watches released nodes, from round to round."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._marks_candidates = False
        # When the autoscaler last made progress, and since when each node is released.
        self._progress_s: float | None = None
        self._released_s: dict[str, float] = {}
        # Stalled nodes, and since when.
        self._held_s: dict[str, float] = {}

    @property
    def names(self) -> frozenset[str]:
        """Return the stalled nodes."""
        return frozenset(self._held_s)

    def look(self, nodes: Sequence[NodeMarks], released: Collection[str], now_s: float) -> None:
        """Note the state of the cluster. released : nodes that the last plan releases.

        A node counts as released once its protection is off. Progress is a node that is leaving, a released node that
        the autoscaler has marked as its candidate, and one that has gone.
        """
        candidates = {node.name for node in nodes if node.candidate}
        free = {node.name for node in nodes if not node.leaving and STEERED.key not in node.annotations}
        waiting = free & (set(released) | self._held_s.keys())
        self._marks_candidates = self._marks_candidates or bool(candidates)
        is_gone = self._released_s.keys() - {node.name for node in nodes}
        if self._progress_s is None or is_gone or any(node.leaving for node in nodes) or waiting & candidates:
            self._progress_s = now_s
        self._held_s = {
            name: since_s
            for name, since_s in self._held_s.items()
            if name in free and name not in candidates and now_s - since_s < RECHECK_S
        }
        self._released_s = {name: self._released_s.get(name, now_s) for name in waiting - self._held_s.keys()}
        patience_s = self._patience.stalled_s + (0.0 if self._marks_candidates else self._patience.unneeded_s)
        stalled = [
            name for name, since_s in self._released_s.items() if now_s - max(since_s, self._progress_s) > patience_s
        ]
        for name in stalled:
            self._held_s[name] = now_s
            del self._released_s[name]
        if stalled:
            log.warning("released_nodes_stall", nodes=sorted(stalled)[:5], count=len(stalled), effect="others follow")


def hold(state: plan_pb2.PlanState, nodes: Collection[str], now_ns: int, alone: bool) -> None:
    """Note in a planner's state, in place, that these nodes could not go just now. now_ns : Unix nanoseconds; alone :
    remove what it notes about others.
    """
    scale_down = state.scale_down
    if not scale_down.strings:
        scale_down.strings.append("")
    index = {text: number for number, text in enumerate(scale_down.strings)}
    for name in sorted(nodes):
        if name not in index:
            index[name] = len(scale_down.strings)
            scale_down.strings.append(name)
    held = None if alone else {number for number, text in enumerate(scale_down.strings) if text in nodes}
    _drop(scale_down.unremovable, held)
    failed, ours = scale_down.unremovable, [index[name] for name in sorted(nodes)]
    failed.node += np.array(ours, "<i4").tobytes()
    failed.time_ns += np.full(len(ours), now_ns, "<i8").tobytes()
    failed.reason += bytes([UnremovableReason.NOT_UNNEEDED_OTHER_REASON] * len(ours))
    failed.blocking_reason += bytes(len(ours))
    failed.blocking_pod.extend("" for _ in ours)


def _drop(failed: plan_pb2.FailedNodes, nodes: Collection[int] | None) -> None:
    """Remove rows, in place. nodes : numbers of their names; None = all."""
    node = np.frombuffer(failed.node, "<i4")
    kept = np.zeros(len(node), bool) if nodes is None else ~np.isin(node, list(nodes))
    failed.node = node[kept].tobytes()
    failed.time_ns = np.frombuffer(failed.time_ns, "<i8")[kept].tobytes()
    failed.reason = np.frombuffer(failed.reason, np.uint8)[kept].tobytes()
    failed.blocking_reason = np.frombuffer(failed.blocking_reason, np.uint8)[kept].tobytes()
    pods = [pod for pod, stays in zip(failed.blocking_pod, kept.tolist(), strict=True) if stays]
    del failed.blocking_pod[:]
    failed.blocking_pod.extend(pods)


def rechecked_later(settings: plan_pb2.PlanSettings) -> plan_pb2.PlanSettings:
    """Return the settings of a plan whose state has held nodes: they are not checked again while they are held."""
    later = plan_pb2.PlanSettings()
    later.CopyFrom(settings)
    later.scale_down.unremovable_node_recheck_timeout.FromSeconds(int(RECHECK_S))
    return later


def checks_at_once(settings: plan_pb2.PlanSettings) -> bool:
    """Return whether every plan checks all nodes again, as steering does unless its settings say otherwise."""
    return settings.scale_down.unremovable_node_recheck_timeout.ToNanoseconds() == 0
