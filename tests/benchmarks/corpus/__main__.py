"""`python -m tests.benchmarks.corpus [NAME…] [--write] [--results FILE]`: plan for all clusters of the corpus, and say
what became better and worse than in the results that are kept. Exit code 1 if more is worse than is tolerated.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.corpus.cases import Case, cases
from tests.benchmarks.corpus.figures import TOTAL, Difference, Figures, differences, figures

KEPT = Path(__file__).with_name("results.json")


def _measured(case: Case) -> tuple[str, Figures]:
    return case.name, figures(case)


def main() -> None:
    """Judge the tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="beginnings of names of cases; none = all")
    parser.add_argument("--write", action="store_true", help="keep these results: say in the commit why they differ")
    parser.add_argument("--results", type=Path, default=KEPT, help="results to compare with, or to write")
    options = parser.parse_args()
    chosen = [one for one in cases() if not options.names or one.name.startswith(tuple(options.names))]
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        after = dict(processes.map(_measured, chosen))
    if options.write:
        options.results.write_text(json.dumps(after, indent=0, sort_keys=True) + "\n")
        return
    found = differences(json.loads(options.results.read_text()), after)
    _print(found)
    sys.exit(0 if all(one.is_allowed for one in found) else 1)


def _print(found: list[Difference]) -> None:
    table = Table("cluster", "figure", "before", "after", "worse by", "")
    for one in found:
        mark = "" if one.is_allowed else "too much"
        table.add_row(
            one.case, one.figure, f"{one.before:g}", f"{one.after:g}", f"{one.worse:+.2%}", mark,
            style="bold" if one.case == TOTAL else "",
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 120).print(table)


if __name__ == "__main__":
    main()
