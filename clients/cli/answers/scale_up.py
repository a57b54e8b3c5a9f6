"""Scale-up as people read it: which node groups grow, for how many pods, what that costs, and what stays pending."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from trimtab.v1 import plan_pb2, reason_pb2

from clients.cli.amounts import counted, some
from clients.cli.answers.answer import Answer
from clients.cli.answers.costs import HOURS_A_MONTH, money

_Result = reason_pb2.ScaleUpResult
RESULTS = {
    _Result.UNSPECIFIED: "nothing was decided",
    _Result.SCALE_UP_NEEDED: "node groups grow",
    _Result.SCALE_UP_NOT_TRIED: "switched off",
    _Result.SCALE_UP_NOT_NEEDED: "no pod needs a new node",
    _Result.SCALE_UP_NO_OPTIONS: "pods have no place, and no node group can grow for them",
    _Result.SCALE_UP_ERROR: "the cluster cannot be decided about",
}


def render(answer: Answer) -> Iterator[RenderableType]:
    """Yield the outcome, the node groups that grow, and the pods that stay pending."""
    decision = answer.response.scale_up
    detail = f": {escape(decision.detail)}" if decision.detail else ""
    yield f"[bold]Scale-up:[/bold] {RESULTS[decision.result]}{_price(decision.price_per_hour)}{detail}"
    if decision.splits:
        yield _growth(decision)
    for where, pods in (("on nodes that exist", decision.on_existing), ("on nodes to come", decision.on_upcoming)):
        if pods:
            yield f"  {counted(len(pods), 'pending pod')} {'fits' if len(pods) == 1 else 'fit'} {where}"
    if decision.unschedulable:
        yield _pending(decision, every=answer.verbose)


def _price(an_hour: float) -> str:
    return f", for {money(an_hour)} an hour, {money(HOURS_A_MONTH * an_hour)} a month" if an_hour else ""


def _growth(decision: plan_pb2.ScaleUpDecision) -> Table:
    """Return a row for each node group that grows."""
    table = _table("node group", "nodes", "maximum", "pods", "price an hour", "for")
    for split in decision.splits:
        sizes = f"{split.current_size:,} → {split.new_size:,}"
        price = money(split.price_per_hour) if split.price_per_hour else ""
        pods = f"{len(split.pods):,}"
        table.add_row(escape(split.node_group), sizes, f"{split.max_size:,}", pods, price, escape(some(split.pods)))
    return table


def _pending(decision: plan_pb2.ScaleUpDecision, every: bool) -> Table:
    """Return a row for each reason for which pods stay pending; `every`: with all of their names."""
    by_reason: dict[str, list[str]] = {}
    for one in decision.unschedulable:
        by_reason.setdefault(one.detail, []).append(one.pod)
    table = _table("stays pending", "pods", "why")
    for why, pods in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[1])):
        shown = ", ".join(pods) if every else some(pods)
        table.add_row(escape(shown), f"{len(pods):,}", escape(why))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in {"nodes", "maximum", "pods", "price an hour"} else "left")
    return table
