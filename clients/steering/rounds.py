"""Rounds of the reference loop that steer instead of acting: after each plan, they update the annotations of nodes.

The plan decides which nodes. A round without a scale-down decision writes nothing. Raises the errors of a round. If
released nodes do not go, the next plans do without them (`stalled`).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import LoopCluster, RoundRecorder, RoundResult, RoundRunner, RoundSettings
from trimtab.clients.steering.marks import NodeMarks, clean, nodes_to_keep, nodes_to_release, unneeded_s, writes
from trimtab.clients.steering.stalled import Patience, StalledNodes, checks_at_once, hold, rechecked_later
from trimtab.clients.steering.writer import MarkWriter, report
from trimtab.common.kubernetes.kinds.nodes import Node
from trimtab.common.kubernetes.signals.cluster_autoscaler import DELETION_CANDIDATE, TO_BE_DELETED
from trimtab.common.kubernetes.signals.table import marks_leaving
from trimtab.v1 import actuator_pb2


class SteeredCluster(LoopCluster, Protocol):
    """The cluster as these rounds see it: `trimtab.clients.live.LiveCluster`."""

    def nodes(self) -> list[Node]:
        """Return all nodes."""


@dataclass(frozen=True)
class SteerSettings:
    """How to steer."""

    # The annotation that keeps the autoscaler from a node.
    key: str
    # Longest time for the writes of one round, seconds; the remaining ones wait for the next round.
    write_time_s: float = 10.0
    # Log the writes without making them.
    dry_run: bool = False
    # Release other nodes when none of the released ones has become the autoscaler's candidate, or gone, for that long,
    # seconds: it needs a loop or two to see what was released.
    stalled_s: float = 60.0
    # The time, seconds since any moment.
    clock: Callable[[], float] = time.monotonic


class PodCostsOnly(ActuatorClient):
    """An actuator that is used only to write pod deletion costs."""

    def get_info(self) -> actuator_pb2.GetActuatorInfoResponse:
        """Return the capabilities without the others."""
        info = super().get_info()
        kept = [rpc for rpc in info.rpcs if rpc == "ApplyPodCosts"]
        del info.rpcs[:]
        info.rpcs.extend(kept)
        return info


class SteeringRounds(RoundRunner):
    """Makes rounds over one cluster and planner, and writes annotations after each."""

    def __init__(
        self,
        cluster: SteeredCluster,
        planner: PlannerSession,
        actuator: ActuatorClient | None,
        settings: RoundSettings,
        steer: SteerSettings,
        writer: MarkWriter,
        recorder: RoundRecorder | None = None,
    ) -> None:
        super().__init__(cluster, planner, actuator, settings, recorder)
        self._nodes, self._steer, self._writer = cluster.nodes, steer, writer
        self._own_settings = settings
        self._stalled = StalledNodes(Patience(steer.stalled_s, unneeded_s(settings.plan)))

    def run(self, request_id: str, now: Timestamp, may_act: Callable[[], bool]) -> RoundResult:
        """Make one round. `may_act` is called before each write."""
        self._plan_without_stalled(now)
        done = super().run(request_id, now, may_act)
        if done.answer.HasField("scale_down"):
            nodes = marks_of(self._nodes())
            if not self._steer.dry_run:
                self._stalled.look(nodes, nodes_to_release(done.answer), self._steer.clock())
            # Stalled nodes stay released: the autoscaler takes them up again by itself.
            wanted = writes(nodes, nodes_to_keep(done.answer) - self._stalled.names, self._steer.key)
            if not self._steer.dry_run:
                wanted = self._writer.unseen(wanted, nodes)
            within_s = 0.0 if self._steer.dry_run else self._steer.write_time_s
            made = self._writer.write(wanted, nodes, lambda: not self._steer.dry_run and may_act(), within_s)
            report(made, wanted, self._steer.dry_run)
            done.refused.update(made.failed)
        return done

    def _plan_without_stalled(self, now: Timestamp) -> None:
        """Have the next plan look for other nodes than the stalled ones."""
        names, own = self._stalled.names, self._own_settings
        alone = checks_at_once(own.plan)
        self._settings = replace(own, plan=rechecked_later(own.plan)) if names and alone else own
        if names:
            self._planner.edit_state(lambda state: hold(state, names, now.ToNanoseconds(), alone))


def take_all_off(nodes: Iterable[Node], writer: MarkWriter, within_s: float, dry_run: bool = False) -> int:
    """Remove all our annotations; return how many nodes are left. Errors: KubernetesError."""
    marks = marks_of(nodes)
    wanted = clean(marks)
    made = writer.write(wanted, marks, lambda: not dry_run, within_s)
    report(made, wanted, dry_run)
    return made.left


def marks_of(nodes: Iterable[Node]) -> list[NodeMarks]:
    """Return nodes in the form used for steering, without nodes that have no name or uid yet."""
    return [
        NodeMarks(meta.name, meta.uid, meta.annotations or {}, _is_leaving(node), _is_candidate(node))
        for node in nodes
        if (meta := node.metadata) is not None and meta.name and meta.uid
    ]


def _is_leaving(node: Node) -> bool:
    deleted = node.metadata is not None and node.metadata.deletion_timestamp is not None
    return deleted or any(key == TO_BE_DELETED.key or marks_leaving(key) for key in _taint_keys(node))


def _is_candidate(node: Node) -> bool:
    return DELETION_CANDIDATE.key in _taint_keys(node)


def _taint_keys(node: Node) -> list[str]:
    return [taint.key or "" for taint in (node.spec.taints if node.spec else None) or ()]
