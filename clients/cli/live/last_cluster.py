"""The cluster and the answer of the last round of a loop: for the table at the end of a dry run, and for screens."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.page import print_answer
from trimtab.clients.cli.group_prices import LivePrices
from trimtab.clients.cli.label_groups import LiveLabelGroups
from trimtab.clients.cli.output import stdout_console
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.live.cluster import LiveCluster, LivePoolGroups
from trimtab.clients.loop.rounds import RoundRecorder, RoundSettings
from trimtab.common.deltas.application import Application
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.objects.karpenter.offers import MachineOffer
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2, snapshot_pb2

MOST_DELTAS: Final = 100
"""After so many changes the cluster is built anew, as their dictionaries stay in it."""


class LastCluster:
    """Follows the cluster that is sent to the planner. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cluster: Application | None = None
        self._deltas = 0
        self._round: tuple[plan_pb2.PlanRequest, plan_pb2.PlanResponse] | None = None

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Take over one round."""
        with self._lock:
            self._add(update)
            self._round = request, answer

    def _add(self, update: SnapshotUpdate) -> None:
        if update.snapshot is not None:
            self._begin(update.snapshot)
        elif update.delta is not None and self._cluster is not None:
            self._cluster.add(update.delta)
            self._deltas += 1
        if self._deltas >= MOST_DELTAS and self._cluster is not None:
            self._begin(self._cluster.result())

    def _begin(self, snapshot: snapshot_pb2.ClusterSnapshot) -> None:
        self._cluster, self._deltas = Application(snapshot), 0

    def answer(self, prices: Prices | None = None) -> PlanAnswer | None:
        """Return the last plan with its cluster; None without a round. O(cluster)."""
        with self._lock:
            if self._cluster is None or self._round is None:
                return None
            request, answer = self._round
            snapshot = self._cluster.result()
        now_ns = request.now.ToNanoseconds()
        return PlanAnswer(answer, ClusterView(snapshot), request.settings, now_ns, prices=prices)

    def print_table(self, prices: Prices | None) -> None:
        """Print the last plan as `trimtab plan` does; nothing without a round."""
        answer = self.answer(prices)
        if answer is not None:
            print_answer(stdout_console(), answer)


class Recorders:
    """Several recorders as one."""

    def __init__(self, recorders: Sequence[RoundRecorder]) -> None:
        self._recorders = tuple(recorders)

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Record one round in each. Raises OSError."""
        for recorder in self._recorders:
            recorder.add(update, request, answer)


def completed(
    settings: RoundSettings,
    cluster: LiveCluster,
    tell: Callable[[str, str], None],
    labels: tuple[str, ...] | None = (),
    prices: Prices | None = None,
    offers: Sequence[MachineOffer] | None = None,
) -> RoundSettings:
    """Return the settings of rounds with what completes the declared node groups. tell : is given the kind of a note,
    `node_pools` or `groups_by_label`, and its text; labels : as in `LiveLabelGroups`, () = no groups by labels;
    prices : None = those of the groups; offers : machines that NodePools may have, None = those that nodes have.
    """
    pools = LivePoolGroups(cluster, lambda text: tell("node_pools", text), offers)
    by_labels = LiveLabelGroups(labels, cluster.nodes, lambda text: tell("groups_by_label", text))
    priced = LivePrices(prices, cluster.nodes) if prices is not None else None

    def complete(groups: tuple[NodeGroup, ...], status: actuator_pb2.ActuatorStatus | None) -> tuple[NodeGroup, ...]:
        found = pools.groups(groups, status)
        if not pools.are_there:
            found = by_labels(found, status)
        return priced(found, status) if priced is not None else found

    return replace(settings, complete_groups=complete, complete_settings=pools.settings)
