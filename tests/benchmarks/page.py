"""The page of figures: a table of scenarios and stages, aims met or missed, and how reliable the figures are."""

import os
import platform
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.benchmarks.registry import SCENARIOS, Result, Scenario

STAGES = ("read", "encode", "transfer", "decode", "columns", "classes", "simulate", "answer", "total")
"""Columns of the table, in the order in which a request passes them; other stages follow as notes."""


def print_page(results: Sequence[Result], console: Console) -> None:
    """Print all results as one table."""
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}; times are medians in ms, "
        "[green]green[/green] meets its aim, [red]red[/red] misses it. The clusters are synthetic "
        "(clients/cluster_generator) unless called recorded; the loop over gRPC is on loopback.\n"
    )
    table = Table(show_lines=True)
    table.add_column("scenario")
    shown = [name for name in STAGES if any(name in result.seconds for result in results)]
    for name in shown:
        table.add_column(name, justify="right")
    table.add_column("peak MiB", justify="right")
    table.add_column("beside it")
    for result in results:
        chosen = SCENARIOS[result.scenario]
        cells = [_time(chosen, result, name) for name in shown]
        table.add_row(
            f"{chosen.name}\n[dim]{chosen.what}[/dim]", *cells, _peak(chosen, result), _beside(chosen, result)
        )
    console.print(table)


def missed(results: Sequence[Result]) -> list[str]:
    """Return the aims that were missed."""
    return [
        f"{result.scenario}: {name} {_value(result, name) * 1000:.0f} ms, aim {aim * 1000:.0f} ms"
        if name != "peak"
        else f"{result.scenario}: peak {result.peak_bytes >> 20} MiB, aim {int(aim) >> 20} MiB"
        for result in results
        for name, aim in SCENARIOS[result.scenario].aims.items()
        if _value(result, name) > aim
    ]


def _value(result: Result, name: str) -> float:
    """A figure that an aim is for."""
    return result.peak_bytes if name == "peak" else result.seconds.get(name, 0.0)


def _coloured(text: str, chosen: Scenario, result: Result, name: str) -> str:
    """Colour a figure by its aim."""
    if name not in chosen.aims:
        return text
    return f"[green]{text}[/green]" if _value(result, name) <= chosen.aims[name] else f"[red]{text}[/red]"


def _time(chosen: Scenario, result: Result, name: str) -> str:
    """One time."""
    if name not in result.seconds:
        return ""
    return _coloured(f"{result.seconds[name] * 1000:,.1f}", chosen, result, name)


def _peak(chosen: Scenario, result: Result) -> str:
    """Peak memory."""
    return _coloured(f"{result.peak_bytes >> 20:,}", chosen, result, "peak")


def _beside(chosen: Scenario, result: Result) -> str:
    """Facts, the first run, stages without a column, what it is compared with."""
    lines = [f"{name} {value:,.6g}" for name, value in result.facts.items()]
    lines += [f"{name} {value * 1000:,.1f} ms" for name, value in result.seconds.items() if name not in STAGES]
    lines.append(f"first run {result.first_s * 1000:,.0f} ms")
    return "\n".join(lines + ([chosen.reference] if chosen.reference else []))
