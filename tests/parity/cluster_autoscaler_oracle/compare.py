"""Compare our scale-up plans with what the real Cluster Autoscaler answers to other documents than the recorded ones.

Usage: python -m tests.parity.cluster_autoscaler_oracle.compare --oracle PROGRAM [--first SEED] [--count N] [--whole]
Prints one line for each document on which ours is worse than a run of upstream, or has not the same splits, and sums.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from tests.parity.cluster_autoscaler_growth import (
    AS_UPSTREAM,
    Ours,
    dearer,
    other_splits,
    ours,
    price,
    theirs,
    worse,
    worse_options,
)

from .pending import pending
from .record import ask

CHUNK = 20
"""Documents asked about in one go."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, help="the built program")
    parser.add_argument("--first", type=int, default=10_000, help="first seed")
    parser.add_argument("--count", type=int, default=500, help="how many seeds")
    parser.add_argument("--runs", type=int, default=4, help="runs of upstream on each document")
    parser.add_argument(
        "--whole", action="store_true", help="compare prices with our cheapest plan too, which takes time"
    )
    args = parser.parse_args()
    sums: Counter[str] = Counter()
    for first in range(args.first, args.first + args.count, CHUNK):
        documents = [pending(seed) for seed in range(first, min(first + CHUNK, args.first + args.count))]
        for document, answer in zip(documents, ask(args.oracle, documents, args.runs, scale_up=True), strict=True):
            runs, mine = answer["growth"], ours(document, AS_UPSTREAM)
            whole = (
                ours(document, AS_UPSTREAM | {"expanders": ["CHEAPEST_PLAN"]})
                if args.whole and _chain(document) == ["PRICE"]
                else None
            )
            notes = [*worse(mine.growth, runs), *(f"split, {one}" for one in other_splits(mine, runs))]
            notes += sorted({f"option, {one}" for one in worse_options(document, mine, runs)})
            notes += [f"offence: {one}" for one in mine.offences]
            if whole is not None:
                notes += [f"cheapest plan, {one}" for one in dearer(document, whole.growth, runs)]
                notes += [f"offence: {one}" for one in whole.offences]
            _sum(sums, document, mine, runs)
            if notes:
                print(document["name"], "+".join(_chain(document)), *notes, sep=" | ", flush=True)
    for name, value in sorted(sums.items()):
        print(f"{name}: {value}")


def _chain(document: dict[str, Any]) -> list[str]:
    return list(document["settings"]["scaleUp"]["expanders"])


def _sum(sums: Counter[str], document: dict, mine: Ours, runs: list[dict[str, Any]]) -> None:
    grown = [theirs(run) for run in runs]
    sums["documents"] += 1
    sums["nodes, ours"] += mine.growth.nodes
    sums["nodes, upstream's first run"] += grown[0].nodes
    sums["pending, ours"] += len(mine.growth.pending)
    sums["pending, upstream's first run"] += len(grown[0].pending)
    sums["cents an hour, ours"] += round(100 * price(document, mine.growth))
    sums["cents an hour, upstream's first run"] += round(100 * price(document, grown[0]))
    sums["loops, upstream's first run"] += len(runs[0]["loops"] or ())
    sums["documents with growth"] += bool(mine.growth.nodes)


if __name__ == "__main__":
    main()
