"""`trimtab explain FILE fit`: for each pending pod and each node, whether the pod fits and which predicates fail. One
JSON object per line: {"pod": "ns/name", "node": "n1", "fits": false, "reasons": ["TAINT_NOT_TOLERATED"]}, and
"insufficient" with the names of missing resources, if any.

For people, pods of one controller with the same outcome share their rows, and so do pods without a known controller; of
nodes that lack the same resources, the one that comes closest is the example.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from trimtab.clients.cli.amounts import amount, counted, named_amount, some
from trimtab.clients.cli.blocks import AnswerPage, Block, Sentence, Style, Table, led, rows
from trimtab.clients.cli.causes import OF_DEVICES, cause, device_cause, device_kinds
from trimtab.clients.cli.output import Format
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.printing import print_document, print_found
from trimtab.clients.cluster_view import ClusterView, ShownPod
from trimtab.common.documents.output import escaped
from trimtab.v1 import planner_pb2, reason_pb2

_Reason = reason_pb2.PredicateReason


class FitOutcome(NamedTuple):
    """An outcome for a pod that several nodes share, and one of them. text : "" if the pod fits. node_count : nodes
    that share it; example : name of one of them.
    """

    text: str
    node_count: int
    example: str


def fit_blocks(view: ClusterView, answers: Iterable[planner_pb2.CheckFitResponse]) -> Iterator[Block]:
    """Yield where each kind of pod fits, and what keeps it off the other nodes."""
    alike: dict[tuple[str, tuple[FitOutcome, ...]], list[str]] = defaultdict(list)
    for answer in answers:
        pod = view.pod(answer.pod)
        if pod is not None:
            alike[pod.owner.uid if pod.owner else "", outcomes(view, pod, answer.nodes)].append(answer.pod)
    if not alike:
        yield Sentence("No pod is pending.")
    for (_, found), pods in alike.items():
        total = counted(sum(one.node_count for one in found), "node")
        fits = [one for one in found if not one.text]
        what = f"fits {fits[0].node_count:,} of {total}, such as {fits[0].example}" if fits else f"fits none of {total}"
        yield led(Style.HEADLINE, some(pods, 1), f" {what}")
        lacking = [(f"{one.node_count:,}", f"{one.text} (on {one.example})") for one in found if one.text]
        yield Table("", ("nodes", "why not"), rows(lacking), sentences=("why not",), heading=1)


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
        text = "; ".join(_clause(view, pod, nearest, reason) for reason in reasons)
        found.append(FitOutcome(text, len(alike), nearest.node))
    return tuple(found)


def _shortage(view: ClusterView, pod: ShownPod, node: planner_pb2.NodeFit, lacking: Sequence[str]) -> float:
    """Return by what share of the request a node falls short, over all missing resources."""
    free, wanted = view.free(node.node, without=pod), view.requests(pod)
    return sum((wanted[name] - free.get(name, 0)) / max(1, wanted[name]) for name in lacking if name in wanted)


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


_NAMES = {value: name for name, value in reason_pb2.PredicateReason.Code.items()}
_LINES_AT_ONCE = 4096


def fit(options: CommandOptions, pods: Sequence[str]) -> None:
    """Ask which pods fit where and print it; `pods` as "namespace/name", bound or not; none = all waiting ones."""
    request = options.request()
    request.fit_pods.extend(dict.fromkeys(pods))
    snapshot = options.read(needs_nodes=True)
    with open_planner(options.planner, options.settings) as planner:
        answers = planner.check_fit(snapshot, request)
        if options.output is Format.TABLE:
            page = AnswerPage("", tuple(fit_blocks(ClusterView(snapshot), answers)))
            print_found(page, options.output, dict, verbose=True)
        elif options.output is Format.YAML:
            rows = [row for answer in answers for row in _rows(answer)]
            print_document(rows, Format.YAML)
        else:
            _print_lines(answers)


def _rows(answer: planner_pb2.CheckFitResponse) -> Iterable[dict[str, object]]:
    """One row for each node."""
    for node in answer.nodes:
        row: dict[str, object] = {
            "pod": answer.pod,
            "node": node.node,
            "fits": node.fits,
            "reasons": [_NAMES[reason] for reason in node.reasons],
        }
        if node.insufficient:
            row["insufficient"] = list(node.insufficient)
        yield row


def _print_lines(answers: Iterable[planner_pb2.CheckFitResponse]) -> None:
    """Print as JSON lines, many at a time."""
    encode = msgspec.json.Encoder().encode
    lines: list[bytes] = []
    for answer in answers:
        lines.extend(encode(row) for row in _rows(answer))
        if len(lines) >= _LINES_AT_ONCE:
            _write(lines)
    _write(lines)


def _write(lines: list[bytes]) -> None:
    """Write the lines and clear them."""
    if lines:
        sys.stdout.write(escaped(b"\n".join(lines).decode()) + "\n")
        lines.clear()
