"""What `trimtab top` shows of an answered plan and the actuator's status, as blocks: the terminal, plain text and the
page print the same facts and tables. Decides only what is shown; calls nothing.

Order of rows: node groups by id with nodes of no group last; nodes by group, then by name; pending pods without a
place first; deletions in progress before those that have ended. Cost: proportional to nodes, and pods once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.amounts import counted, duration, maximum, percent, some
from trimtab.clients.cli.answers import scale_down, scale_up
from trimtab.clients.cli.answers.actuation import (
    UNGROUPED,
    ShownDeletion,
    deletions_of,
    deletions_table,
    recorded_deletions,
)
from trimtab.clients.cli.answers.answer import PlanAnswer, money
from trimtab.clients.cli.answers.nodes import explain_node, node_sentences
from trimtab.clients.cli.answers.summary import key_figures, plan_says
from trimtab.clients.cli.blocks import AnswerPage, Block, Facts, Figures, Line, Sentence, Style, Table, rows
from trimtab.clients.cli.sentences import SKIPPED_SENTENCES
from trimtab.places import on_existing, on_upcoming, shortfalls
from trimtab.v1 import actuator_pb2, plan_pb2

MOST_FINISHED: Final = 50
"""Most deletions that have ended and are shown."""
MOST_PODS: Final = 500
"""Most pods that are named of those that wait alike."""
_SHARES: Final = ("cpu", "memory")


class TopView(StrEnum):
    """A table of the screen, by the name that `:` takes."""

    NODES = "nodes"
    GROUPS = "groups"
    PENDING = "pending"
    DELETIONS = "deletions"
    GROWTH = "growth"


class NodeState(StrEnum):
    """What is about to happen to a node, the most urgent first."""

    MOVING = "moving"  # its deletion is in progress
    NOW = "now"  # the plan deletes it now
    LATER = "later"  # it can go, but not yet
    STAYS = "stays"
    UNKNOWN = "unknown"  # the plan does not mention it


class ClusterScreen(NamedTuple):
    """One plan on one cluster. name : of the cluster; time_s : Unix seconds for which the plan was made; facts : its
    state; sentences : what the plan does.
    """

    name: str
    time_s: float
    facts: tuple[str, ...]
    figures: Figures
    sentences: tuple[str, ...]
    tables: Mapping[TopView, Table]

    @property
    def moment(self) -> str:
        """When the plan was made."""
        return datetime.fromtimestamp(self.time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def page(self, position: str = "", trouble: str = "") -> AnswerPage:
        """Return all of it. position : such as "round 3 of 12"; trouble : why there is no newer plan."""
        cluster = [f"Cluster {self.name}"] if self.name else []
        blocks: tuple[Block, ...] = (
            Facts((*cluster, f"Plan of {self.moment}", *filter(None, [position]), *self.facts)),
            self.figures,
            *([Sentence(trouble, Style.WARNING)] if trouble else []),
            *map(Sentence, self.sentences),
            *(self.tables[view] for view in (TopView.GROUPS, TopView.PENDING, TopView.DELETIONS, TopView.GROWTH)),
            self.tables[TopView.NODES],
        )
        return AnswerPage(f"{self.name or 'cluster'}: trimtab top", blocks)


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


class _ShownNode(NamedTuple):
    """A node with what is about to happen to it. amounts : of cpu and memory, requested and allocatable, in milli-cores
    and bytes; price : None = not known.
    """

    name: str
    group: str
    amounts: tuple[tuple[int, int], ...]
    price: float | None
    state: NodeState


def screen_of(answer: PlanAnswer, status: actuator_pb2.ActuatorStatus | None = None, name: str = "") -> ClusterScreen:
    """Return the screen. status : None = what the snapshot tells of it; name : of the cluster."""
    view, now_s = answer.view, answer.now_ns / 1e9
    removals = tuple(recorded_deletions(answer))
    if status is not None:
        # The plan was made before the status.
        seen_s = max(now_s, status.time.ToNanoseconds() / 1e9)
        removals = tuple(deletions_of(status, seen_s, MOST_FINISHED))
    moving = {one.node: one for one in removals if not one.is_over}
    verdicts = {one.node: one for one in answer.response.nodes}
    nodes, lines = list[_ShownNode](), list[Line]()
    for node in sorted(view.nodes, key=lambda one: (not view.nodes[one].node_group, view.nodes[one].node_group, one)):
        verdict = verdicts.get(node, plan_pb2.NodeVerdict(node=node))
        one = _node(answer, verdict, is_moving=node in moving)
        nodes.append(one)
        lines.append(Line(_cells(answer, one, verdict, moving.get(node))))
    columns = ("node", "group", *_SHARES, "pods", "an hour", "state", "plan")
    words = ("node", "group", "state", "plan")
    now, added = sum(one.state is NodeState.NOW for one in nodes), answer.summary.added_node_count
    cpu, memory = _shares(nodes)
    facts = (
        f"{cpu} of cpu, {memory} of memory requested",
        f"{counted(len(view.waiting_pods()), 'pod')} pending",
        f"{now:,} to go now",
        f"{len(moving):,} moving",
        *([f"{added:,} to add"] if added else []),
    )
    tables = {
        TopView.NODES: Table(
            "Nodes", columns, tuple(lines), sentences=words, is_searchable=True, shares=_SHARES, link="node?name="
        ),
        TopView.GROUPS: _groups(answer, nodes),
        TopView.PENDING: _pending(answer),
        TopView.DELETIONS: deletions_table(removals),
        TopView.GROWTH: scale_up.growth_table(answer),
    }
    figures = key_figures(answer.summary, answer.costs.currency)
    return ClusterScreen(name, now_s, facts, figures, tuple(_sentences(answer)), tables)


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


def _shares(nodes: Sequence[_ShownNode]) -> tuple[str, ...]:
    """Return what is requested of cpu and of memory on some nodes, in per cent."""
    found = []
    for at in range(len(_SHARES)):
        part, whole = (sum(node.amounts[at][which] for node in nodes) for which in (0, 1))
        found.append(percent(part / whole if whole else 0.0))
    return tuple(found)


def _node(answer: PlanAnswer, verdict: plan_pb2.NodeVerdict, *, is_moving: bool) -> _ShownNode:
    price = verdict.price_per_hour if verdict.HasField("price_per_hour") else None
    state = NodeState.MOVING if is_moving else _STATES[verdict.fate]
    name, view = verdict.node, answer.view
    has, free = view.allocatable(name), view.free(name)
    amounts = tuple((has.get(share, 0) - free.get(share, 0), has.get(share, 0)) for share in _SHARES)
    return _ShownNode(name, view.nodes[name].node_group, amounts, price, state)


def _cells(
    answer: PlanAnswer, node: _ShownNode, verdict: plan_pb2.NodeVerdict, removal: ShownDeletion | None
) -> tuple[str, ...]:
    """Return the row of a node. removal : its deletion, if that is in progress."""
    view, row = answer.view, answer.view.nodes[node.name]
    marks = [text for text, holds in (("not ready", not row.ready), ("cordoned", row.unschedulable)) if holds]
    pods = view.allocatable(node.name).get("pods", 0) - view.free(node.name)["pods"]
    what = _text_of(answer, verdict) if removal is None else removal.progress
    text = "; ".join(filter(None, (*marks, what)))
    price = money(node.price) if node.price is not None else ""
    return node.name, node.group or UNGROUPED, *_shares([node]), f"{pods}", price, node.state.value, text


def _text_of(answer: PlanAnswer, verdict: plan_pb2.NodeVerdict) -> str:
    """Return what the plan says of a node, and since when it has been unneeded. Another column says that it stays."""
    what, detail = plan_says(answer, verdict)
    if verdict.fate == _Fate.GOES_LATER:
        since_ns = verdict.since.ToNanoseconds()
        for_s = (answer.now_ns - since_ns) / 1e9
        return f"{what} (unneeded for {duration(for_s)})" if since_ns and for_s >= 1 else what
    return ": ".join(filter(None, (what.removeprefix("stays: "), detail)))


def _groups(answer: PlanAnswer, nodes: Iterable[_ShownNode]) -> Table:
    """Return the node groups, those without nodes too."""
    members: dict[str, list[_ShownNode]] = {group: [] for group in answer.view.groups}
    for node in nodes:
        members.setdefault(node.group, []).append(node)
    added = {split.node_group: split.new_size - split.current_size for split in answer.response.scale_up.splits}
    goes = (NodeState.MOVING, NodeState.NOW, NodeState.LATER)
    lines = []
    for group in sorted(members, key=lambda group: (not group, group)):
        price = sum(member.price or 0.0 for member in members[group])
        row = answer.view.groups.get(group)
        counts = len(members[group]), sum(member.state in goes for member in members[group]), added.get(group, 0)
        limits = ("", "") if row is None else (f"{row.min_size:,}", maximum(row.max_size))
        sizes = (f"{counts[0]:,}", *(f"{count:,}" if count else "" for count in counts[1:]), *limits)
        lines.append((group or UNGROUPED, *sizes, *_shares(members[group]), money(price) if price else ""))
    columns = ("node group", "nodes", "go", "add", "least", "most", *_SHARES, "an hour")
    return Table("Node groups", columns, rows(lines), sentences=columns[:1], shares=_SHARES)


def _pending(answer: PlanAnswer) -> Table:
    """Return the pods that wait, those that stay pending first."""
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
    found = sorted(
        (is_served, -len(pods), owner or some(pods, 2), reason, pods)
        for (owner, reason, is_served), pods in alike.items()
    )
    lines = [Line((f"{len(pods):,}", owner, reason), _first(pods)) for _, _, owner, reason, pods in found]
    columns = ("pods", "of", "what becomes of them")
    return Table("Pending pods", columns, tuple(lines), sentences=columns[1:], heading=1)


def _first(pods: list[str]) -> tuple[str, ...]:
    more = [f"and {len(pods) - MOST_PODS:,} more"] if len(pods) > MOST_PODS else []
    return (*pods[:MOST_PODS], *more)


def _sentences(answer: PlanAnswer) -> Iterator[str]:
    """Yield what the plan does, the most important first."""
    response = answer.response
    if response.HasField("scale_up") and not scale_up.is_quiet(response.scale_up):
        yield scale_up.headline(answer)
    if response.HasField("scale_down"):
        yield scale_down.headline(answer)
        yield from filter(None, [scale_down.telling_result(response.scale_down)])
    yield from response.summary.notes
