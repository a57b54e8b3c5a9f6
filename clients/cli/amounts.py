"""Amounts, times and lists as text. Units: cpu in milli-cores, everything else in base units."""

from collections.abc import Sequence
from typing import Final

from trimtab.words import BYTES, amount, byte_count, counted

__all__ = ["amount", "byte_count", "counted", "duration", "maximum", "named_amount", "percent", "shown_of", "some"]
NO_MAXIMUM: Final = 1_000_000
"""The maximum size of node groups of which none is known: more nodes than any cluster has."""


def named_amount(resource: str, value: int) -> str:
    """Return an amount with the name of its resource: "1.5 cores", "2.0 GiB of memory", "3 nvidia.com/gpu"."""
    if resource == "cpu":
        return amount(resource, value)
    return f"{amount(resource, value)} {'of ' if resource in BYTES else ''}{resource}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units: "2 h 5 min", "90 s" as "1 min 30 s"."""
    whole = round(abs(seconds))
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, whole = divmod(whole, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def percent(share: float) -> str:
    """Return a share from 0 to 1 in per cent."""
    return f"{100 * share:.0f} %"


def some(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names and the number of the others."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def shown_of(shown: int, total: int) -> str:
    """Return how many of how many rows are shown, for a title; "" if all are."""
    return f": {shown} of {total:,} (--verbose shows all)" if shown < total else ""


def maximum(size: int) -> str:
    """Return the maximum size of a node group; "" = none is known."""
    return f"{size:,}" if size < NO_MAXIMUM else ""
