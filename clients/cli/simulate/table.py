"""The figures of simulations, and what is recommended, as blocks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trimtab.clients.cli.amounts import duration, percent
from trimtab.clients.cli.answers.answer import money
from trimtab.clients.cli.blocks import Block, Sentence, Style, Table, rows, without_empty_columns
from trimtab.clients.simulation.recommendation import FIGURES as LIMITED
from trimtab.clients.simulation.recommendation import Recommendation

Summary = dict[str, Any]
MOST_COLUMNS = 5
"""Most results side by side in a terminal."""
BAR = 24
"""Columns of the longest bar of the trade-off curve."""

FIGURES: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("node-hours", lambda one: f"{one['nodeHours']:,.1f}"),
    ("cost", lambda one: money(one["money"]) if one["money"] else "unknown"),
    ("time to schedule, median", lambda one: duration(one["timeToScheduleS"]["p50"])),
    ("  90 % of pods within", lambda one: duration(one["timeToScheduleS"]["p90"])),
    ("  99 % of pods within", lambda one: duration(one["timeToScheduleS"]["p99"])),
    ("  longest", lambda one: duration(one["timeToScheduleS"]["max"])),
    ("pods scheduled", lambda one: f"{one['podsScheduled']:,}"),
    ("pods pending at the end", lambda one: f"{one['podsPendingAtEnd']:,}"),
    ("gangs whole", lambda one: f"{one['gangsWhole']:,}"),
    ("  not whole at the end", lambda one: f"{one['gangsNotWholeAtEnd']:,}"),
    ("time to full gang, median", lambda one: duration(one["timeToFullGangS"]["p50"])),
    ("  90 % of gangs within", lambda one: duration(one["timeToFullGangS"]["p90"])),
    ("  longest gang", lambda one: duration(one["timeToFullGangS"]["max"])),
    ("ProvisioningRequests", lambda one: f"{one['requests']:,}"),
    ("  provisioned", lambda one: f"{one['requestsProvisioned']:,}"),
    ("  failed", lambda one: f"{one['requestsFailed']:,}"),
    ("  revoked", lambda one: f"{one['requestsRevoked']:,}"),
    ("  waiting at the end", lambda one: f"{one['requestsWaitingAtEnd']:,}"),
    ("time to provisioned, median", lambda one: duration(one["timeToProvisionedS"]["p50"])),
    ("  90 % of requests within", lambda one: duration(one["timeToProvisionedS"]["p90"])),
    ("  longest request", lambda one: duration(one["timeToProvisionedS"]["max"])),
    ("evictions", lambda one: f"{one['evictions']:,}"),
    ("  a thousand pod-hours", lambda one: f"{1000 * one['evictionsPerPodHour']:,.2f}"),
    ("  that waited for a budget", lambda one: f"{one['budgetWaits']:,}"),
    ("  waited in all", lambda one: duration(one["budgetWaitS"])),
    ("machines reclaimed", lambda one: f"{one['reclaims']:,}"),
    ("  pods on them", lambda one: f"{one['podsReclaimed']:,}"),
    ("  their successors waited", lambda one: duration(one["reclaimPendingS"])),
    ("pods preempted", lambda one: f"{one['preemptions']:,}"),
    ("  their successors waited", lambda one: duration(one["preemptionPendingS"])),
    ("cpu requested", lambda one: percent(one["cpuRequestedShare"])),
    ("memory requested", lambda one: percent(one["memoryRequestedShare"])),
    ("slack, core-hours", lambda one: f"{one['slackCpuHours']:,.1f}"),
    ("  cost", lambda one: money(one["slackMoney"]) if one["slackMoney"] else ""),
    ("  placeholders that pods took", lambda one: f"{one['slackTaken']:,}"),
    ("  cores that pods took", lambda one: f"{one['slackTakenCpu']:,.1f}"),
    ("nodes added", lambda one: f"{one['nodesAdded']:,}"),
    ("  for nothing", lambda one: f"{one['addedForNothing']:,}"),
    ("nodes removed", lambda one: f"{one['nodesRemoved']:,}"),
    ("  for nothing", lambda one: f"{one['removedForNothing']:,}"),
    ("machines that failed to start", lambda one: f"{one['startsFailed']:,}"),
    ("nodes at the end", lambda one: f"{one['nodesAtEnd']:,}"),
)

# Headings of the figures that a line has for each of many results.
MAIN_FIGURES = {
    "node-hours": "node-hours",
    "cost": "cost",
    "99 % within": "  99 % of pods within",
    "evictions": "evictions",
    "added": "nodes added",
    "removed": "nodes removed",
    "pending": "pods pending at the end",
}
_NAMES = [name for name, _ in FIGURES]
_PARTS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("gangs whole", 5, ("gangsWhole", "gangsNotWholeAtEnd")),
    ("ProvisioningRequests", 8, ("requests",)),
    ("slack, core-hours", 4, ("slackCpuHours", "slackTaken")),
    ("machines reclaimed", 3, ("reclaims",)),
    ("pods preempted", 2, ("preemptions",)),
)
"""Figures that are shown only if there is something to show: the first one, how many, and what must not be 0."""


def figures(results: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the name of each figure with its text for each result; without those of gangs, ProvisioningRequests,
    slack, reclaims and preemptions if there were none, and those that the results do not tell: a recording has fewer
    than a simulation.
    """
    hidden: set[int] = set()
    for first, count, keys in _PARTS:
        if not any(result["summary"].get(key) for result in results for key in keys):
            hidden |= set(range(_NAMES.index(first), _NAMES.index(first) + count))
    shown = [row for number, row in enumerate(FIGURES) if number not in hidden]
    return [(name, texts) for name, text in shown if (texts := _texts(text, results))]


