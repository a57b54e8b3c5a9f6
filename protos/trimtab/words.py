"""Numbers with nouns, and amounts, for texts that people read. Written by hand, beside the generated modules: planner, actuator and
clients may all import it. Units of amounts: cpu in milli-cores, everything else in base units.
"""

from typing import Final

BYTES: Final = frozenset({"memory", "ephemeral-storage"})
"""Resources that are counted in bytes."""


def counted(count: int, noun: str, verbs: tuple[str, str] | None = None) -> str:
    """Return "1 node", "2 nodes", "3 classes". verbs : appended, of one and of several: ("has", "have")."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    text = f"{count:,} {noun if count == 1 else plural}"
    return f"{text} {verbs[count != 1]}" if verbs else text




def amount(resource: str, value: int) -> str:
    """Return an amount with its unit: "1.5 cores", "2.0 GiB", "3"."""
    if resource == "cpu":
        text = _decimals(value / 1000, 3 if abs(value) < 100_000 else 1)
        return f"{text} core{'' if text == '1' else 's'}"
    if resource in BYTES or resource.startswith("hugepages-"):
        return byte_count(value)
    return f"{value}"


def _decimals(value: float, most: int) -> str:
    """Return a number with at most so many decimals: "1,234.5", "3"."""
    return f"{value:,.{most}f}".rstrip("0").rstrip(".")


def byte_count(value: int) -> str:
    """Return bytes in the largest binary unit that leaves at least one."""
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{value} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("the loop returns at its last unit")
