"""The plan as a whole: date, name and settings, three figures, what changes where nodes of one type come and go, and
all nodes. Decides only what is shown, never what goes.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Final

from google.protobuf import json_format

from trimtab.clients.cli.amounts import counted, percent, some
from trimtab.clients.cli.answers import scale_up
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.replacement import HINT
from trimtab.clients.cli.answers.scale_down import moment
from trimtab.clients.cli.blocks import (
    LATER,
    NOW,
    Block,
    Facts,
    Figures,
    KeyFigure,
    Line,
    Sentence,
    Style,
    Table,
    rows,
    without_empty_columns,
)
from trimtab.clients.cli.sentences import codes_of
from trimtab.clients.cli.usage import USAGE_COLUMNS, by_workload, usage_cells, usage_sentence
from trimtab.clients.verdicts import GOES
from trimtab.prices import behind_amount
from trimtab.v1 import plan_pb2

LONGEST_SETTINGS: Final = 160


def facts(answer: PlanAnswer, name: str) -> Facts:
    """Return date, cluster, settings, prices and version."""
    moment = datetime.fromtimestamp(answer.now_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    costs, summary = answer.costs, answer.summary
    prices = f"No price is known; {costs.assumption}" if costs.assumption else ""
    prices = prices or (f"Prices in {costs.currency}" if costs.currency else "Prices of the node groups")
    has_money = summary.now.price_per_hour or summary.after.price_per_hour
    return Facts(
        (
            moment,
            *([f"Cluster {name}"] if name else []),
            counted(len(answer.view.nodes), "node"),
            _settings(answer),
            *([prices] if has_money and not (costs.known and costs.sources) else []),
            f"Trimtab {version('trimtab')}",
        )
    )


def _settings(answer: PlanAnswer) -> str:
    """Return the settings that are given, in their JSON form."""
    given = json_format.MessageToDict(answer.settings)
    if not given:
        return "Default settings"
    text = json.dumps(given, ensure_ascii=False, separators=(", ", ": ")).replace('"', "")[1:-1]
    return f"Settings {text if len(text) <= LONGEST_SETTINGS else f'{text[:LONGEST_SETTINGS]} …'}"


def key_figures(summary: plan_pb2.PlanSummary, currency: str) -> Figures:
    """Return the figures: now, after, saved a month; by nodes if there is no money to show."""
    count, kept = summary.now.node_count, summary.after.node_count
    now, after, saved = summary.now.price_per_month, summary.after.price_per_month, summary.saved_per_month
    if not now and not after:
        return Figures(
            (
                KeyFigure("Now", counted(count, "node")),
                KeyFigure("After the plan", counted(kept, "node")),
                KeyFigure("Fewer nodes", f"{count - kept:,}", is_good=kept < count),
            )
        )
    named = behind_amount(currency)
    about = "assumed prices" if summary.assumption else "a month"
    share = f"{percent(abs(saved) / now)} of the cost" if now else ""
    counts = {"removed": summary.removed_node_count, "added": summary.added_node_count}
    changes = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return Figures(
        (
            KeyFigure("Now", f"{now:,.0f}{named}", f"{counted(count, 'node')}, {about}"),
            KeyFigure(
                "After the plan",
                f"{after:,.0f}{named}",
                f"{counted(kept, 'node')}{f' ({changes})' if changes else ''}",
            ),
            KeyFigure(
                "Saved a month" if saved >= 0 else "More a month",
                f"{abs(saved):,.0f}{named}",
                ", ".join(filter(None, (share, "assumed prices" if summary.assumption else ""))),
                is_good=saved > 0,
            ),
        )
    )


def net_lines(answer: PlanAnswer) -> Iterator[Sentence]:
    """Yield the sum where nodes of one node group come and go, and that of the whole plan where decisions do both."""
    going = Counter(one.node_group for one in answer.response.nodes if one.fate in (*GOES, plan_pb2.NodeFate.REPLACED))
    coming = Counter(new_node.node_group for wave in answer.response.replacement.waves for new_node in wave.new_nodes)
    for split in answer.response.scale_up.splits:
        coming[split.node_group] += split.new_size - split.current_size
    for group in sorted(going.keys() & coming.keys()):
        change = coming[group] - going[group]
        net = f"{counted(abs(change), 'node')} {'more' if change > 0 else 'fewer'}" if change else "as many as now"
        yield Sentence(f"Of {group}, {going[group]:,} go and {coming[group]:,} come: {net}.")


def unpriced(answer: PlanAnswer) -> Iterator[Sentence]:
    """Yield how many nodes are in no sum of money."""
    count = answer.costs.unknown_count
    if answer.costs.is_shown and count:
        verb, them = ("has", "it") if count == 1 else ("have", "them")
        of_all = f"{count:,} of {counted(len(answer.view.nodes), 'node')}"
        yield Sentence(f"{of_all} {verb} no price: sums and shares leave {them} out.")


def every_node(answer: PlanAnswer) -> Table:
    """Return all nodes with what the plan says of each. O(nodes + pods)."""
    costs, pods = answer.costs, answer.view.rows_by_node()
    lines = []
    for one in answer.response.nodes:
        what, detail = plan_says(answer, one)
        price = f"{one.price_per_hour:,.2f}" if one.HasField("price_per_hour") else ""
        used, count = f"{round(100 * one.utilization)} %", f"{len(pods.get(one.node, ())):,}"
        code = codes_of(one) if one.reason and answer.verbose else ""
        lines.append(Line((one.node, one.node_group, price, costs.source(one.node), used, count, what, detail, code)))
    columns = ("node", "group", "an hour", "price from", "used", "pods", "plan", "because of", "code")
    words = ("node", "group", "price from", "plan", "because of", "code")
    title = f"All {counted(len(lines), 'node')}"
    return without_empty_columns(
        Table(title, columns, tuple(lines), sentences=words, is_extra=True, is_searchable=True)
    )


def plan_says(answer: PlanAnswer, verdict: plan_pb2.NodeVerdict) -> tuple[str, str]:
    """Return what the plan says of a node, and the pod or the detail that decides."""
    if verdict.fate in GOES:
        pods, when = len(answer.moves.get(verdict.node, {})), moment(answer, verdict)
        why = f": {verdict.detail or verdict.why}" if when == LATER else ""
        what = "goes now" if when == NOW else f"can go {when}{why}"
        return what, f"{counted(pods, 'pod')} to move" if pods else "empty"
    if verdict.fate == plan_pb2.NodeFate.REPLACED:
        return f"is replaced in wave {verdict.wave}", ", ".join(verdict.replaced_by)
    return f"stays: {verdict.why}" if verdict.reason else verdict.why, verdict.blocking_pod or verdict.detail


MOST_ROWS, MOST_WORKLOADS = 5, 200
"""Workloads on a terminal without `--verbose`, and on any."""


def usage_tables(answer: PlanAnswer) -> Iterator[Table]:
    """Yield the workloads with what they request and use, if that is known."""
    if answer.usage is not None:
        lines = rows([usage_cells(one) for one in by_workload(answer.view, answer.usage)[:MOST_WORKLOADS]])
        told, words = f"Usage: {usage_sentence(answer.view, answer.usage)}", USAGE_COLUMNS[:1]
        yield Table("Requests above use", USAGE_COLUMNS, lines, told, words, is_folded=True, most=MOST_ROWS)


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield a sentence for each remark."""
    for text in (*_pods(answer), *answer.response.summary.notes, *_not_asked(answer)):
        yield Sentence(f"Note: {text}", Style.MUTED)
    if answer.verbose:
        found = answer.response.diagnostics
        nodes = f"{counted(found.node_count, 'node')} in {counted(found.node_class_count, 'class')}"
        pods = f"{counted(found.pod_count, 'pod')} in {counted(found.pod_class_count, 'class')}"
        yield Sentence(f"{nodes}, {pods}.", Style.MUTED)


