"""The part of a cluster's page on replacement: what the cluster costs before and after, the waves, the plans from
careful to bold as a table and as a chart, and what keeps the other nodes. Shows what `trimtab plan` prints.
"""

from collections.abc import Iterator

from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.costs import money
from trimtab.clients.cli.answers.replacement import amounts, before_per_hour, tables, unpriced
from trimtab.clients.cli.blocks import Line, Table
from trimtab.clients.cli.report.charts import finished
from trimtab.clients.cli.report.page import COLORS, Chart
from trimtab.clients.cli.report.plot import PlotFigure
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2


def replacement_tables(answer: PlanAnswer) -> Iterator[Table]:
    """Yield the tables: money, waves, plans from careful to bold, what keeps nodes; none if it was not asked for."""
    if not answer.response.HasField("replacement"):
        return
    yield Table("Replacement", ("", "an hour", "a month"), _money(answer), " ".join(_note(answer)))
    yield from tables(answer)


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


def _money(answer: PlanAnswer) -> tuple[Line, ...]:
    return tuple(Line((text, money(hour), f"{hour * HOURS_A_MONTH:,.0f}")) for text, hour in amounts(answer))


def _note(answer: PlanAnswer) -> Iterator[str]:
    """Yield the sentences above the money."""
    decision = answer.response.replacement
    if decision.incomplete:
        yield "The search ended with its time or its bound; a later plan may save more."
    if text := unpriced(answer):
        yield text
