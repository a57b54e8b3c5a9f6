"""The part of a cluster's page on replacement: what the cluster costs before and after, the waves, the plans from
careful to bold as a table and as a chart, and what keeps the other nodes. Shows what `trimtab plan` prints.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.costs import money
from trimtab.clients.cli.answers.replacement import (
    FRONTIER_COLUMNS,
    WAVE_COLUMNS,
    amounts,
    before_per_hour,
    frontier_rows,
    kept_by_reason,
    unpriced,
    wave_rows,
)
from trimtab.clients.cli.report.charts import finished
from trimtab.clients.cli.report.page import COLORS, Chart, Line, Table
from trimtab.clients.cli.report.plot import PlotFigure
from trimtab.places import moves_by_node
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2

MOST_NODES: Final = 200
"""Nodes of a wave, or of a reason, that a click shows."""
WAVES_NOTE: Final = (
    "The new nodes of a wave are ready before its first pod is evicted; a wave begins when the pods of the wave before "
    "run again."
)


def replacement_tables(answer: PlanAnswer) -> Iterator[Table]:
    """Yield the tables: money, waves, plans from careful to bold, what keeps nodes; none if it was not asked for."""
    decision = answer.response.replacement
    if not answer.response.HasField("replacement"):
        return
    yield Table("Replacement", ("", "an hour", "a month"), _money(answer), " ".join(_note(answer)))
    yield Table("Waves of replacement", WAVE_COLUMNS, _waves(answer), WAVES_NOTE, sentences=(WAVE_COLUMNS[1],))
    plans = tuple(map(Line, frontier_rows(decision)))
    yield Table("Replacement from careful to bold", FRONTIER_COLUMNS, plans, sentences=(FRONTIER_COLUMNS[-1],))
    columns = ("", "nodes", "an hour at most")
    note = "What replacing each node alone would save at most, if the condition were lifted."
    yield Table("What keeps nodes from being replaced", columns, tuple(_kept(answer.response)), note, is_folded=True)


def frontier_chart(answer: PlanAnswer) -> Chart | None:
    """Return what the cluster costs an hour over the pods that each plan moves, None = there are no plans."""
    decision = answer.response.replacement
    if not decision.frontier:
        return None
    figures, before = answer.figures(plan_pb2.Decision.REPLACEMENT), before_per_hour(answer)
    plans = [(one.evicted_pod_count, round(before - one.saving_per_hour, 4)) for one in decision.frontier]
    texts = [f"{one.leaving_node_count} leave, {one.new_node_count} come" for one in decision.frontier]
    figure, bound = PlotFigure(), round(before - figures.most_saved_per_hour, 4)
    points = [(0, round(before, 4)), *plans]
    figure.add_scatter(
        x=[x for x, _ in points], y=[y for _, y in points], name="plans", mode="lines", line={"color": COLORS[0]}
    )
    for name, symbol, size in (("other plans", "circle", 9), ("chosen", "star", 16)):
        found = [
            (plan, text)
            for plan, text, one in zip(plans, texts, decision.frontier, strict=True)
            if one.chosen == (name == "chosen")
        ]
        if found:
            figure.add_scatter(
                x=[plan[0] for plan, _ in found],
                y=[plan[1] for plan, _ in found],
                text=[text for _, text in found],
                name=name,
                mode="markers",
                hovertemplate="%{text}<extra></extra>",
                marker={"symbol": symbol, "color": COLORS[2 if name == "chosen" else 1], "size": size},
            )
    if figures.HasField("most_saved_per_hour"):
        line = {"color": COLORS[4], "dash": "dot"}
        figure.add_scatter(x=[0, points[-1][0]], y=[bound, bound], name="no cluster below", mode="lines", line=line)
    told = "; ".join(f"{money(cost)} with {pods:,} pods moved" for pods, cost in points)
    title = "What replacement saves for how many moves"
    return Chart(title, f"Cost of an hour: {told}.", finished(figure, "cost of an hour", "pods moved"))


def _by(moves: Mapping[str, str]) -> str:
    """Return which nodes take the pods of a node. moves : by pod."""
    places = Counter(sorted(moves.values())).most_common(3)
    return ", ".join(f"{to} ({count})" for to, count in places) or "no pods to move"


def _money(answer: PlanAnswer) -> tuple[Line, ...]:
    return tuple(Line((text, money(hour), f"{hour * HOURS_A_MONTH:,.0f}")) for text, hour in amounts(answer))


def _note(answer: PlanAnswer) -> Iterator[str]:
    """Yield the sentences above the money."""
    decision = answer.response.replacement
    if decision.incomplete:
        yield "The search ended with its time or its bound; a later plan may save more."
    if text := unpriced(answer):
        yield text


def _waves(answer: PlanAnswer) -> tuple[Line, ...]:
    """Return a row for each wave; a click shows its nodes."""
    decision = answer.response.replacement
    return tuple(
        Line((f"wave {row[0]}", *row[1:2], f"{len(wave.leaving):,}", *row[3:]), tuple(_moves(wave)))
        for row, wave in zip(wave_rows(answer), decision.waves, strict=True)
    )


def _moves(wave: plan_pb2.ReplacementWave) -> Iterator[str]:
    moves = moves_by_node(wave.places)
    for one in wave.leaving[:MOST_NODES]:
        yield f"{one.node} at {money(one.price_per_hour)} → {_by(moves.get(one.node, {}))}"
    if len(wave.leaving) > MOST_NODES:
        yield f"and {len(wave.leaving) - MOST_NODES:,} more"


def _kept(answer: plan_pb2.PlanResponse) -> Iterator[Line]:
    for kept in kept_by_reason(answer):
        more = tuple(
            f"{node}: {money(one.saving_per_hour)}{f', {one.blocking_pod}' if one.blocking_pod else ''}"
            for node, one in ((node.node, node.not_replaced) for node in kept.nodes[:MOST_NODES])
        )
        yield Line((kept.why, f"{len(kept.nodes):,}", money(kept.saving_per_hour)), more)