def _pods(answer: PlanAnswer) -> Iterator[str]:
    """Yield a sentence for each kind of pod that a reader should know about."""
    waiting = answer.view.waiting_pods()
    if waiting and not scale_up.tells_of_pods(answer.response.scale_up):
        fits = "`trimtab explain FILE fit` says what fits"
        yield f"{_are(len(waiting), 'pod')} waiting for a node ({some(waiting, 2)}); {fits}."
    unready = [node.name for node in answer.view.snapshot.nodes if not node.ready]
    if unready:
        pods = answer.view.pod_count_on(unready)
        yield f"{_are(len(unready), 'node')} not ready ({some(unready, 2)}), with {counted(pods, 'pod')}."
    unsupported = answer.response.diagnostics.unsupported_pod_count
    if unsupported:
        yield f"{counted(unsupported, 'pod')} with a constraint that this build does not support: not moved."


def _not_asked(answer: PlanAnswer) -> Iterator[str]:
    """Yield how to ask for replacement, if scale-down was asked for alone and prices of node groups are known."""
    response = answer.response
    prices = {group.price_per_hour for group in answer.view.snapshot.node_groups if group.HasField("price_per_hour")}
    if response.HasField("scale_down") and not response.HasField("replacement") and len(prices) > 1:
        yield HINT


def _are(count: int, noun: str) -> str:
    """Return "1 pod is", "2 pods are"."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"
