"""Records the real Cluster Autoscaler's answers under tests/parity/data; README.md has the commands.

Usage: python -m tests.parity.cluster_autoscaler_oracle.record --oracle PROGRAM [NAME...]
NAME is one of ASKED; without any, everything is recorded again. Each line of
data/cluster_autoscaler/NAME.jsonl.gz is {"document": the question, "runs": the answers}, or "growth" instead of "runs"
where scale-up was asked for, or with both; see document.go and answer.go.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import structlog

from trimtab.clients.cluster_generator.layout import generate
from trimtab.clients.cluster_generator.objects import objects
from trimtab.clients.cluster_generator.shape import ClusterShape

from .mixed import NOW, Mix, MixedCluster
from .pending import pending
from .steps import SCENARIOS, simulated
from .widened import widen

DATA = Path(__file__).parents[1] / "data" / "cluster_autoscaler"
RUNS = 4
"""Loops on each document: in the order of the list, which upstream leaves to chance, and in three others."""

MIXES = (
    Mix(),
    Mix(odd=0),
    Mix(odd=0.2),
    Mix(constraints=0),
    Mix(constraints=0, odd=0, budgets=0),
    Mix(constraints=2, odd=0.1),
    Mix(budgets=1.0, odd=0.1),
    Mix(nodes=(30, 60)),
    Mix(budgets=0, odd=0.1),
    Mix(use=(0.4, 0.65), odd=0.2),
    Mix(pending=0.5, odd=0.2),
)
CHOICES: dict[str, tuple[float, list[Any]]] = {
    "utilizationThreshold": (0.3, [0.3, 0.7, 1.0]),
    "skipNodesWithSystemPods": (0.2, [False]),
    "skipNodesWithLocalStorage": (0.2, [False]),
    "skipNodesWithCustomControllerPods": (0.2, [False]),
    "minReplicaCount": (0.15, [3]),
    "ignoreDaemonsetsUtilization": (0.15, [True]),
    "unreadyEnabled": (0.15, [False]),
}
"""Settings other than the defaults: how often, and what."""


def mixed(seed: int) -> dict[str, Any]:
    """A small cluster with every feature, and settings."""
    r = random.Random(seed)
    mix = r.choice(MIXES)
    settings = {name: r.choice(values) for name, (share, values) in CHOICES.items() if r.random() < share}
    items = MixedCluster(seed, mix).items()
    settings |= widen(items, seed)
    return {"name": f"mixed-{seed}", "now": NOW, "settings": {"scaleDown": settings}, "items": items}


def generated(seed: int) -> dict[str, Any]:
    """A cluster of `trimtab.clients.cluster_generator` with prices, for every other seed."""
    r = random.Random(seed)
    nodes = r.choice([12, 16, 20, 30])
    shape = ClusterShape(
        seed=seed,
        nodes=nodes,
        pods=nodes * r.choice([6, 10]),
        utilization=r.choice([0.2, 0.3, 0.4, 0.5]),
        workloads=r.choice([0, 10, 20]),
        spread_share=r.choice([0, 0, 0.1, 0.3]),
        anti_affinity_share=r.choice([0, 0, 0.1, 0.2]),
        budget_share=r.choice([0, 0.1, 0.3, 0.6]),
        unmovable_share=r.choice([0, 0.03, 0.1]),
        pending_pods=r.choice([0, 0, 20]),
    )
    items = _lean(json.loads(msgspec.json.encode(list(objects(generate(shape))))))
    if seed % 2:
        for item in items:
            if item["kind"] == "NodeGroup":
                item["spec"].pop("price")
    settings = {"utilizationThreshold": r.choice([0.5, 0.5, 0.7, 1.0])}
    now = "2026-11-01T00:00:00Z"
    return {"name": f"generated-{seed}", "now": now, "settings": {"scaleDown": settings}, "items": items}


def _lean(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what neither side reads, to keep the files small."""
    kept = [item for item in items if item["kind"] not in ("Deployment",)]
    for item in kept:
        if item["kind"] in ("ReplicaSet", "StatefulSet", "Job", "DaemonSet"):
            item["spec"].pop("template", None)
    return kept


RECORDINGS: dict[str, tuple[Callable[[int], dict[str, Any]], int, int]] = {
    "mixed": (mixed, 0, 120),
    "generated": (generated, 0, 40),
    "pending": (pending, 0, 120),
}
"""By name, what makes a document from a seed, the first seed, and how many."""
ASKED = {"mixed": ["runs"], "generated": ["runs"], "pending": ["growth"], "steps": ["runs", "growth"]}
"""By name of a recording, which answers are recorded: those on scale-down, on scale-up, or both."""


def ask(
    program: str, documents: list[dict[str, Any]], runs: int = RUNS, *, scale_up: bool = False, gates: str = ""
) -> Iterator[dict[str, Any]]:
    """The answers to documents, in their order. gates : of the scheduler's plugins, as the program takes them."""
    lines = "\n".join(json.dumps(document) for document in documents)
    asked = "-scale-up" if scale_up else "-strict-pending"
    more = ["-feature-gates", gates] if gates else []
    done = subprocess.run(
        [program, asked, "-runs", str(runs), *more], input=lines.encode(), capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr.decode()[-2000:])
    yield from map(json.loads, done.stdout.splitlines())


def _documents(name: str) -> list[dict[str, Any]]:
    if name == "steps":
        return [step.document for seed in range(SCENARIOS) for step in simulated(seed)]
    make, first, count = RECORDINGS[name]
    return [make(seed) for seed in range(first, first + count)]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in rows)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(lines.encode())
    print(f"{path.name}: {len(rows)} documents, {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, help="the built program")
    parser.add_argument("names", nargs="*", help="what to record")
    args = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    for name in args.names or ASKED:
        rows: list[dict[str, Any]] = [{"document": document} for document in _documents(name)]
        for said in ASKED[name]:
            answers = ask(args.oracle, [row["document"] for row in rows], scale_up=said == "growth")
            for row, answer in zip(rows, answers, strict=True):
                row[said] = answer[said]
        _write(DATA / f"{name}.jsonl.gz", rows)


if __name__ == "__main__":
    main()
