"""`trimtab explain FILE fit`: for each pending pod and each node, whether the pod fits and which predicates fail. One
JSON object per line: {"pod": "ns/name", "node": "n1", "fits": false, "reasons": ["TAINT_NOT_TOLERATED"]}, and
"insufficient" with the names of missing resources, if any.
"""

import sys
from collections.abc import Iterable, Sequence

import msgspec

from trimtab.clients.cli.output import Format, print_document, stdout_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.documents.output import escaped
from trimtab.v1 import planner_pb2, reason_pb2

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
            from trimtab.clients.cli.answers.fitting import print_fits

            print_fits(stdout_console(), ClusterView(snapshot), answers)
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
