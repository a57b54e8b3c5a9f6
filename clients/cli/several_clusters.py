"""A plan for each of several clusters, and one table over them: sums, largest savings first. A cluster that cannot be
read is named, and the others go on; the exit code is then 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.clients.advice.advise import AdviceOptions
from trimtab.clients.advice.result import Advice
from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.advice import TITLE, change
from trimtab.clients.cli.answers.answer import PlanAnswer, assumption_of, money
from trimtab.clients.cli.answers.page import plan_page
from trimtab.clients.cli.answers.summary import key_figures
from trimtab.clients.cli.blocks import AnswerPage, Bar, Block, ChangeList, Facts, Line, Sentence, Style, Table
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.output import as_document, note
from trimtab.clients.cli.plan import CommandOptions, plan_document
from trimtab.clients.cli.planners import open_planner
from trimtab.clients.cli.printing import print_found
from trimtab.clients.cli.sources import ClusterInput
from trimtab.clients.planner_client import PlannerClient
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.rpc.errors import TrimtabError
from trimtab.prices import behind_amount
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
Codes = Sequence[plan_pb2.Decision.Code.ValueType]
MOST_ADVICE = 10
"""Changes on a terminal without `--verbose`."""


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster with its plan. answer : None = it failed, and `problem` says why."""

    cluster: ClusterInput
    answer: PlanAnswer | None
    problem: str = ""

    @property
    def summary(self) -> plan_pb2.PlanSummary | None:
        """Nodes and money of the plan."""
        return self.answer.summary if self.answer is not None else None


def plan_each(
    options: CommandOptions, decisions: Codes = (), advice: AdviceOptions | None = None
) -> list[PlannedCluster]:
    """Return a plan for each cluster, the largest savings first, then those that failed. advice : None = no advice is
    wanted. Errors: UsageError if the options themselves are wrong.
    """
    if options.state is not None:
        raise UsageError("--state belongs to one cluster; omit it, or plan each cluster alone")
    if options.usage is not None:
        raise UsageError("--usage belongs to one cluster; omit it, or plan each cluster alone")
    options.request()
    with open_planner(options.planner, options.settings) as planner:
        found = [_planned(one, decisions, planner, advice) for one in options.each()]
    return sorted(found, key=_order)


def _order(cluster: PlannedCluster) -> tuple[int, float, int, str]:
    """Return the place of a cluster: assumed money follows known money, and failures are last."""
    summary = cluster.summary
    if summary is None:
        return 2, 0.0, 0, cluster.cluster.name
    return int(bool(summary.assumption)), -summary.saved_per_month, -summary.removed_node_count, cluster.cluster.name


def _planned(
    options: CommandOptions, decisions: Codes, planner: PlannerClient, wanted: AdviceOptions | None
) -> PlannedCluster:
    (cluster,) = options.clusters
    try:
        return PlannedCluster(cluster, options.ask(decisions).plan(planner, wanted))
    except (UsageError, FailedError, InvalidInputError, TrimtabError) as error:
        note(f"{cluster.name}: left out: {error}")
        return PlannedCluster(cluster, None, str(error))


def plan_several(options: CommandOptions, decisions: Codes) -> None:
    """Print plans for several clusters. Errors: FailedError if one of them failed."""
    planned = plan_each(options, decisions)
    print_found(clusters_page(planned), options.output, lambda: document(planned), verbose=options.verbose)
    refuse_failed(planned)


def refuse_failed(planned: Sequence[PlannedCluster]) -> None:
    """Raise FailedError if a cluster failed: it has been named already."""
    failed = [one.cluster.name for one in planned if one.answer is None]
    if failed:
        raise FailedError(f"{counted(len(failed), 'cluster')} of {len(planned)} left out: {', '.join(failed)}")


