"""Maps of nodes: what workloads request on each, before and after.

Decides which workloads get their own colour: those that request most over all maps; the others share one. Nodes of a
group are sorted by how full they are, so that many of them can share a bar and the picture stays true.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import byte_count, counted, percent
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import COLORS, OTHER, Cell, Map, MapRow, Maps
from trimtab.clients.cluster_view import ClusterView
from trimtab.places import destinations, new_nodes, on_existing
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
MOST_BARS: Final = 300
"""Most bars of a map; if there are more nodes, a bar stands for several of one group."""


class PackedNode(NamedTuple):
    """A node of a map. group : its node group; cpu : allocatable milli-cores; cpu_requested : milli-cores by workload;
    memory, memory_requested : bytes; pods : how many. name : of the node.
    """

    name: str
    group: str
    cpu: int
    cpu_requested: Mapping[str, int]
    memory: int
    memory_requested: int
    pods: int


def recorded(packing: Json) -> list[PackedNode]:
    """Return the nodes of a map recorded by a simulation."""
    return [
        PackedNode(
            one["name"],
            one["group"],
            one["cpu"],
            one["cpuRequested"],
            one["memory"],
            one["memoryRequested"],
            one["pods"],
        )
        for one in packing["nodes"]
    ]


def planned_maps(answer: PlanAnswer) -> Maps:
    """Return the cluster now, and after the plan."""
    before, after = planned(answer.view, answer.response)
    grows = answer.response.scale_up.splits or answer.response.replacement.waves
    title = "After the plan" if grows else "Without the nodes that can go"
    return maps([("Now", before, 0), (title, after, 0)])


def maps(named: Sequence[tuple[str, Sequence[PackedNode], int]]) -> Maps:
    """Return maps that share their colours and their scale. named : title, nodes in order of their groups, number of
    nodes left out.
    """
    total: Counter[str] = Counter()
    for _, nodes, _ in named:
        for node in nodes:
            total.update(node.cpu_requested)
    most = sorted(total, key=lambda name: (-total[name], name))
    colors = {name: number for number, name in enumerate(most[: len(COLORS)])}
    legend = [*((name, COLORS[number]) for name, number in colors.items())]
    if len(most) > len(COLORS):
        legend.append(("others", OTHER))
    largest = max((len(nodes) for _, nodes, _ in named), default=0)
    at_once = -(-largest // MOST_BARS) or 1
    return Maps(
        tuple(
            Map(
                title,
                _described(nodes, left_out, at_once),
                _rows(nodes, colors, at_once),
                tuple(legend),
                _size(largest),
            )
            for title, nodes, left_out in named
        )
    )


def _size(count: int) -> str:
    """Return the size of bars for so many nodes: "large", "medium" or "small"."""
    return "large" if count <= 60 else "medium" if count <= 200 else "small"


def _rows(nodes: Sequence[PackedNode], colors: Mapping[str, int], at_once: int) -> tuple[MapRow, ...]:
    by_group = [
        (group, sorted(members, key=_fullest)) for group, members in groupby(nodes, key=lambda node: node.group)
    ]
    return tuple(
        MapRow(
            f"{group or 'no node group'}: {counted(len(members), 'node')}",
            tuple(
                _cell(_together(members[start : start + at_once]), colors) for start in range(0, len(members), at_once)
            ),
        )
        for group, members in by_group
    )


def _fullest(node: PackedNode) -> tuple[float, str]:
    return -sum(node.cpu_requested.values()) / max(1, node.cpu), node.name


def _together(nodes: Sequence[PackedNode]) -> PackedNode:
    """Return nodes of one group as one bar: their sums."""
    if len(nodes) == 1:
        return nodes[0]
    requested: Counter[str] = Counter()
    for node in nodes:
        requested.update(node.cpu_requested)
    return PackedNode(
        f"{len(nodes)} nodes, {nodes[0].name} to {nodes[-1].name}",
        nodes[0].group,
        sum(one.cpu for one in nodes),
        requested,
        sum(one.memory for one in nodes),
        sum(one.memory_requested for one in nodes),
        sum(one.pods for one in nodes),
    )


def _cell(node: PackedNode, colors: Mapping[str, int]) -> Cell:
    """Return a node with its segments, coloured workloads first, in the order of the legend."""
    whole = max(1, node.cpu)
    shares: Counter[int] = Counter()
    for name, amount in node.cpu_requested.items():
        shares[colors.get(name, len(COLORS))] += amount
    largest = sorted(node.cpu_requested.items(), key=lambda one: (-one[1], one[0]))[:3]
    what = ", ".join(f"{name} {amount / whole:.0%}" for name, amount in largest if amount)
    used = sum(node.cpu_requested.values())
    memory = f"{byte_count(node.memory_requested)} of {byte_count(node.memory)}"
    text = f"{node.name}: {percent(used / whole)} of cpu, {memory} of memory, {counted(node.pods, 'pod')}"
    segments = tuple(
        (color, min(100.0, round(100 * shares[color] / whole, 1))) for color in range(len(COLORS) + 1) if shares[color]
    )
    return Cell(f"{text}; {what}" if what else text, segments)


def _described(nodes: Sequence[PackedNode], left_out: int, at_once: int) -> str:
    """Return how many nodes there are and how full they are."""
    cpu, memory = sum(node.cpu for node in nodes), sum(node.memory for node in nodes)
    if not cpu or not memory:
        return "No nodes."
    share = percent(sum(sum(node.cpu_requested.values()) for node in nodes) / cpu)
    of_memory = percent(sum(node.memory_requested for node in nodes) / memory)
    more = f" {left_out:,} more nodes are not shown." if left_out else ""
    bars = f" A bar is {at_once} nodes of a group, as full as they are on average." if at_once > 1 else ""
    return f"{counted(len(nodes), 'node')}: {share} of cpu and {of_memory} of memory requested.{bars}{more}"


def planned(view: ClusterView, answer: plan_pb2.PlanResponse) -> tuple[list[PackedNode], list[PackedNode]]:
    """Return the nodes now, and after the plan: without all nodes that can go, with all new ones and with the pods that
    they and the others receive. O(nodes + pods).
    """
    goes = {one.node for one in answer.scale_down.unneeded}
    moves = on_existing(answer.scale_up) | destinations(answer.scale_down.places)
    for wave in answer.replacement.waves:
        goes.update(one.node for one in wave.leaving)
        moves |= destinations(wave.places)
    filler = _NodeFiller(view)
    before = {
        name: filler.empty(name) for name in sorted(view.nodes, key=lambda name: (view.nodes[name].node_group, name))
    }
    for name, rows in view.rows_by_node().items():
        if name in before:
            before[name] = filler.filled(before[name], rows)
    after = {name: node for name, node in before.items() if name not in goes}
    after |= _replacing(view, answer.replacement)
    received: dict[str, list[int]] = {}
    for key, to in moves.items():
        row = view.row_of(key)
        if row is not None and to in after:
            received.setdefault(to, []).append(row)
    after |= {name: filler.filled(after[name], rows) for name, rows in received.items()}
    new = _new_nodes(view, filler, answer.scale_up)
    return list(before.values()), sorted([*after.values(), *new], key=lambda node: node.group)


def _replacing(view: ClusterView, decision: plan_pb2.ReplacementDecision) -> dict[str, PackedNode]:
    """Return the new nodes of a replacement, empty."""
    new = [one for wave in decision.waves for one in wave.new_nodes]
    return {one.name: _empty_new(view, f"new node {one.name}", one.node_group) for one in new}


def _empty_new(view: ClusterView, name: str, group: str) -> PackedNode:
    """Return a new node of a group without pods."""
    capacity = _capacity_of_new(view, group)
    return PackedNode(name, group, capacity.get("cpu", 0), {}, capacity.get("memory", 0), 0, 0)


def _new_nodes(view: ClusterView, filler: "_NodeFiller", decision: plan_pb2.ScaleUpDecision) -> Iterator[PackedNode]:
    """Yield the new nodes with the pods that they are for; placeholders take no room in a map."""
    for group, nodes in new_nodes(decision).items():
        for number, pods in enumerate(nodes, 1):
            empty = _empty_new(view, f"new node {number} of {group}", group)
            yield filler.filled(empty, [row for row in map(view.row_of, pods) if row is not None])


def _capacity_of_new(view: ClusterView, group: str) -> Mapping[str, int]:
    """Return what a new node of a group offers: as its template says, else as one of its nodes."""
    found = view.groups.get(group)
    if found is not None and found.HasField("template"):
        return dict(zip(view.snapshot.resources, found.template.allocatable, strict=False))
    return next((view.allocatable(name) for name, node in view.nodes.items() if node.node_group == group), {})


class _NodeFiller:
    """Adds pods to nodes; what pods of one spec, or of one controller, have in common is looked up once."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._sizes: dict[int, tuple[int, int]] = {}
        self._workloads: dict[tuple[int, int], str] = {}

    def empty(self, name: str) -> PackedNode:
        """Return a node without pods."""
        amounts = self._view.allocatable(name)
        group = self._view.nodes[name].node_group
        return PackedNode(name, group, amounts.get("cpu", 0), {}, amounts.get("memory", 0), 0, 0)

    def filled(self, node: PackedNode, rows: Sequence[int]) -> PackedNode:
        """Return a node with the pods of some rows, too."""
        requested, memory = Counter(node.cpu_requested), node.memory_requested
        for row in rows:
            cpu, of_memory = self._size_of(row)
            requested[self._workload(row)] += cpu
            memory += of_memory
        return node._replace(cpu_requested=requested, memory_requested=memory, pods=node.pods + len(rows))

    def _size_of(self, row: int) -> tuple[int, int]:
        spec = self._view.spec_of(row)
        if spec not in self._sizes:
            names = self._view.snapshot.resources
            amounts = {names[one.resource]: one.amount for one in self._view.snapshot.pod_specs[spec].requests}
            self._sizes[spec] = amounts.get("cpu", 0), amounts.get("memory", 0)
        return self._sizes[spec]

    def _workload(self, row: int) -> str:
        identity = self._view.kin_of(row)
        if identity not in self._workloads:
            pod = self._view.pod(self._view.pod_keys[row])
            assert pod is not None, "the row exists"
            named = pod.labels.get("app") or (pod.owner.name if pod.owner else "")
            if not named:
                return pod.key
            self._workloads[identity] = named
        return self._workloads[identity]
