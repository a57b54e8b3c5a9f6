"""Compare what our scale-down plans free and save with what the real Cluster Autoscaler's do, on other documents than
the recorded ones.

Usage: python -m tests.parity.cluster_autoscaler_oracle.savings --oracle PROGRAM [--first SEED] [--count N] [--runs N]
    [--only GENERATOR...] [--feature-gates NAME=true]...
Prints, by generator and state of the gates, the nodes freed and the money saved: ours, upstream's in the order of its
list, and its best run of each document; before it a line for each document on which ours frees or saves less. Ours are
plans of one wave: all evictions fit the budgets at once. "... within budgets" compares them with those of upstream's
runs of which this is true as well.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tests.builders.priced_clusters import mixed_pools, shrunk_fleet
from tests.builders.shop_and_batch_clusters import batch, shops
from tests.parity.cluster_autoscaler_answers import ours
from tests.parity.eviction_api import exceeds_a_budget, refused
from trimtab.common.objects import build_snapshot, decode_objects

from .mixed import NOW
from .record import ask, generated, mixed

THRESHOLDS = (1.0, 0.7, 0.5)
Document = dict[str, Any]


class _Priced(Protocol):
    def objects(self) -> list[dict[str, Any]]: ...


def priced(make: Callable[[int], _Priced]) -> Callable[[int], Document]:
    """Return what makes a document of a priced cluster."""

    def document(seed: int) -> Document:
        settings = {"scaleDown": {"utilizationThreshold": THRESHOLDS[seed % len(THRESHOLDS)]}}
        return {"name": f"{make.__name__}-{seed}", "now": NOW, "settings": settings, "items": make(seed).objects()}

    return document


GENERATORS: dict[str, Callable[[int], Document]] = {
    "mixed": mixed,
    "generated": generated,
    "pools": priced(mixed_pools),
    "fleet": priced(shrunk_fleet),
    "shops": priced(shops),
    "batch": priced(batch),
}


def prices(document: Document) -> dict[str, float]:
    """Return the price of each node; 0 = unknown."""
    snapshot = build_snapshot(decode_objects(document["items"])).snapshot
    of_group = {group.id: group.price_per_hour for group in snapshot.node_groups}
    return {node.name: of_group.get(node.node_group, 0.0) for node in snapshot.nodes}


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, help="the built program")
    parser.add_argument("--first", type=int, default=50_000, help="first seed")
    parser.add_argument("--count", type=int, default=80, help="how many seeds of each generator")
    parser.add_argument("--runs", type=int, default=10, help="runs of upstream on each document")
    parser.add_argument("--only", choices=GENERATORS, action="append", help="generators, all if none is named")
    parser.add_argument("--feature-gates", action="append", help="gates of the scheduler's plugins in upstream")
    args = parser.parse_args()
    for name in args.only or GENERATORS:
        documents = [GENERATORS[name](seed) for seed in range(args.first, args.first + args.count)]
        plans = list(map(_plan, documents))
        for gates in args.feature_gates or [""]:
            sums: Counter[str] = Counter()
            answers = ask(args.oracle, documents, args.runs, gates=gates)
            for document, mine, answer in zip(documents, plans, answers, strict=True):
                _add(sums, document, mine, answer["runs"])
            said = ", ".join(f"{of}: {amount:.2f}".removesuffix(".00") for of, amount in sums.items())
            print(f"{name} {gates}".strip(), said, flush=True)


def _plan(document: Document) -> list[str]:
    return [node for node, verdict in ours(document).verdicts.items() if verdict.what == "UNNEEDED"]


def _add(sums: Counter[str], document: Document, mine: list[str], runs: list[dict[str, Any]]) -> None:
    """Add one document's nodes and money."""
    price = prices(document)

    def money(nodes: list[str]) -> float:
        return sum(price.get(node, 0.0) for node in nodes)

    lasting = [{*(run["empty"] or ()), *(run["drain"] or ())} - refused(document) for run in runs]
    theirs = [sorted(nodes) for nodes in lasting]
    most, best = max(map(len, theirs)), max(map(money, theirs))
    at_once = max((money(nodes) for nodes in theirs if not exceeds_a_budget(document, nodes)), default=0.0)
    saved = money(mine) + 1e-9
    amounts = {
        "documents": 1, "nodes, ours": len(mine), "list order": len(theirs[0]), "best run": most,
        "money, ours": money(mine), "money in list order": money(theirs[0]), "money of the best run": best,
        "saves less than list order": saved < money(theirs[0]), "saves less than the best run": saved < best,
        "saves less than the best run within budgets": saved < at_once,
    }  # fmt: skip
    for name, amount in amounts.items():
        sums[name] += amount  # type: ignore[assignment]
    if saved < best or len(mine) < most:
        told = f"money {money(mine):.4f} {best:.4f}, within budgets {at_once:.4f}"
        print(document["name"], f"nodes {len(mine)} {len(theirs[0])} {most}, {told}")


if __name__ == "__main__":
    main()