def total(planned: Sequence[PlannedCluster]) -> plan_pb2.PlanSummary:
    """Return the sums over all clusters that have a plan. Known and assumed prices are never added: where some are
    known, the nodes of clusters with assumed ones count as nodes without a price.
    """
    found = [summary for one in planned if (summary := one.summary) is not None]
    is_known = any(_has_known_prices(one) for one in found)
    sums = plan_pb2.PlanSummary(assumption="" if is_known else next((one.assumption for one in found), ""))
    for one in found:
        is_priced = not is_known or _has_known_prices(one)
        for into, of in ((sums.now, one.now), (sums.after, one.after)):
            into.node_count += of.node_count
            into.unpriced_node_count += of.unpriced_node_count if is_priced or not one.assumption else of.node_count
            into.price_per_hour += of.price_per_hour * is_priced
            into.price_per_month += of.price_per_month * is_priced
        sums.removed_node_count += one.removed_node_count
        sums.added_node_count += one.added_node_count
        sums.saved_per_month += one.saved_per_month * is_priced
    return sums


def _has_known_prices(summary: plan_pb2.PlanSummary) -> bool:
    return bool(summary.now.price_per_hour) and not summary.assumption


def assumption_of_any(planned: Sequence[PlannedCluster]) -> str:
    """Return what is assumed of prices of any cluster, as a clause; "" = nothing."""
    return next((text for one in planned if one.summary is not None and (text := assumption_of(one.summary))), "")


def currency_of(planned: Sequence[PlannedCluster]) -> str:
    """Return the currency of the prices, "" = not told."""
    return next((text for one in planned if one.answer is not None and (text := one.answer.costs.currency)), "")


def headline(planned: Sequence[PlannedCluster]) -> str:
    """Return the sums as sentences."""
    sums, count, currency = total(planned), sum(one.answer is not None for one in planned), currency_of(planned)
    now, after = sums.now.price_per_hour, sums.after.price_per_hour
    share = f" ({percent((now - after) / now)})" if now else ""
    of_all = f"{counted(sums.now.node_count, 'node')} in {counted(count, 'cluster')}"
    nodes = f"{sums.removed_node_count:,} of {of_all} can go"
    added = f", {counted(sums.added_node_count, 'node')} would be added" if sums.added_node_count else ""
    named = behind_amount(currency)
    without = sums.now.unpriced_node_count
    unknown = f"; {counted(without, 'node')} without a price" if without else ""
    unknown += f" ({assumption_of(sums)})" if sums.assumption else ""
    about = "about " if sums.assumption else ""
    monthly = sums.saved_per_month
    if monthly < 0:
        costs = f"That costs {about}{money(after - now)}{named} an hour more ({money(now)} → {money(after)})"
        return f"{nodes}{added}. {costs}, {-monthly:,.0f} a month{unknown}."
    saved = f"That saves {about}{money(now - after)} of {money(now)}{named} an hour{share}"
    return f"{nodes}{added}. {saved}, {monthly:,.0f} a month{unknown}."


def clusters_page(planned: Sequence[PlannedCluster], *, with_pictures: bool = False) -> AnswerPage:
    """Return the page of several clusters: sums, what each could save, what to change, and the page of each."""
    count = sum(one.answer is not None for one in planned)
    blocks: list[Block] = [Sentence(headline(planned), Style.HEADLINE)]
    parts = tuple(
        plan_page(one.answer, one.cluster.name, with_pictures=with_pictures)
        for one in planned
        if one.answer is not None
    )
    if with_pictures:
        every = [[text for block in part.blocks if isinstance(block, Facts) for text in block.texts] for part in parts]
        shared = tuple(text for text in (every or [[]])[0] if all(text in texts for texts in every))
        blocks = [Facts(shared), key_figures(total(planned), currency_of(planned)), *blocks]
    blocks.append(clusters_table(planned))
    if assumption := assumption_of_any(planned):
        blocks.append(Sentence(f"* {assumption}", Style.MUTED))
    blocks += [
        Sentence(f"{one.cluster.name}: {one.answer.costs.sources}", Style.MUTED)
        for one in planned
        if one.answer is not None and one.answer.costs.known and one.answer.costs.sources
    ]
    blocks += problems(planned)
    blocks.append(clusters_advice(planned))
    title = f"{counted(count, 'cluster')}: what they need, and what they can do without"
    return AnswerPage(title, tuple(blocks), parts)


