"""Advice for each of several clusters: a table over them with sums, and one of all changes, the most valuable first.

The changes of one cluster overlap, so a cluster counts in the sums with its best advice alone: several changes together
if they free more than any single one. Money of clusters without known prices is unknown and in no sum.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from trimtab.clients.advice import Advice
from trimtab.clients.cli.advise import MOST_ADVICE
from trimtab.clients.cli.amounts import counted, shown_of
from trimtab.clients.cli.answers.advice import money_cell, row_lines
from trimtab.clients.cli.output import Format, print_document, stdout_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.several_clusters import PlannedCluster, plan_each, refuse_failed
from trimtab.prices import HOURS_A_MONTH

Json = dict[str, Any]


class ClusterAdvice(NamedTuple):
    """One advice and the name of its cluster."""

    cluster: str
    advice: Advice


class AdviceTotal(NamedTuple):
    """Sums over clusters: nodes, those that can go as it is, and what the best advice of each cluster frees beyond.
    saving_per_hour : None = no price is known.
    """

    nodes: int
    base: int
    more: int
    saving_per_hour: float | None


def advise_several(options: CommandOptions, most_plans: int) -> None:
    """Print the advice on plans over several clusters. Errors: FailedError if one of them failed."""
    planned = sorted(plan_each(options, most_plans=lambda _: most_plans), key=_order)
    if options.output is not Format.TABLE:
        print_document(document(planned), options.output)
    else:
        console = stdout_console()
        for part in rendered(planned, verbose=options.verbose):
            console.print(part)
    refuse_failed(planned)


def ranked(planned: Sequence[PlannedCluster]) -> list[ClusterAdvice]:
    """Return all advice on the clusters but that on several changes together: the most valuable first, by known money,
    then by nodes.
    """
    found = [
        ClusterAdvice(one.cluster.name, advice)
        for one in planned
        if one.answer is not None and one.answer.advice is not None
        for advice in one.answer.advice.advice
    ]
    return sorted(found, key=lambda one: (*_worth(one.advice), one.cluster, one.advice.condition))


def best_of(one: PlannedCluster) -> Advice | None:
    """Return the advice that frees most in a cluster, None = there is none."""
    report = one.answer.advice if one.answer is not None else None
    if report is None:
        return None
    return report.together or next(iter(report.advice), None)


def total_of(planned: Sequence[PlannedCluster]) -> AdviceTotal:
    """Return the sums over the clusters that have a plan."""
    found = [summary for one in planned if (summary := one.summary) is not None]
    best = [advice for one in planned if (advice := best_of(one)) is not None]
    money = [one.saving_per_hour for one in best if one.saving_per_hour is not None]
    return AdviceTotal(
        sum(one.now.node_count for one in found),
        sum(one.removed_node_count for one in found),
        sum(one.node_count for one in best),
        sum(money) if money else None,
    )


def headline(sums: AdviceTotal, count: int) -> str:
    """Return the sums as sentences."""
    base = f"{sums.base:,}" if sums.base else "None"
    now = f"{base} of {counted(sums.nodes, 'node')} in {counted(count, 'cluster')} can go."
    if not sums.more and not sums.saving_per_hour:
        return f"{now} No change that was tried frees another node."
    month = "" if sums.saving_per_hour is None else f" ({sums.saving_per_hour * HOURS_A_MONTH:,.0f} a month)"
    return f"{now} With the best changes in each, {sums.more:,} more{month} could."


def rendered(planned: Sequence[PlannedCluster], *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield the sums, the table of the clusters and that of the changes."""
    count = sum(one.answer is not None for one in planned)
    yield f"[bold]{headline(total_of(planned), count)}[/bold]"
    yield ""
    yield _clusters(planned)
    every = ranked(planned)
    shown = every if verbose else every[:MOST_ADVICE]
    if shown:
        yield ""
        yield _changes(shown, len(every), verbose=verbose)
        yield "\n[dim]Each line shows what that change alone would free on top of the cluster's plan.[/dim]"
    for one in planned:
        if one.problem:
            yield f"[yellow]{escape(one.cluster.name)}: {escape(one.problem)}[/yellow]"


def _clusters(planned: Sequence[PlannedCluster]) -> Table:
    """Return a row for each cluster and the sums."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("cluster", overflow="fold")
    sums = total_of(planned)
    priced = sums.saving_per_hour is not None
    for column in ("nodes", "can go", "more with changes", *(["a month"] if priced else [])):
        table.add_column(column, justify="right", no_wrap=True)
    rows = [(one, summary, best_of(one)) for one in planned if (summary := one.summary) is not None]
    for one, summary, best in rows:
        more = f"{best.node_count:+,}" if best is not None else ""
        month = [money_cell(best) if best is not None else ""] if priced else []
        table.add_row(
            escape(one.cluster.name), f"{summary.now.node_count:,}", f"{summary.removed_node_count:,}", more, *month
        )
    if len(rows) > 1:
        month = [f"{sums.saving_per_hour * HOURS_A_MONTH:,.0f}"] if sums.saving_per_hour is not None else []
        table.add_row("all", f"{sums.nodes:,}", f"{sums.base:,}", f"{sums.more:+,}", *month, style="bold")
    return table


def _order(one: PlannedCluster) -> tuple[bool, int, float, int, str]:
    """Return the place of a cluster: that whose best advice saves most is first, those that failed are last."""
    return one.answer is None, *_worth(best_of(one)), one.cluster.name


def _worth(advice: Advice | None) -> tuple[int, float, int]:
    """Return the place of an advice among those of other clusters: known money first, the most first, then nodes."""
    if advice is None:
        return 2, 0.0, 0
    saving = advice.saving_per_hour
    return int(saving is None), -(saving or 0.0), -advice.node_count


def _changes(shown: Sequence[ClusterAdvice], count: int, *, verbose: bool) -> Table:
    """Return a row for each change, and the lines to change below it."""
    title = f"What to change{shown_of(len(shown), count)}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("cluster", overflow="fold")
    table.add_column("nodes", justify="right", no_wrap=True)
    priced = any(one.advice.saving_per_hour is not None for one in shown)
    if priced:
        table.add_column("a month", justify="right", no_wrap=True)
    table.add_column("if", overflow="fold")
    for name, advice in shown:
        month = [money_cell(advice)] if priced else []
        table.add_row(escape(name), f"{advice.node_count:+,}", *month, escape(advice.condition))
        for text in row_lines(advice, every_line=verbose):
            table.add_row(*[""] * (2 + len(month)), f"  [dim]{escape(text)}[/dim]")
    return table


def document(planned: Sequence[PlannedCluster]) -> Json:
    """Return the same for programs."""
    sums = total_of(planned)
    clusters: list[Json] = []
    for one in planned:
        report = one.answer.advice if one.answer is not None else None
        found = report.document() if report is not None else {"error": one.problem}
        clusters.append({"name": one.cluster.name, **found})
    return {
        "total": {
            "nodes": sums.nodes,
            "baseNodeCount": sums.base,
            "nodeCount": sums.more,
            "savingPerHour": sums.saving_per_hour,
            "savingPerMonth": None if sums.saving_per_hour is None else sums.saving_per_hour * HOURS_A_MONTH,
        },
        "clusters": clusters,
    }
