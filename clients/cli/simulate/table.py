"""The figures of simulations side by side, as a table."""

from collections.abc import Callable, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from clients.cli.amounts import duration
from clients.cli.answers.costs import money

Summary = dict[str, Any]

FIGURES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("node-hours", lambda one: f"{one['nodeHours']:,.1f}"),
    ("cost", lambda one: money(one["money"]) if one["money"] else "unknown"),
    ("time to schedule, median", lambda one: duration(one["timeToScheduleS"]["p50"])),
    ("  90 % of pods within", lambda one: duration(one["timeToScheduleS"]["p90"])),
    ("  99 % of pods within", lambda one: duration(one["timeToScheduleS"]["p99"])),
    ("  longest", lambda one: duration(one["timeToScheduleS"]["max"])),
    ("pods scheduled", lambda one: f"{one['podsScheduled']:,}"),
    ("pods pending at the end", lambda one: f"{one['podsPendingAtEnd']:,}"),
    ("evictions", lambda one: f"{one['evictions']:,}"),
    ("nodes added", lambda one: f"{one['nodesAdded']:,}"),
    ("  for nothing", lambda one: f"{one['addedForNothing']:,}"),
    ("nodes removed", lambda one: f"{one['nodesRemoved']:,}"),
    ("  for nothing", lambda one: f"{one['removedForNothing']:,}"),
    ("machines that failed to start", lambda one: f"{one['startsFailed']:,}"),
    ("nodes at the end", lambda one: f"{one['nodesAtEnd']:,}"),
)


def comparison(results: Sequence[dict[str, Any]]) -> Table:
    """Return a table with a column for each result."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(escape(subject(results[0])), no_wrap=True)
    for result in results:
        table.add_column(escape(result["settings"]["name"]), justify="right")
    for name, text in FIGURES:
        table.add_row(name, *(text(result["summary"]) for result in results))
    return table


def subject(result: dict[str, Any]) -> str:
    """Return what was simulated: name, length and seed."""
    scenario = result["scenario"]
    return f"{scenario['name']}, {duration(scenario['durationS'])}, seed {scenario['seed']}"
