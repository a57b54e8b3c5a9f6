"""`trimtab advise FILE…`: make a plan of each cluster, then say what to change so that more nodes could go. Several
clusters share a table with sums, and one of all changes.

The changes of one cluster overlap, so a cluster counts in the sums with its best advice alone: several changes together
if they free more than any single one. Money of clusters without known prices is unknown and in no sum.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from trimtab.clients.advice.result import MOST_PLANS, Advice
from trimtab.clients.cli.advice import advice_options
from trimtab.clients.cli.amounts import counted
from trimtab.clients.cli.answers.advice import changes_of
from trimtab.clients.cli.answers.scale_down import headline
from trimtab.clients.cli.blocks import AnswerPage, Block, Sentence, Style, Table, rows, without_empty_columns
from trimtab.clients.cli.output import note
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.printing import print_found
from trimtab.clients.cli.several_clusters import (
    MOST_ADVICE,
    PlannedCluster,
    clusters_advice,
    currency_of,
    plan_each,
    problems,
    refuse_failed,
    worth,
)
from trimtab.prices import HOURS_A_MONTH, behind_amount

Json = dict[str, Any]
NOTHING = "No change that was tried frees another node."


def advise(options: CommandOptions, most_plans: int = MOST_PLANS) -> None:
    """Print the advice on a plan over the cluster, or over several. Errors: FailedError if one of several failed."""
    if len(options.clusters) > 1:
        planned = sorted(plan_each(options, advice=advice_options(most_plans=most_plans)), key=_order)
        found = _clusters_page(planned)
        print_found(found, options.output, lambda: document(planned), verbose=options.verbose)
        refuse_failed(planned)
        return
    asked = options.ask()
    with open_planner(options.planner, options.settings) as planner:
        shown = asked.plan(planner, advice_options(asked.usage, most_plans))
    report = shown.advice
    assert report is not None, "it was asked for"
    for text in shown.summary.notes:
        note(text)
    changes = changes_of(shown, MOST_ADVICE)
    if report.left_out_count:
        left = f"{counted(report.left_out_count, 'blocker')} not tried: --most-plans."
        changes = changes._replace(note=f"{changes.note.partition(').')[0]}). {left}")
    nothing = (Sentence(NOTHING, Style.HEADLINE), Sentence(changes.note, Style.MUTED))
    blocks: tuple[Block, ...] = (changes,) if changes.changes else nothing
    page = AnswerPage("Advice", (Sentence(headline(shown), Style.HEADLINE), *blocks))
    print_found(page, options.output, report.document, verbose=options.verbose)


class AdviceTotal(NamedTuple):
    """Sums over clusters: nodes, those that can go as it is, and what the best advice of each cluster frees beyond.
    saving_per_hour : None = no price is known.
    """

    nodes: int
    base: int
    more: int
    saving_per_hour: float | None


def best_of(cluster: PlannedCluster) -> Advice | None:
    """Return the advice that frees most in a cluster, None = there is none."""
    report = cluster.answer.advice if cluster.answer is not None else None
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


def _clusters_page(planned: Sequence[PlannedCluster]) -> AnswerPage:
    """Return the sums, the table of the clusters and that of the changes."""
    count = sum(one.answer is not None for one in planned)
    headline = Sentence(_sums(total_of(planned), count, currency_of(planned)), Style.HEADLINE)
    return AnswerPage("Advice", (headline, _clusters_table(planned), clusters_advice(planned), *problems(planned)))


def _sums(sums: AdviceTotal, count: int, currency: str) -> str:
    """Return the sums as sentences."""
    base = f"{sums.base:,}" if sums.base else "None"
    now = f"{base} of {counted(sums.nodes, 'node')} in {counted(count, 'cluster')} can go."
    if not sums.more and not sums.saving_per_hour:
        return f"{now} {NOTHING}"
    named = behind_amount(currency)
    month = "" if sums.saving_per_hour is None else f" ({sums.saving_per_hour * HOURS_A_MONTH:,.0f}{named} a month)"
    return f"{now} With the best changes in each, {sums.more:,} more{month} could."


def _clusters_table(planned: Sequence[PlannedCluster]) -> Table:
    """Return a row for each cluster and the sums."""
    lines = []
    for one in planned:
        summary, best = one.summary, best_of(one)
        if summary is not None:
            counts = f"{summary.now.node_count:,}", f"{summary.removed_node_count:,}"
            month = best.saving_per_month if best is not None else None
            more = f"{best.node_count:+,}" if best is not None else ""
            lines.append((one.cluster.name, *counts, more, f"{month:,.0f}" if month is not None else ""))
    if len(lines) > 1:
        sums = total_of(planned)
        month = sums.saving_per_hour * HOURS_A_MONTH if sums.saving_per_hour is not None else None
        money = f"{month:,.0f}" if month is not None else ""
        lines.append(("all", f"{sums.nodes:,}", f"{sums.base:,}", f"{sums.more:+,}", money))
    columns = ("cluster", "nodes", "can go", "more with changes", "a month")
    return without_empty_columns(Table("Clusters", columns, rows(lines), sentences=columns[:1]))


def _order(cluster: PlannedCluster) -> tuple[bool, int, float, int, str]:
    """Return the place of a cluster: that whose best advice saves most is first, those that failed are last."""
    return cluster.answer is None, *worth(best_of(cluster)), cluster.cluster.name


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
