"""The cluster and the answer of the last round of a dry run, for its table at the end."""

from collections.abc import Sequence
from typing import Final

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.table import print_answer
from trimtab.clients.cli.output import stdout_console
from trimtab.clients.cli.prices import Prices
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.reference_loop.rounds import RoundRecorder
from trimtab.clients.snapshots.deltas.application import Application
from trimtab.clients.snapshots.live.snapshot_update import SnapshotUpdate
from trimtab.v1 import plan_pb2, snapshot_pb2

MOST_DELTAS: Final = 100
"""After so many changes the cluster is built anew, as their dictionaries stay in it."""


class LastCluster:
    """Follows the cluster that is sent to the planner."""

    def __init__(self) -> None:
        self._cluster: Application | None = None
        self._deltas = 0
        self._round: tuple[plan_pb2.PlanRequest, plan_pb2.PlanResponse] | None = None

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Take over one round."""
        if update.snapshot is not None:
            self._begin(update.snapshot)
        elif update.delta is not None and self._cluster is not None:
            self._cluster.add(update.delta)
            self._deltas += 1
        if self._deltas >= MOST_DELTAS and self._cluster is not None:
            self._begin(self._cluster.result())
        self._round = request, answer

    def _begin(self, snapshot: snapshot_pb2.ClusterSnapshot) -> None:
        self._cluster, self._deltas = Application(snapshot), 0

    def print_table(self, prices: Prices | None) -> None:
        """Print the last plan as `trimtab plan` does; nothing without a round. To be called once, at the end."""
        if self._cluster is None or self._round is None:
            return
        request, answer = self._round
        view, now_ns = ClusterView(self._cluster.result()), request.now.ToNanoseconds()
        print_answer(stdout_console(), PlanAnswer(answer, view, request.settings, now_ns, prices=prices))


class Recorders:
    """Several recorders as one."""

    def __init__(self, recorders: Sequence[RoundRecorder]) -> None:
        self._recorders = tuple(recorders)

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        """Record one round in each. Raises OSError."""
        for one in self._recorders:
            one.add(update, request, answer)
