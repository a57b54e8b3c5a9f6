"""A plan for each of several clusters, and one table over them: sums, largest savings first. A cluster that cannot be
read is named, and the others go on; the exit code is then 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from trimtab.clients.cli.advice import advice_options, find_advice
from trimtab.clients.cli.amounts import counted, percent
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.costs import Costs, money
from trimtab.clients.cli.answers.savings import Savings, savings_of
from trimtab.clients.cli.clusters import ClusterInput
from trimtab.clients.cli.decisions import default_decisions
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.output import Format, as_document, note, print_document, stdout_console
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.planners import PlannerAccess, open_planner
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.rpc.errors import ServiceError, TrimtabError
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2

Json = dict[str, Any]
Codes = Sequence[plan_pb2.Decision.Code.ValueType]


@dataclass(frozen=True)
class PlannedCluster:
    """A cluster with its plan. answer : None = it failed, and `problem` says why."""

    cluster: ClusterInput
    answer: PlanAnswer | None
    problem: str = ""

    @cached_property
    def savings(self) -> Savings | None:
        """The figures of the plan."""
        return savings_of(self.answer) if self.answer is not None else None


def plan_each(
    options: CommandOptions, decisions: Codes = (), most_plans: Callable[[int], int] | None = None
) -> list[PlannedCluster]:
    """Return a plan for each cluster, the largest savings first, then those that failed. most_plans : returns how many
    plans the advice on a cluster of so many nodes may make, None = no advice is wanted. Errors: UsageError if the
    options themselves are wrong.
    """
    if options.state is not None:
        raise UsageError("--state belongs to one cluster; omit it, or plan each cluster alone")
    if options.usage is not None:
        raise UsageError("--usage belongs to one cluster; omit it, or plan each cluster alone")
    options.request()
    with open_planner(options.planner, options.settings) as planner:
        found = [_planned(one, decisions, planner, most_plans) for one in options.each()]
    return sorted(found, key=_order)


def _order(one: PlannedCluster) -> tuple[int, float, int, str]:
    """Return the place of a cluster: assumed money follows known money, and failures are last."""
    figures = one.savings
    if figures is None:
        return 2, 0.0, 0, one.cluster.name
    return int(bool(figures.assumption)), -figures.saved_a_month, -figures.removed, one.cluster.name


def _planned(
    options: CommandOptions, decisions: Codes, planner: PlannerAccess, most_plans: Callable[[int], int] | None
) -> PlannedCluster:
    (cluster,) = options.clusters
    advice = None
    try:
        request = options.request()
        request.decisions.extend(decisions)
        snapshot = options.cluster(request)
        if not decisions:
            request.decisions.extend(default_decisions(request.settings, snapshot))
        response = planner.plan(snapshot, request)
        view = ClusterView(snapshot)
        if most_plans is not None:
            prices, most = Costs(view, options.prices_of_file).by_node, most_plans(len(view.nodes))
            advice = find_advice(planner, view, request, response, advice_options(prices, most))
    except (UsageError, FailedError, InvalidInputError, TrimtabError, ServiceError) as error:
        note(f"{cluster.name}: left out: {error}")
        return PlannedCluster(cluster, None, str(error))
    now_ns, prices_of_file = request.now.ToNanoseconds(), options.prices_of_file
    answer = PlanAnswer(response, view, request.settings, now_ns, options.verbose, prices_of_file, advice=advice)
    return PlannedCluster(cluster, answer)


def plan_several(options: CommandOptions, decisions: Codes) -> None:
    """Print plans for several clusters. Errors: FailedError if one of them failed."""
    planned = plan_each(options, decisions)
    if options.output is Format.TABLE:
        console = stdout_console()
        for part in rendered(planned):
            console.print(part)
    else:
        print_document(document(planned), options.output)
    refuse_failed(planned)


def refuse_failed(planned: Sequence[PlannedCluster]) -> None:
    """Raise FailedError if a cluster failed: it has been named already."""
    failed = [one.cluster.name for one in planned if one.answer is None]
    if failed:
        raise FailedError(f"{counted(len(failed), 'cluster')} of {len(planned)} left out: {', '.join(failed)}")


def total(planned: Sequence[PlannedCluster]) -> Savings:
    """Return the sums over all clusters that have a plan. Known and assumed prices are never added: where some are
    known, the nodes of clusters with assumed ones count as nodes without a price.
    """
    found = [figures for one in planned if (figures := one.savings) is not None]
    known = [one for one in found if one.now and not one.assumption]
    priced = known or found
    return Savings(
        nodes=sum(one.nodes for one in found),
        removed=sum(one.removed for one in found),
        added=sum(one.added for one in found),
        now=sum(one.now for one in priced),
        after=sum(one.after for one in priced),
        without_price=sum(one.nodes if known and one.assumption else one.without_price for one in found),
        assumption="" if known else assumption_of(planned),
        currency=next((one.currency for one in found if one.currency), ""),
    )


def assumption_of(planned: Sequence[PlannedCluster]) -> str:
    """Return what is assumed of prices of any cluster, as a clause; "" = nothing."""
    return next((figures.assumption for one in planned if (figures := one.savings) and figures.assumption), "")


def headline(sums: Savings, count: int) -> str:
    """Return the sums as sentences."""
    share = f" ({percent((sums.now - sums.after) / sums.now)})" if sums.now else ""
    nodes = f"{sums.removed:,} of {counted(sums.nodes, 'node')} in {counted(count, 'cluster')} can go"
    added = f", {counted(sums.added, 'node')} would be added" if sums.added else ""
    named = f" {sums.currency}" if sums.currency else ""
    unknown = f"; {counted(sums.without_price, 'node')} without a price" if sums.without_price else ""
    unknown += f" ({sums.assumption})" if sums.assumption else ""
    about = "about " if sums.assumption else ""
    hourly, monthly = sums.now - sums.after, sums.saved_a_month
    if hourly < 0:
        costs = f"That costs {about}{money(-hourly)}{named} an hour more ({money(sums.now)} → {money(sums.after)})"
        return f"{nodes}{added}. {costs}, {-monthly:,.0f} a month{unknown}."
    saved = f"That saves {about}{money(hourly)} of {money(sums.now)}{named} an hour{share}"
    return f"{nodes}{added}. {saved}, {monthly:,.0f} a month{unknown}."


def rendered(planned: Sequence[PlannedCluster]) -> list[RenderableType]:
    """Return the sums and the table."""
    sums, count = total(planned), sum(one.answer is not None for one in planned)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("cluster", overflow="fold")
    for column in ("nodes", "can go", "added", "an hour", "after", "saved a month", "share"):
        table.add_column(column, justify="right", no_wrap=True)
    for one in planned:
        figures = one.savings
        if figures is not None:
            mark = "*" if figures.assumption else ""
            table.add_row(escape(one.cluster.name), *_cells(figures, mark))
    if count > 1:
        table.add_row("all", *_cells(sums, "*" if sums.assumption else ""), style="bold")
    lines: list[RenderableType] = [f"[bold]{headline(sums, count)}[/bold]", "", table]
    assumption = assumption_of(planned)
    if assumption:
        lines.append(f"[dim]* {escape(assumption)}[/dim]")
    for one in planned:
        if one.answer is not None and one.answer.costs.known and one.answer.costs.sources:
            lines.append(f"[dim]{escape(one.cluster.name)}: {escape(one.answer.costs.sources)}[/dim]")
    lines += [f"[yellow]{escape(one.cluster.name)}: {escape(one.problem)}[/yellow]" for one in planned if one.problem]
    return lines


def _cells(one: Savings, mark: str) -> tuple[str, ...]:
    share = percent((one.now - one.after) / one.now) if one.now else ""
    return (
        f"{one.nodes:,}",
        f"{one.removed:,}",
        f"{one.added:,}" if one.added else "",
        f"{money(one.now)}{mark}",
        money(one.after),
        f"{one.saved_a_month:,.0f}",
        share,
    )


def document(planned: Sequence[PlannedCluster]) -> Json:
    """Return plans and figures for programs."""
    clusters = []
    for one in planned:
        row: Json = {"name": one.cluster.name}
        figures = one.savings
        if one.answer is None or figures is None:
            row["error"] = one.problem
        else:
            one.answer.response.diagnostics.ClearField("stages")
            row |= {
                **_figures(figures),
                "priceSources": one.answer.costs.sources,
                "plan": as_document(one.answer.response),
            }
        clusters.append(row)
    return {"total": _figures(total(planned)), "clusters": clusters}


def _figures(one: Savings) -> Json:
    return {
        "nodes": one.nodes,
        "removed": one.removed,
        "added": one.added,
        "pricePerHour": round(one.now, 6),
        "pricePerHourAfter": round(one.after, 6),
        "savedPerMonth": round(one.saved_a_month, 2),
        "hoursPerMonth": HOURS_A_MONTH,
        "nodesWithoutPrice": one.without_price,
        "assumption": one.assumption,
        "currency": one.currency,
    }