def problems(planned: Sequence[PlannedCluster]) -> list[Sentence]:
    """Return why clusters are left out."""
    return [Sentence(f"{one.cluster.name}: {one.problem}", Style.WARNING) for one in planned if one.problem]


def ranked(planned: Sequence[PlannedCluster]) -> list[tuple[str, Advice]]:
    """Return all advice on the clusters but that on several changes together, with the cluster: the most valuable
    first, by known money, then by nodes.
    """
    found = [
        (one.cluster.name, advice)
        for one in planned
        if one.answer is not None and one.answer.advice is not None
        for advice in one.answer.advice.advice
    ]
    return sorted(found, key=lambda one: (*worth(one[1]), one[0], one[1].condition))


def worth(advice: Advice | None) -> tuple[int, float, int]:
    """Return the place of an advice among those of other clusters: known money first, the most first, then nodes."""
    if advice is None:
        return 2, 0.0, 0
    saving = advice.saving_per_hour
    return int(saving is None), -(saving or 0.0), -advice.node_count


def clusters_advice(planned: Sequence[PlannedCluster]) -> ChangeList:
    """Return the advice on several clusters, the most valuable first."""
    note = "Each line shows what that change alone would free on top of the cluster's plan."
    changes = [change(one, currency_of(planned), name) for name, one in ranked(planned)]
    return ChangeList(TITLE, note, tuple(changes), most=MOST_ADVICE)


def clusters_table(planned: Sequence[PlannedCluster]) -> Table:
    """Return a row for each cluster that has a plan, and the sums of several."""
    found = [(one.cluster.name, summary) for one in planned if (summary := one.summary) is not None]
    longest = max((summary.saved_per_month for _, summary in found), default=0.0) or 1.0
    lines = [Line((name, *_cells(one)), bar=_bar(name, one, longest)) for name, one in found]
    if len(lines) > 1:
        lines.append(Line(("all", *_cells(total(planned)))))
    columns = ("cluster", "nodes", "can go", "added", "an hour", "after", "saved a month", "share")
    bars = "What each cluster saves a month"
    return Table("Clusters", columns, tuple(lines), sentences=columns[:1], bars=bars)


def _bar(name: str, summary: plan_pb2.PlanSummary, longest: float) -> Bar:
    """Return what a cluster saves; the bar of one that costs more is empty."""
    text = f"{name}: {summary.removed_node_count:,} of {counted(summary.now.node_count, 'node')}"
    value = f"{summary.saved_per_month:,.0f}{'*' if summary.assumption else ''}"
    return Bar(text, value, max(0.0, summary.saved_per_month) / longest)


def _cells(plan_summary: plan_pb2.PlanSummary) -> tuple[str, ...]:
    now, after = plan_summary.now.price_per_hour, plan_summary.after.price_per_hour
    return (
        f"{plan_summary.now.node_count:,}",
        f"{plan_summary.removed_node_count:,}",
        f"{plan_summary.added_node_count:,}" if plan_summary.added_node_count else "",
        f"{money(now)}{'*' if plan_summary.assumption else ''}",
        money(after),
        f"{plan_summary.saved_per_month:,.0f}",
        percent((now - after) / now) if now else "",
    )


def document(planned: Sequence[PlannedCluster]) -> Json:
    """Return plans and their sums for programs."""
    clusters: list[Json] = []
    for one in planned:
        if one.answer is None:
            clusters.append({"name": one.cluster.name, "error": one.problem})
        else:
            costs = one.answer.costs
            told = {"currency": costs.currency, "priceSources": costs.sources}
            clusters.append({"name": one.cluster.name, **told, "plan": plan_document(one.answer)})
    return {"total": as_document(total(planned)), "currency": currency_of(planned), "clusters": clusters}
