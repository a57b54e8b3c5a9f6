"""Maps of nodes: what workloads request on each, before and after.

Decides which workloads get their own colour: those that request most over all maps; the others share one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from trimtab.clients.cli.amounts import byte_count, counted, percent
from trimtab.clients.cli.report.page import Cell, Map, MapRow
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
COLORS = ("#0a58ca", "#d1690e", "#2a7f3f", "#8b3fb0", "#b3261e", "#00798c", "#7a6a00", "#5b5f97")
OTHER = "#57606a"
MOST_NODES: Final = 200
"""Maximum number of existing nodes, and of new ones, in a map of a plan."""


class PackedNode(NamedTuple):
    """A node of a map. group : its node group; cpu : allocatable milli-cores; cpu_requested : milli-cores by workload;
    memory, memory_requested : bytes; pods : how many.
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


def maps(named: Sequence[tuple[str, Sequence[PackedNode], int]]) -> list[Map]:
    """Return maps that share their colours. named : title, nodes in order of their groups, number of nodes left out."""
    total: Counter[str] = Counter()
    for _, nodes, _ in named:
        for node in nodes:
            total.update(node.cpu_requested)
    most = sorted(total, key=lambda name: (-total[name], name))
    colors = dict(zip(most, COLORS, strict=False))
    legend = [*colors.items(), *([("others", OTHER)] if len(most) > len(COLORS) else [])]
    return [
        Map(title, _described(nodes, left_out), _rows(nodes, colors), tuple(legend)) for title, nodes, left_out in named
    ]


def _rows(nodes: Sequence[PackedNode], colors: Mapping[str, str]) -> tuple[MapRow, ...]:
    by_group = [(group, list(members)) for group, members in groupby(nodes, key=lambda node: node.group)]
    return tuple(
        MapRow(
            f"{group or 'no node group'}: {counted(len(members), 'node')}", tuple(_cell(one, colors) for one in members)
        )
        for group, members in by_group
    )


def _cell(node: PackedNode, colors: Mapping[str, str]) -> Cell:
    """Return a node with its segments, coloured workloads first, in the order of the legend."""
    whole = max(1, node.cpu)
    shares: Counter[str] = Counter()
    for name, amount in node.cpu_requested.items():
        shares[colors.get(name, OTHER)] += round(100 * amount / whole, 1)  # type: ignore[assignment]
    order = [*colors.values(), OTHER]
    largest = sorted(node.cpu_requested.items(), key=lambda one: (-one[1], one[0]))[:3]
    what = ", ".join(f"{name} {amount / whole:.0%}" for name, amount in largest if amount)
    used = sum(node.cpu_requested.values())
    memory = f"{byte_count(node.memory_requested)} of {byte_count(node.memory)}"
    text = f"{node.name}: {percent(used / whole)} of cpu, {memory} of memory, {counted(node.pods, 'pod')}"
    segments = tuple((color, min(100.0, round(shares[color], 1))) for color in order if shares[color])
    return Cell(f"{text}; {what}" if what else text, segments)


def _described(nodes: Sequence[PackedNode], left_out: int) -> str:
    """Return how many nodes there are and how full they are."""
    cpu, memory = sum(one.cpu for one in nodes), sum(one.memory for one in nodes)
    if not cpu or not memory:
        return "No nodes."
    share = percent(sum(sum(one.cpu_requested.values()) for one in nodes) / cpu)
    of_memory = percent(sum(one.memory_requested for one in nodes) / memory)
    more = f" {left_out:,} more nodes are not shown." if left_out else ""
    return f"{counted(len(nodes), 'node')}: {share} of cpu and {of_memory} of memory requested.{more}"


class NodeMap(NamedTuple):
    """The nodes of a map in order of their groups, and how many are left out."""

    nodes: Sequence[PackedNode]
    left_out: int


def planned(view: ClusterView, answer: plan_pb2.PlanResponse) -> tuple[NodeMap, NodeMap]:
    """Return the nodes now, and after the plan: without all nodes that can go, with all new ones and with the pods that
    they and the others receive. At most `MOST_NODES` of the nodes, first those that go and those that receive pods, and
    as many new ones.
    """
    goes = {one.node for one in answer.scale_down.unneeded}
    moves = dict(answer.scale_up.on_existing)
    for one in answer.scale_down.unneeded:
        moves.update(one.destinations)
    receives = set(moves.values())
    ranked = sorted(view.nodes, key=lambda name: (name not in goes, name not in receives, name))
    chosen = sorted(ranked[:MOST_NODES], key=lambda name: (view.nodes[name].node_group, name))
    before = {name: _packed(view, name, view.pods_on(name)) for name in chosen}
    after = {name: node for name, node in before.items() if name not in goes}
    for key, to in moves.items():
        if to in after:
            after[to] = _with_pods(view, after[to], [key])
    new = list(_new_nodes(view, answer.scale_up))
    left_out = len(view.nodes) - len(before)
    together = sorted([*after.values(), *new[:MOST_NODES]], key=lambda node: node.group)
    return NodeMap(list(before.values()), left_out), NodeMap(together, left_out + len(new[MOST_NODES:]))


def _new_nodes(view: ClusterView, decision: plan_pb2.ScaleUpDecision) -> Iterator[PackedNode]:
    """Yield the new nodes with the pods that they are for; placeholders take no room in a map."""
    for split in decision.splits:
        capacity = _capacity_of_new(view, split.node_group)
        for number, new in enumerate(split.new_nodes, 1):
            name = f"new node {number} of {split.node_group}"
            empty = PackedNode(name, split.node_group, capacity.get("cpu", 0), {}, capacity.get("memory", 0), 0, 0)
            yield _with_pods(view, empty, new.pods)


def _capacity_of_new(view: ClusterView, group: str) -> Mapping[str, int]:
    """Return what a new node of a group offers: as its template says, else as one of its nodes."""
    found = view.groups.get(group)
    if found is not None and found.HasField("template"):
        return dict(zip(view.snapshot.resources, found.template.allocatable, strict=False))
    return next((view.allocatable(name) for name, node in view.nodes.items() if node.node_group == group), {})


def _with_pods(view: ClusterView, node: PackedNode, keys: Iterable[str]) -> PackedNode:
    """Return a node with more pods; keys that are no pods are skipped."""
    for pod in filter(None, map(view.pod, keys)):
        node = _with_pod(view, node, pod)
    return node


def _packed(view: ClusterView, name: str, pods: Sequence[ShownPod]) -> PackedNode:
    allocatable = view.allocatable(name)
    cpu, memory = allocatable.get("cpu", 0), allocatable.get("memory", 0)
    node = PackedNode(name, view.nodes[name].node_group, cpu, {}, memory, 0, 0)
    for pod in pods:
        node = _with_pod(view, node, pod)
    return node


def _with_pod(view: ClusterView, node: PackedNode, pod: ShownPod) -> PackedNode:
    """Return a node with one more pod."""
    requests = view.requests(pod)
    workload = pod.labels.get("app") or (pod.owner.name if pod.owner else pod.key)
    cpu = {**node.cpu_requested, workload: node.cpu_requested.get(workload, 0) + requests.get("cpu", 0)}
    memory = node.memory_requested + requests.get("memory", 0)
    return node._replace(cpu_requested=cpu, memory_requested=memory, pods=node.pods + 1)
