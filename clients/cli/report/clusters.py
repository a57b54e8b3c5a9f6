"""The page of several clusters: sums, what each could save, and the page of each, folded. The largest savings first."""

from collections.abc import Sequence

from trimtab.clients.cli.advise_several import ranked
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.blocks import Line, Table
from trimtab.clients.cli.report.advice import clusters_advice
from trimtab.clients.cli.report.cluster import cluster_page
from trimtab.clients.cli.report.first_screen import key_figures
from trimtab.clients.cli.report.page import BarLine, Bars, ReportPage
from trimtab.clients.cli.several_clusters import (
    PlannedCluster,
    assumption_of_any,
    clusters_table,
    currency_of,
    headline,
    total,
)


def clusters_page(planned: Sequence[PlannedCluster], title: str = "") -> ReportPage:
    """Return the page. Clusters without a plan are listed with their problem."""
    sums, count = total(planned), sum(one.answer is not None for one in planned)
    parts = [cluster_page(one.answer, one.cluster.name) for one in planned if one.answer is not None]
    problems = tuple(Line((one.cluster.name, one.problem)) for one in planned if one.problem)
    return ReportPage(
        title=title or f"{counted(count, 'cluster')}: what they need, and what they can do without",
        headline=headline(planned),
        tables=[
            clusters_table(planned)._replace(title="Clusters"),
            Table("Clusters that are left out", ("cluster", "because"), problems, sentences=("because",)),
        ],
        facts=_shared_facts(parts, assumption_of_any(planned)),
        figures=key_figures(sums, currency_of(planned)),
        bars=_bars(planned),
        advice=clusters_advice(ranked(planned)),
        parts=parts,
    )


def _shared_facts(parts: Sequence[ReportPage], assumption: str) -> list[str]:
    """Return the facts that hold for all clusters."""
    shared = [fact for fact in parts[0].facts if all(fact in part.facts for part in parts)] if parts else []
    return [*shared, *([f"* Prices {assumption}"] if assumption and len(parts) > 1 else [])]


def _bars(planned: Sequence[PlannedCluster]) -> Bars:
    """Return what each cluster saves; one that costs more has no bar."""
    found = [(one.cluster.name, summary) for one in planned if (summary := one.summary) is not None]
    longest = max((summary.saved_per_month for _, summary in found), default=0.0) or 1.0
    lines = tuple(
        BarLine(
            f"{name}: {summary.removed_node_count:,} of {counted(summary.now.node_count, 'node')}",
            f"{summary.saved_per_month:,.0f}{'*' if summary.assumption else ''}",
            max(0.0, summary.saved_per_month) / longest,
        )
        for name, summary in found
    )
    return Bars("What each cluster saves a month", "", lines, shown=10)
