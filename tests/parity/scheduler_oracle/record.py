"""Records the real scheduler's answers under tests/parity/data; README.md has the commands.

Usage: python -m tests.parity.scheduler_oracle.record --oracle PROGRAM [--snapshots DIR] [NAME...]
NAME is a set of RECORDINGS, "selfcheck" or "nasty"; without any, everything is recorded again.
Each line of data/*.jsonl.gz is {"document": the question, "answers": [...]}; see document.go for both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .generator.cluster import Mix, cluster
from .generator.source import FEATURES
from .strip import strip

DATA = Path(__file__).parents[1] / "data"

STATIC = FEATURES - {
    *("podAffinity", "podAntiAffinity", "namespaces", "matchLabelKeys"),
    *("spread", "minDomains", "spreadPolicies", "gates"),
}

SPREAD = ("spread", "minDomains", "spreadPolicies")


class Recording(NamedTuple):
    """`count` clusters of a mix, with seeds from `first_seed` up."""

    first_seed: int
    count: int
    mix: Mix


RECORDINGS: dict[str, list[Recording]] = {
    # taints, selectors, ports, resources of all kinds, unschedulable, nodeName, terminal and terminating pods
    "node_predicates": [
        Recording(1_000, 100, Mix("matrix", STATIC, (8, 20), (40, 80))),
        Recording(1_900, 4, Mix("matrix", STATIC, (80, 120), (250, 350))),
    ],
    # every feature at once
    "all_features": [
        Recording(2_000, 90, Mix("matrix", FEATURES, (8, 24), (60, 120))),
        Recording(2_900, 4, Mix("matrix", FEATURES, (80, 120), (300, 400))),
    ],
    # one dynamic plugin at a time, on clusters where little else says no
    "pod_affinity": [
        Recording(
            3_000,
            40,
            Mix(
                "matrix",
                FEATURES & {"podAffinity", "podAntiAffinity", "namespaces", "matchLabelKeys", "terminating"},
                (8, 16),
                (60, 100),
            ),
        ),
    ],
    "topology_spread": [
        Recording(
            4_000,
            40,
            Mix(
                "matrix",
                FEATURES
                & {
                    "spread",
                    "minDomains",
                    "spreadPolicies",
                    "matchLabelKeys",
                    "taints",
                    "nodeAffinity",
                    "nodeSelector",
                    "terminating",
                },
                (8, 20),
                (60, 100),
            ),
        ),
    ],
    "volumes": [
        Recording(5_000, 40, Mix("matrix", frozenset({"volumes"}), (8, 16), (40, 80))),
        Recording(5_500, 20, Mix("matrix", FEATURES | {"volumes"}, (8, 20), (60, 100))),
    ],
    # each placed pod changes the answer for the next
    "simulate": [
        Recording(6_000, 40, Mix("simulate", FEATURES, (8, 24), (80, 140))),
        Recording(6_500, 12, Mix("simulate", frozenset({"volumes", "spread", "podAntiAffinity"}), (8, 16), (60, 100))),
        Recording(6_900, 3, Mix("simulate", FEATURES, (60, 80), (300, 400))),
    ],
    # each running pod taken out of its cluster and asked about
    "taken_out": [
        Recording(8_000, 24, Mix("selfcheck", FEATURES, (4, 12), (60, 100))),
        Recording(8_500, 12, Mix("selfcheck", frozenset({"volumes", "podAntiAffinity", "spread"}), (4, 8), (50, 80))),
    ],
    "declared_features": [
        Recording(9_000, 220, Mix("matrix", frozenset({"declaredFeatures", "init", "sidecar"}), (3, 6), (12, 24))),
        Recording(9_300, 20, Mix("matrix", FEATURES | {"declaredFeatures"}, (6, 12), (24, 40))),
        Recording(9_400, 20, Mix("simulate", frozenset({"declaredFeatures", "hostPorts", "spread"}), (3, 6), (12, 24))),
    ],
    # drivers that a node lacks: claims in every state, inline volumes, migrated plugins
    "csi_drivers": [
        Recording(10_000, 220, Mix("matrix", frozenset({"csiDrivers", "volumes"}), (4, 8), (12, 24))),
        Recording(10_300, 20, Mix("matrix", FEATURES | {"csiDrivers", "volumes"}, (6, 12), (24, 40))),
        Recording(10_400, 20, Mix("simulate", frozenset({"csiDrivers", "volumes"}), (4, 8), (16, 30))),
        Recording(10_500, 10, Mix("verify", frozenset({"csiDrivers", "volumes"}), (4, 8), (16, 30))),
        Recording(10_600, 10, Mix("selfcheck", frozenset({"csiDrivers", "volumes"}), (4, 8), (16, 30))),
    ],
    "compared_tolerations": [
        Recording(11_000, 200, Mix("matrix", frozenset({"comparedTolerations", "taints"}), (4, 8), (12, 24))),
        Recording(11_300, 40, Mix("matrix", frozenset({"comparedTolerations", *SPREAD}), (6, 10), (24, 40))),
        Recording(11_400, 20, Mix("simulate", frozenset({"comparedTolerations", *SPREAD}), (4, 8), (16, 30))),
    ],
    "verify": [
        Recording(7_000, 30, Mix("verify", FEATURES, (8, 20), (80, 140))),
        Recording(7_500, 10, Mix("verify", frozenset({"volumes", "taints"}), (6, 10), (60, 100))),
    ],
}

KINDS = {
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "pvcs",
    "PersistentVolume": "pvs",
    "StorageClass": "storageClasses",
    "CSINode": "csiNodes",
    "CSIDriver": "csiDrivers",
}


def _oracle(program: str, documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(d) for d in documents)
    done = subprocess.run([program], input=lines.encode(), capture_output=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.decode()[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def _record(program: str, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    stored = _oracle(program, [d | {"mode": "normalize"} for d in documents])
    stripped = [strip(s | {"mode": d["mode"]}) for s, d in zip(stored, documents, strict=True)]
    answers = _oracle(program, stripped)
    return [{"document": d, "answers": a["answers"]} for d, a in zip(stripped, answers, strict=True)]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in rows)
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(lines.encode())
    print(f"{path.name}: {len(rows)} documents, {path.stat().st_size} bytes")


def _generated(name: str) -> list[dict[str, Any]]:
    return [
        cluster(f"{name}-{seed}", seed, recording.mix)
        for recording in RECORDINGS[name]
        for seed in range(recording.first_seed, recording.first_seed + recording.count)
    ]


def _snapshot(path: Path) -> list[dict[str, Any]]:
    """A recording of a real cluster as two questions: does each pod fit where it runs; where do pending pods fit."""
    items = json.loads(gzip.decompress(path.read_bytes()))["items"]
    shared: dict[str, Any] = {"nodes": [i for i in items if i["kind"] == "Node"]}
    for kind, key in KINDS.items():
        shared[key] = [i for i in items if i["kind"] == kind]
    pods = [i for i in items if i["kind"] == "Pod"]
    shared["pods"] = [p for p in pods if p["spec"].get("nodeName")]
    ended = ("Succeeded", "Failed")
    pending = [p for p in pods if not p["spec"].get("nodeName") and p["status"].get("phase") not in ended]
    name = path.name.removesuffix(".json.gz")
    documents = [shared | {"name": f"{name}-selfcheck", "mode": "selfcheck"}]
    if pending:
        documents.append(shared | {"name": f"{name}-pending", "mode": "matrix", "pending": pending})
    return documents


def _nasty(program: str) -> None:
    """Answers the hand-written questions as they are, and what the API server would say of their objects."""
    paths = sorted((DATA / "nasty").glob("*.yaml"))
    documents = [{"mode": "matrix"} | yaml.safe_load(p.read_text()) | {"name": p.stem, "validate": True} for p in paths]
    for document in documents:
        document.pop("why")
    for path, answers in zip(paths, _oracle(program, documents), strict=True):
        text = json.dumps({k: v for k, v in answers.items() if k != "name"}, indent=1, sort_keys=True)
        path.with_suffix(".answers.json").write_text(text + "\n")
    print(f"nasty: {len(paths)} documents")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", required=True, help="the built program")
    parser.add_argument("--snapshots", type=Path, help="directory of recordings of real clusters, for selfcheck")
    parser.add_argument("names", nargs="*", help="what to record")
    args = parser.parse_args()
    for name in args.names or [*RECORDINGS, "selfcheck", "nasty"]:
        if name == "nasty":
            _nasty(args.oracle)
        elif name == "selfcheck":
            if args.snapshots is None:
                parser.error("selfcheck needs --snapshots")
            documents = [d for path in sorted(args.snapshots.glob("*.json.gz")) for d in _snapshot(path)]
            _write(DATA / "selfcheck.jsonl.gz", _record(args.oracle, documents))
        else:
            _write(DATA / f"{name}.jsonl.gz", _record(args.oracle, _generated(name)))


if __name__ == "__main__":
    main()
