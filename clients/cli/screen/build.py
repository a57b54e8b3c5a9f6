"""Build the screen from an answered plan and the actuator's status. Decides only what is shown; calls nothing.

Order of lines: node groups by id with nodes of no group last; nodes by group, then by name; pending pods without a
place first; deletions in progress before those that have ended. Cost: proportional to nodes, and pods once.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.amounts import NO_MAXIMUM, counted, duration, some
from trimtab.clients.cli.answers import expansion, scale_down, scale_up
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.nodes import explain_node, node_sentences
from trimtab.clients.cli.blocks import Sentence
from trimtab.clients.cli.screen.model import (
    ClusterScreen,
    GroupLine,
    GrowthLine,
    NodeLine,
    NodeState,
    PendingLine,
    RemovalLine,
)
from trimtab.clients.cli.sentences import SKIPPED_SENTENCES
from trimtab.clients.cli.timers import remaining_s
from trimtab.places import on_existing, on_upcoming, shortfalls
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2

MOST_FINISHED: Final = 50
"""Most deletions that have ended and are shown."""
_Fate = plan_pb2.NodeFate
_STATES: Final = {
    _Fate.UNSPECIFIED: NodeState.UNKNOWN,
    _Fate.GOES_NOW: NodeState.NOW,
    _Fate.GOES_LATER: NodeState.LATER,
    _Fate.REPLACED: NodeState.LATER,
    _Fate.STAYS: NodeState.STAYS,
    _Fate.LEAVING: NodeState.MOVING,
    _Fate.COMING: NodeState.STAYS,
}


class _Amounts(NamedTuple):
    """Requested and allocatable amounts: cpu in milli-cores, memory in bytes."""

    cpu: int = 0
    cpu_total: int = 0
    memory: int = 0
    memory_total: int = 0

    def plus(self, other: "_Amounts") -> "_Amounts":
        return _Amounts(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def shares(self) -> tuple[float, float]:
        return _share(self.cpu, self.cpu_total), _share(self.memory, self.memory_total)


def screen_of(answer: PlanAnswer, status: actuator_pb2.ActuatorStatus | None = None, name: str = "") -> ClusterScreen:
    """Return the screen. status : None = what the snapshot tells of it; name : of the cluster."""
    view, now_s = answer.view, answer.now_ns / 1e9
    removals = tuple(_removals(status, now_s) if status is not None else _known_removals(answer))
    moving = {one.node: _progress(one) for one in removals if not one.is_over}
    verdicts = {one.node: one for one in answer.response.nodes}
    amounts = {node: _amounts(answer, node) for node in view.nodes}
    nodes = tuple(
        _node(answer, verdicts.get(node, plan_pb2.NodeVerdict(node=node)), amounts[node], moving)
        for node in sorted(
            view.nodes, key=lambda node: (not view.nodes[node].node_group, view.nodes[node].node_group, node)
        )
    )
    total = _Amounts()
    for one in amounts.values():
        total = total.plus(one)
    return ClusterScreen(
        name=name,
        time_s=now_s,
        summary=answer.summary,
        currency=answer.costs.currency,
        cpu=total.shares[0],
        memory=total.shares[1],
        waiting=len(view.waiting_pods()),
        sentences=tuple(_sentences(answer)),
        groups=tuple(_groups(answer, nodes, amounts)),
        nodes=nodes,
        pending=tuple(_pending(answer)),
        removals=removals,
        growth=tuple(_growth(answer)),
    )


def explained_node(answer: PlanAnswer, node: str) -> list[Sentence]:
    """Return why a node goes or stays; nothing for a node that is not in the cluster."""
    if node not in answer.view.nodes:
        return []
    request = plan_pb2.PlanRequest(settings=answer.settings, now=_timestamp(answer.now_ns))
    return list(node_sentences(explain_node(answer.view, node, answer.response, request)))


def _timestamp(now_ns: int) -> Timestamp:
    found = Timestamp()
    found.FromNanoseconds(now_ns)
    return found


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _amounts(answer: PlanAnswer, node: str) -> _Amounts:
    """Return what is requested of a node, and what it offers."""
    has, free = answer.view.allocatable(node), answer.view.free(node)
    cpu, memory = has.get("cpu", 0), has.get("memory", 0)
    return _Amounts(cpu - free.get("cpu", 0), cpu, memory - free.get("memory", 0), memory)


def _node(answer: PlanAnswer, verdict: plan_pb2.NodeVerdict, amounts: _Amounts, moving: Mapping[str, str]) -> NodeLine:
    """Return the line of a node. moving : how far the deletions in progress are, by node."""
    view, name = answer.view, verdict.node
    node, progress = view.nodes[name], moving.get(name)
    state = _STATES[verdict.fate] if progress is None else NodeState.MOVING
    marks = [text for text, holds in (("not ready", not node.ready), ("cordoned", node.unschedulable)) if holds]
    pods = view.allocatable(name).get("pods", 0) - view.free(name)["pods"]
    price = verdict.price_per_hour if verdict.HasField("price_per_hour") else None
    what = _text_of(answer, verdict) if progress is None else progress
    return NodeLine(name, node.node_group, *amounts.shares, pods, price, state, "; ".join(filter(None, (*marks, what))))


def _text_of(answer: PlanAnswer, verdict: plan_pb2.NodeVerdict) -> str:
    """Return what the plan says of a node."""
    if verdict.fate == _Fate.GOES_NOW:
        pods = len(answer.moves.get(verdict.node, {}))
        return f"goes now: drains {counted(pods, 'pod')}" if pods else "goes now: empty"
    if verdict.fate == _Fate.GOES_LATER:
        return _later(answer, verdict)
    if verdict.fate == _Fate.REPLACED:
        return f"is replaced in wave {verdict.wave}"
    cause = verdict.blocking_pod or verdict.detail
    return f"{verdict.why}: {cause}" if cause else verdict.why


def _later(answer: PlanAnswer, node: plan_pb2.NodeVerdict) -> str:
    """Return when a node goes that does not go now."""
    since_ns = node.since.ToNanoseconds()
    for_s = (answer.now_ns - since_ns) / 1e9
    since = f" (unneeded for {duration(for_s)})" if since_ns and for_s >= 1 else ""
    if node.wave > 1:
        return f"can go in wave {node.wave}{since}"
    if node.HasField("goes_at"):
        return f"can go in {duration(remaining_s(node, answer.now_ns))}{since}"
    return f"can go later: {node.detail or node.why}{since}"


def _groups(answer: PlanAnswer, nodes: tuple[NodeLine, ...], amounts: Mapping[str, _Amounts]) -> Iterator[GroupLine]:
    """Yield the node groups, those without nodes too."""
    members: dict[str, list[NodeLine]] = {group: [] for group in answer.view.groups}
    for node in nodes:
        members.setdefault(node.group, []).append(node)
    added = {one.node_group: one.new_size - one.current_size for one in answer.response.scale_up.splits}
    for group in sorted(members, key=lambda group: (not group, group)):
        total = _Amounts()
        for node in members[group]:
            total = total.plus(amounts[node.name])
        row = answer.view.groups.get(group)
        yield GroupLine(
            group,
            nodes=len(members[group]),
            going=sum(one.state in (NodeState.MOVING, NodeState.NOW, NodeState.LATER) for one in members[group]),
            added=added.get(group, 0),
            least=row.min_size if row is not None else -1,
            most=_most(row.max_size) if row is not None else -1,
            cpu=total.shares[0],
            memory=total.shares[1],
            price=sum(one.price or 0.0 for one in members[group]),
        )


def _pending(answer: PlanAnswer) -> Iterator[PendingLine]:
    """Yield the pods that wait, those that stay pending first."""
    decision, view = answer.response.scale_up, answer.view
    alike: dict[tuple[str, str, bool], list[str]] = defaultdict(list)

    def add(pod: str, reason: str, *, is_served: bool) -> None:
        alike[view.owner_text(pod), reason, is_served].append(pod)

    for pod, lacking in shortfalls(decision).items():
        add(pod, lacking.detail or "no node group can grow for it", is_served=False)
    for one in decision.skipped:
        add(one.pod, SKIPPED_SENTENCES[one.reason], is_served=False)
    for group, pods in answer.on_new_nodes.items():
        for pod in pods:
            if view.row_of(pod) is not None:
                add(pod, f"gets a new node of {group}", is_served=True)
    for pod in on_existing(decision):
        add(pod, "fits on existing nodes", is_served=True)
    for pod in on_upcoming(decision):
        add(pod, "waits for nodes that are on their way", is_served=True)
    lines = (
        PendingLine(owner or some(pods, 2), reason, is_served, tuple(pods))
        for (owner, reason, is_served), pods in alike.items()
    )
    yield from sorted(lines, key=lambda line: (line.is_served, -len(line.pods), line.owner, line.reason))


def _most(max_size: int) -> int:
    """Return the maximum size of a node group; -1 = none is known."""
    return max_size if max_size < NO_MAXIMUM else -1


def _growth(answer: PlanAnswer) -> Iterator[GrowthLine]:
    """Yield the node groups that grow, the one for the most pods first."""
    decision, pods = answer.response.scale_up, answer.on_new_nodes
    for one in sorted(decision.splits, key=lambda one: (-len(pods[one.node_group]), one.node_group)):
        price = one.price_per_hour if one.HasField("price_per_hour") else None
        why = expansion.chosen_because(decision, one.node_group)
        yield GrowthLine(
            one.node_group, one.current_size, one.new_size, _most(one.max_size), len(pods[one.node_group]), price, why
        )


def _removals(status: actuator_pb2.ActuatorStatus, now_s: float) -> Iterator[RemovalLine]:
    """Yield deletions in progress, then the latest that have ended. now_s : of the plan, before the status."""
    now_s = max(now_s, status.time.ToNanoseconds() / 1e9)
    for one in status.deletions:
        yield _removal(one, now_s, is_over=False)
    ended = sorted(status.finished, key=lambda one: (-one.state_time.ToNanoseconds(), one.node))
    for one in ended[:MOST_FINISHED]:
        yield _removal(one, now_s, is_over=True)


def _known_removals(answer: PlanAnswer) -> Iterator[RemovalLine]:
    """Yield the deletions that the snapshot tells of, as in a recording."""
    for one in answer.view.snapshot.actuation_status.deletions:
        seconds = max(0.0, (answer.now_ns - one.start_time.ToNanoseconds()) / 1e9)
        state = "draining" if one.drain else "deleting"
        yield RemovalLine(one.node, one.node_group, state, seconds, -1, -1, one.drain, False, "")


def _removal(one: actuator_pb2.NodeDeletion, now_s: float, *, is_over: bool) -> RemovalLine:
    reason = reason_pb2.DeletionReason.Code.Name(one.reason) if one.reason else ""
    return RemovalLine(
        node=one.node,
        group=one.node_group,
        state=actuator_pb2.DeletionState.Code.Name(one.state).lower().replace("_", " "),
        seconds=max(0.0, now_s - one.state_time.ToNanoseconds() / 1e9),
        pods_gone=one.pods_gone_count,
        pods_total=one.pods_total_count,
        is_drain=one.drain,
        is_over=is_over,
        detail=f"{reason} {one.detail}".strip(),
    )


def _progress(one: RemovalLine) -> str:
    """Return how far a deletion is."""
    pods = f": {one.pods_gone} of {counted(one.pods_total, 'pod')} gone" if one.pods_total > 0 else ""
    return f"{one.state}{pods}"


def _sentences(answer: PlanAnswer) -> Iterator[str]:
    """Yield what the plan does, the most important first."""
    response = answer.response
    if response.HasField("scale_up") and not scale_up.is_quiet(response.scale_up):
        yield scale_up.headline(answer)
    if response.HasField("scale_down"):
        yield scale_down.headline(answer)
        yield from filter(None, [scale_down.telling_result(response.scale_down)])
    yield from response.summary.notes
