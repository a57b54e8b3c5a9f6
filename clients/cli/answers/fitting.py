"""Where pods fit, for people: on how many nodes, and why not on the others, with the missing amounts. Pods of one
controller with the same outcome share their rows, and so do pods without a known controller. Of nodes that lack the
same resources, the one that comes closest is the example.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trimtab.clients.cli.amounts import amount, counted, named_amount, some
from trimtab.clients.cli.causes import cause
from trimtab.clients.cli.device_causes import OF_DEVICES, device_cause, device_kinds
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.v1 import planner_pb2, reason_pb2

_Reason = reason_pb2.PredicateReason


class FitOutcome(NamedTuple):
    """An outcome for a pod that several nodes share, and one of them. text : "" if the pod fits. node_count : nodes
    that share it; example : name of one of them.
    """

    text: str
    node_count: int
    example: str


def print_fits(console: Console, view: ClusterView, answers: Iterable[planner_pb2.CheckFitResponse]) -> None:
    """Print where each kind of pod fits, and what keeps it off the other nodes."""
    alike: dict[tuple[str, tuple[FitOutcome, ...]], list[str]] = defaultdict(list)
    for answer in answers:
        pod = view.pod(answer.pod)
        if pod is not None:
            alike[pod.owner.uid if pod.owner else "", outcomes(view, pod, answer.nodes)].append(answer.pod)
    if not alike:
        console.print("No pod is pending.")
        return
    for (_, found), pods in alike.items():
        _print_pod(console, pods, found)


def _print_pod(console: Console, pods: Sequence[str], found: Sequence[FitOutcome]) -> None:
    """Print where a kind of pod fits, then a line for each other outcome."""
    total = sum(one.node_count for one in found)
    fits = [one for one in found if not one.text]
    if fits:
        answer = (
            f"[green]fits {fits[0].node_count:,} of {counted(total, 'node')}[/green], such as {escape(fits[0].example)}"
        )
    else:
        answer = f"[red]fits none of {counted(total, 'node')}[/red]"
    console.print(f"[bold]{escape(some(pods, 1))}[/bold] {answer}")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, min_width=6)
    table.add_column()
    for one in found:
        if one.text:
            table.add_row(f"{one.node_count:,}", f"{escape(one.text)} [dim](on {escape(one.example)})[/dim]")
    if table.row_count:
        console.print(table)


def outcomes(view: ClusterView, pod: ShownPod, nodes: Sequence[planner_pb2.NodeFit]) -> tuple[FitOutcome, ...]:
    """Return the outcomes of a pod: where it fits, then those with the most nodes."""
    groups: dict[Any, list[planner_pb2.NodeFit]] = defaultdict(list)
    for node in nodes:
        groups[tuple(node.reasons), tuple(node.insufficient), device_kinds(node)].append(node)
    found = []
    for (reasons, lacking, _), alike in sorted(
        groups.items(), key=lambda pair: (bool(pair[0][0]), -len(pair[1]), pair[0])
    ):
        nearest = min(alike, key=lambda node: _shortage(view, pod, node, lacking)) if lacking else alike[0]
        found.append(FitOutcome(_text(view, pod, nearest, reasons), len(alike), nearest.node))
    return tuple(found)


def _shortage(view: ClusterView, pod: ShownPod, node: planner_pb2.NodeFit, lacking: Sequence[str]) -> float:
    """Return by what share of the request a node falls short, over all missing resources."""
    free, wanted = view.free(node.node, without=pod), view.requests(pod)
    return sum((wanted[name] - free.get(name, 0)) / max(1, wanted[name]) for name in lacking if name in wanted)


def _text(view: ClusterView, pod: ShownPod, node: planner_pb2.NodeFit, reasons: Sequence[int]) -> str:
    """Return every reason with its cause, "" where the pod fits."""
    return "; ".join(_clause(view, pod, node, reason) for reason in reasons)


def _clause(view: ClusterView, pod: ShownPod, node: planner_pb2.NodeFit, reason: int) -> str:
    """Return why a node does not take a pod; for resources, how much is missing."""
    if reason in OF_DEVICES and node.devices:
        return device_cause(node.devices)
    if reason != _Reason.INSUFFICIENT_RESOURCES:
        return cause(view, pod, node.node, reason)
    free, wanted = view.free(node.node, without=pod), view.requests(pod)
    lacking = [name for name in node.insufficient if name in wanted]
    return " and ".join(_lacks(name, wanted[name], max(0, free.get(name, 0))) for name in lacking)


def _lacks(resource: str, wanted: int, free: int) -> str:
    """Return how much of a resource is missing."""
    lacking = named_amount(resource, wanted - free)
    return f"lacks {lacking} (requests {amount(resource, wanted)}, free {amount(resource, free)})"
