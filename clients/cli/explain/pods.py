"""Why a pod is scheduled or not: which nodes it fits, and for every other node which predicates fail.

Built from the planner's CheckFit answer; nodes are sorted by name, reasons by the number of nodes they concern, then in
the scheduler's order.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from trimtab.clients.cli.amounts import counted, named_amount, some
from trimtab.clients.cli.blocks import Sentence, Style, led
from trimtab.clients.cli.causes import OF_DEVICES, cause, device_causes
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.reason_texts import clause_of
from trimtab.v1 import planner_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

_PHASES = {pb.PodPhase.SUCCEEDED: "has succeeded", pb.PodPhase.FAILED: "has failed"}


@dataclass(frozen=True)
class ShownRefusal:
    """One reason and the nodes it applies to, by concrete cause; the cause with the most nodes comes first. `causes` :
    (cause, names of nodes).
    """

    reason: str
    nodes: tuple[str, ...]
    causes: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class PodExplanation:
    """The explanation of a pod. A node with several reasons appears under each. `view` : the snapshot; `answer` : the
    planner's; `requests` :
    amounts by resource, cpu in milli-cores; `fits`, `not_ready` : names of nodes; `refusals` : the most frequent first;
    `node_count` : of the whole cluster.
    """

    view: ClusterView
    pod: ShownPod
    answer: planner_pb2.CheckFitResponse
    requests: dict[str, int]
    fits: tuple[str, ...]
    refusals: tuple[ShownRefusal, ...]
    node_count: int
    not_ready: tuple[str, ...] = ()


def explain_pod(view: ClusterView, pod: ShownPod, answer: planner_pb2.CheckFitResponse) -> PodExplanation:
    """Combine the planner's answer with details from the snapshot."""
    found: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for fit in answer.nodes:
        for reason in fit.reasons:
            if reason not in OF_DEVICES or not fit.devices:
                found[reason][cause(view, pod, fit.node, reason, fit.insufficient)].append(fit.node)
    for reason in OF_DEVICES:
        refusing = [fit for fit in answer.nodes if fit.devices and reason in fit.reasons]
        for text, nodes in device_causes(refusing):
            found[reason][text].extend(nodes)
    refusals = [
        ShownRefusal(
            reason=reason_pb2.PredicateReason.Code.Name(reason_pb2.PredicateReason.Code.ValueType(reason)),
            nodes=tuple(sorted(node for nodes in causes.values() for node in nodes)),
            causes=tuple(sorted(((text, tuple(nodes)) for text, nodes in causes.items()), key=_most_first)),
        )
        for reason, causes in sorted(found.items())
    ]
    return PodExplanation(
        view=view,
        pod=pod,
        answer=answer,
        requests=view.requests(pod),
        fits=tuple(fit.node for fit in answer.nodes if fit.fits),
        refusals=tuple(sorted(refusals, key=lambda refusal: -len(refusal.nodes))),
        node_count=len(answer.nodes),
        not_ready=_not_ready(view, answer),
    )


def _not_ready(view: ClusterView, answer: planner_pb2.CheckFitResponse) -> tuple[str, ...]:
    """Return the nodes that pass all predicates but are not ready: no plan moves a pod there."""
    ready = {node.name for node in view.snapshot.nodes if node.ready}
    return tuple(fit.node for fit in answer.nodes if fit.fits and fit.node not in ready)


def _most_first(entry: tuple[str, tuple[str, ...]]) -> tuple[int, str]:
    """Order causes by the number of nodes, then by text."""
    return -len(entry[1]), entry[0]


def pod_sentences(explanation: PodExplanation) -> Iterator[Sentence]:
    """Yield the explanation as sentences."""
    pod = explanation.pod
    owner = f", of {pod.owner.kind} {pod.owner.name}" if pod.owner else ""
    yield led(Style.HEADLINE, f"Pod {pod.key}", f"{owner} {_where(pod)}.")
    asks = ", ".join(named_amount(name, value) for name, value in explanation.requests.items())
    yield Sentence(f"It requests {asks or 'no resources'}.")
    yield Sentence("")
    yield from fit_sentences(explanation)


def _where(pod: ShownPod) -> str:
    """Describe whether the pod has a node."""
    if pod.phase in _PHASES:
        return f"{_PHASES[pb.PodPhase.Code.ValueType(pod.phase)]} and takes no room"
    return f"runs on {pod.node}" if pod.node else "waits for a node"


def fit_sentences(explanation: PodExplanation) -> Iterator[Sentence]:
    """Yield which nodes the pod fits, and why not the others."""
    total, fits = counted(explanation.node_count, "node"), explanation.fits
    if not explanation.node_count:
        yield Sentence("There are no nodes.")
        return
    if fits:
        others = " (its own among them)" if explanation.pod.node in fits and len(fits) > 1 else ""
        yield led(Style.GOOD, f"It fits {len(fits):,} of {total}", f"{others}: {some(fits, 5)}.")
    else:
        yield Sentence(f"It fits none of {total}.", Style.BAD)
    if explanation.not_ready:
        names = some(explanation.not_ready, 5)
        told = "Not ready, so no plan moves a pod there, although no taint excludes the scheduler"
        yield Sentence(f"{told}: {names}.", indent=2)
    for refusal in explanation.refusals:
        why = clause_of(refusal.reason)
        yield Sentence(f"{counted(len(refusal.nodes), 'node')}: {why} ({refusal.reason})", indent=2)
        for text, nodes in refusal.causes[:3]:
            yield Sentence(f"{text} ({some(nodes)})", indent=4)
        if len(refusal.causes) > 3:
            rest = sum(len(nodes) for _, nodes in refusal.causes[3:])
            more = f"… and {counted(rest, 'node')} more, each with its own figures (-o json shows them)"
            yield Sentence(more, Style.MUTED, indent=4)