def _texts(text: Callable[[Summary], str], results: Sequence[dict[str, Any]]) -> list[str]:
    """Return a figure of each result; none if one of them does not have it."""
    try:
        return [text(result["summary"]) for result in results]
    except KeyError:
        return []


def figures_table(results: Sequence[dict[str, Any]], note: str = "", heading: str = "") -> Table:
    """Return the figures: a column for each result; if there are many, a line for each and the main figures."""
    if len(results) <= MOST_COLUMNS:
        columns = (heading, *(one["settings"]["name"] for one in results))
        lines = [(name, *texts) for name, texts in figures(results)]
        return Table("Figures", columns, rows(lines), note, sentences=(heading,))
    text_of = dict(FIGURES)
    lines = [
        (one["settings"]["name"], *(text_of[name](one["summary"]) for name in MAIN_FIGURES.values())) for one in results
    ]
    return Table("Figures", (heading, *MAIN_FIGURES), rows(lines), note, sentences=(heading,))


def subject(result: dict[str, Any]) -> str:
    """Return the description of a simulation: name, length and seed."""
    scenario = result["scenario"]
    return f"{scenario['name']}, {duration(scenario['durationS'])}, seed {scenario['seed']}"


def recommendation(results: Sequence[dict[str, Any]], found: Recommendation) -> Iterator[Block]:
    """Yield the recommended settings with the reason, and the trade-off curve, a line for each of its settings."""
    names = [result["settings"]["name"] for result in results]
    if found.best is None:
        yield Sentence("No settings keep all limits.", Style.HEADLINE)
        yield from (Sentence(f"{name}: {_broken(found, results, index)}", indent=2) for index, name in enumerate(names))
    else:
        yield Sentence(f"Recommended: {names[found.best]}, {_point(results[found.best], found)}", Style.HEADLINE)
    most = max(_cost(results[index], found) for index in found.curve)
    lines = []
    for index in found.curve:
        bar = "█" * max(1, round(BAR * _cost(results[index], found) / most)) if most else ""
        mark = " ←" if index == found.best else ""
        lines.append((names[index], bar, f"{_point(results[index], found)}{mark}", _broken(found, results, index)))
    columns = ("settings", "cost", "figures", "outside of limits")
    note = "Cheapest first; every other setting costs more and is no better."
    yield without_empty_columns(Table("Trade-off", columns, rows(lines), note, sentences=columns))


def _cost(result: dict[str, Any], recommendation: Recommendation) -> float:
    return LIMITED[recommendation.cost].of(result["summary"])


def _point(result: dict[str, Any], recommendation: Recommendation) -> str:
    """Return the two figures of a point of the curve."""
    cost = _cost(result, recommendation)
    amount = money(cost) if recommendation.cost == "money" else f"{cost:,.1f} node-hours"
    return f"{amount}, {recommendation.by} {_value(recommendation.by, result)}"


def _value(figure: str, result: dict[str, Any]) -> str:
    value = LIMITED[figure].of(result["summary"])
    return duration(value) if LIMITED[figure].unit else f"{value:,g}"


def _broken(recommendation: Recommendation, results: Sequence[dict[str, Any]], index: int) -> str:
    """Return which limits a result violates, with its values."""
    texts = [f"{one.text} but {_value(one.figure, results[index])}" for one in recommendation.broken[index]]
    return "; ".join(texts)
