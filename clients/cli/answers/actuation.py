"""What an actuator says of itself, as blocks: deletions, replacements, evictions, node groups with their back-offs. The
same in `top`, `top --status` and the demo. Times are shown as ages; calls nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.blocks import Block, Sentence, Table, rows
from trimtab.v1 import actuator_pb2, reason_pb2, snapshot_pb2

MOST_SHOWN: Final = 10
"""Rows of a status: evictions, replacements, and deletions that have ended."""
UNGROUPED: Final = "(no group)"


class ShownDeletion(NamedTuple):
    """A deletion of a node. seconds : in its state; pods_gone of pods_total : evicted, if drained, -1 = not known;
    is_over : it has ended.
    """

    node: str
    group: str
    state: str
    seconds: float
    pods_gone: int
    pods_total: int
    is_drain: bool
    is_over: bool
    detail: str

    @property
    def progress(self) -> str:
        """How far it is, as a clause."""
        pods = f": {self.pods_gone} of {counted(self.pods_total, 'pod')} gone" if self.pods_total > 0 else ""
        return f"{self.state}{pods}"


def deletions_of(status: actuator_pb2.ActuatorStatus, now_s: float, most_ended: int) -> Iterator[ShownDeletion]:
    """Yield deletions in progress, then the latest that have ended. now_s : Unix seconds, for ages."""
    for one in status.deletions:
        yield _deletion(one, now_s, is_over=False)
    ended = sorted(status.finished, key=lambda one: (-one.state_time.ToNanoseconds(), one.node))
    for one in ended[:most_ended]:
        yield _deletion(one, now_s, is_over=True)


def recorded_deletions(answer: PlanAnswer) -> Iterator[ShownDeletion]:
    """Yield the deletions that the snapshot tells of, as in a recording."""
    for deletion in answer.view.snapshot.actuation_status.deletions:
        seconds = max(0.0, (answer.now_ns - deletion.start_time.ToNanoseconds()) / 1e9)
        state = "draining" if deletion.drain else "deleting"
        yield ShownDeletion(deletion.node, deletion.node_group, state, seconds, -1, -1, deletion.drain, False, "")


def deletions_table(deletions: Iterable[ShownDeletion], title: str = "Deletions") -> Table:
    """Return the deletions, each in its state."""
    lines = []
    for one in deletions:
        gone = f"{one.pods_gone} of {one.pods_total}" if one.pods_total > 0 else "" if one.is_drain else "empty"
        lines.append((one.node, one.group or UNGROUPED, one.state, duration(one.seconds), gone, one.detail))
    columns = ("node", "group", "state", "for", "pods gone", "why")
    return Table(title, columns, rows(lines), sentences=columns)


def status_blocks(status: actuator_pb2.ActuatorStatus, now_s: float) -> Iterator[Block]:
    """Yield replacements, deletions, evictions and node groups. now_s : Unix seconds, for ages."""
    yield _replacements(status, now_s)
    ended = f", {len(status.finished):,} ended recently" if status.finished else ""
    title = f"{counted(len(status.deletions), 'deletion')} in progress{ended}"
    deletions = deletions_table(deletions_of(status, now_s, MOST_SHOWN), title)
    yield deletions if deletions.lines else Sentence(f"{title}.")
    yield _evictions(status, now_s)
    yield _groups(status, now_s)


def _deletion(deletion: actuator_pb2.NodeDeletion, now_s: float, *, is_over: bool) -> ShownDeletion:
    reason = reason_pb2.DeletionReason.Code.Name(deletion.reason) if deletion.reason else ""
    return ShownDeletion(
        node=deletion.node,
        group=deletion.node_group,
        state=_words(actuator_pb2.DeletionState.Code.Name(deletion.state)),
        seconds=max(0.0, now_s - deletion.state_time.ToNanoseconds() / 1e9),
        pods_gone=deletion.pods_gone_count,
        pods_total=deletion.pods_total_count,
        is_drain=deletion.drain,
        is_over=is_over,
        detail=f"{reason} {deletion.detail}".strip(),
    )


def _replacements(status: actuator_pb2.ActuatorStatus, now_s: float) -> Table:
    """Return the replacement in progress and those that ended recently, latest first."""
    cells = []
    latest = sorted(status.replacements, key=lambda one: -one.stage_time.ToMilliseconds())
    for one in latest[:MOST_SHOWN]:
        leaving = ", ".join(node.node for node in one.leaving)
        new = ", ".join(node.node or node.name for node in one.new_nodes)
        saved = money(one.achieved_saving_per_hour) if one.HasField("achieved_saving_per_hour") else ""
        reason = reason_pb2.ReplacementReason.Code.Name(one.reason) if one.reason else ""
        stage = _words(actuator_pb2.ReplacementStage.Code.Name(one.stage))
        cells.append((leaving, new, stage, _age(one.stage_time, now_s), saved, f"{reason} {one.detail}".strip()))
    columns = ("leaving", "new nodes", "stage", "for", "saved an hour", "why")
    title = f"{counted(len(status.replacements), 'replacement')}, in progress or ended recently"
    return Table(title, columns, rows(cells), sentences=columns)


def _evictions(status: actuator_pb2.ActuatorStatus, now_s: float) -> Table:
    """Return the latest evictions."""
    cells = []
    for one in list(status.recent_evictions)[: -MOST_SHOWN - 1 : -1]:
        of = f"{one.owner_kind}/{one.owner_name}" if one.owner_kind else ""
        cells.append((f"{one.namespace}/{one.name}", of, one.node, _age(one.evict_time, now_s)))
    columns = ("pod", "of", "node", "ago")
    return Table(counted(len(status.recent_evictions), "recent eviction"), columns, rows(cells), sentences=columns)


def _groups(status: actuator_pb2.ActuatorStatus, now_s: float) -> Table:
    """Return the node groups with their back-offs and prices."""
    cells = []
    for one in status.node_groups:
        cost = money(one.price_per_hour * one.instance_count) if one.HasField("price_per_hour") else ""
        sizes = (one.instance_count, one.target_size, one.min_size, one.max_size, one.deletion_count)
        cells.append((one.id, *map(str, sizes), cost, _backoff(one, now_s)))
    columns = ("node group", "size", "wanted", "least", "most", "going", "an hour", "back-off")
    return Table(counted(len(status.node_groups), "node group"), columns, rows(cells), sentences=columns)


def _backoff(group: actuator_pb2.NodeGroupStatus, now_s: float) -> str:
    """Return how long a group is backed off, and why; "" = it is not."""
    if group.health != snapshot_pb2.NodeGroupHealth.BACKED_OFF:
        return ""
    if not group.HasField("backoff_until"):
        return f"until a node joins: {group.health_detail}"
    left_s = group.backoff_until.ToMilliseconds() / 1000 - now_s
    return f"{duration(max(0.0, left_s))} left: {group.health_detail}"


def _age(moment: Timestamp, now_s: float) -> str:
    return duration(max(0.0, now_s - moment.ToMilliseconds() / 1000))


def _words(code: str) -> str:
    return code.lower().replace("_", " ")
