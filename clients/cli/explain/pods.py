"""Why a pod is, or is not, where it could be: which nodes it fits, and for every other node what says no.

Built from the planner's CheckFit answer; nodes are sorted by name, reasons by the number of nodes they concern, then in
the scheduler's order.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from trimtab.v1 import planner_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

from clients.cli.amounts import amount, counted, some
from clients.cli.explain.causes import cause
from clients.cli.explain.cluster_view import ClusterView, PodView

_PHASES = {pb.PodPhase.SUCCEEDED: "has succeeded", pb.PodPhase.FAILED: "has failed"}


@dataclass(frozen=True)
class Refusal:
    """One reason and the nodes it holds for, by concrete cause, the cause of most nodes first."""

    reason: str
    nodes: tuple[str, ...]
    causes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PodExplanation:
    """What there is to say about a pod. A node with several reasons appears under each."""

    pod: PodView
    requests: dict[str, int]
    fits: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    node_count: int


def explain_pod(view: ClusterView, pod: PodView, answer: planner_pb2.CheckFitResponse) -> PodExplanation:
    """Put the planner's answer together with what the snapshot shows."""
    found: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for fit in answer.nodes:
        for reason in fit.reasons:
            found[reason][cause(view, pod, fit.node, reason, fit.insufficient)].append(fit.node)
    refusals = [
        Refusal(
            reason=reason_pb2.PredicateReason.Code.Name(reason_pb2.PredicateReason.Code.ValueType(reason)),
            nodes=tuple(sorted(node for nodes in causes.values() for node in nodes)),
            causes=tuple(sorted(((text, tuple(nodes)) for text, nodes in causes.items()), key=_most_first)),
        )
        for reason, causes in sorted(found.items())
    ]
    return PodExplanation(
        pod=pod,
        requests=view.requests(pod),
        fits=tuple(fit.node for fit in answer.nodes if fit.fits),
        refusals=tuple(sorted(refusals, key=lambda refusal: -len(refusal.nodes))),
        node_count=len(answer.nodes),
    )


def _most_first(entry: tuple[str, tuple[str, ...]]) -> tuple[int, str]:
    """Order causes by the number of nodes, then by text."""
    return -len(entry[1]), entry[0]


def pod_document(explanation: PodExplanation) -> dict[str, Any]:
    """Return the explanation for programs."""
    pod = explanation.pod
    return {
        "pod": pod.key,
        "node": pod.node,
        "phase": pb.PodPhase.Code.Name(pb.PodPhase.Code.ValueType(pod.phase)),
        "owner": f"{pod.owner.kind}/{pod.owner.namespace}/{pod.owner.name}" if pod.owner else "",
        "requests": explanation.requests,
        "fits": list(explanation.fits),
        "refusals": [
            {
                "reason": refusal.reason,
                "nodes": list(refusal.nodes),
                "causes": [{"cause": text, "nodes": list(nodes)} for text, nodes in refusal.causes],
            }
            for refusal in explanation.refusals
        ],
    }


def pod_lines(explanation: PodExplanation) -> Iterator[str]:
    """Yield the explanation as lines of rich text."""
    pod = explanation.pod
    owner = f", of {pod.owner.kind} {pod.owner.name}" if pod.owner else ""
    yield f"[bold]Pod {escape(pod.key)}[/bold]{escape(owner)} {_where(pod)}."
    asks = ", ".join(f"{amount(name, value)} of {name}" for name, value in explanation.requests.items())
    yield f"It asks for {escape(asks) or 'no resources'}."
    yield ""
    yield from fit_lines(explanation)


def _where(pod: PodView) -> str:
    """Whether the pod has a node."""
    if pod.phase in _PHASES:
        return f"{_PHASES[pb.PodPhase.Code.ValueType(pod.phase)]} and takes no room"
    return f"runs on [cyan]{escape(pod.node)}[/cyan]" if pod.node else "waits for a node"


def fit_lines(explanation: PodExplanation) -> Iterator[str]:
    """Yield which nodes it fits and what the others say."""
    total, fits = counted(explanation.node_count, "node"), explanation.fits
    if not explanation.node_count:
        yield "There are no nodes."
        return
    if fits:
        others = " (its own among them)" if explanation.pod.node in fits and len(fits) > 1 else ""
        yield f"[green]It fits {len(fits):,} of {total}[/green]{others}: {escape(some(fits, 5))}."
    else:
        yield f"[red]It fits none of {total}.[/red]"
    for refusal in explanation.refusals:
        yield f"  [yellow]{refusal.reason}[/yellow] on {counted(len(refusal.nodes), 'node')}:"
        for text, nodes in refusal.causes[:3]:
            yield f"    {escape(text)} [dim]({escape(some(nodes))})[/dim]"
        if len(refusal.causes) > 3:
            rest = sum(len(nodes) for _, nodes in refusal.causes[3:])
            yield f"    [dim]… and {counted(rest, 'node')} more, each with its own figures (-o json shows them)[/dim]"
