"""Compares the planner with the device oracle on random clusters, and records answers.

`python -m tests.parity.device_oracle.compare --oracle36 PROGRAM [--oracle37 PROGRAM] [--from SEED] [--count N]
[--record OUT] [--sequences [--whole-of N]]`: prints each document on which they differ, and the figures; exits with 1
if there is one. With `--record` it writes the documents and the oracle's answers, for the ordinary tests. With
`--sequences` the documents are sequences in which pods come and go and may share claims; of every Nth one `CheckFit`
and a plan are asked, of the others only what decides on claims.
"""

import argparse
import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.parity.device_documents import answers, comparable
from tests.parity.device_oracle.clusters import Clusters
from tests.parity.device_oracle.sequences import Sequences
from tests.parity.device_sequences import differences

BATCH = 2000


def asked(program: str, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the oracle's answers."""
    lines = "\n".join(json.dumps(one) for one in documents)
    run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def outcome(answer: dict[str, Any]) -> str:
    """Return what kind of answer it is, for the figures."""
    return next((kind for kind in ("error", "timeout", "invalid", "claims") if answer.get(kind)), "refused")


def compared(document: dict[str, Any], found: dict[str, Any], version: int, counts: Counter[str]) -> bool:
    """Return whether planner and oracle agree on a document; one at which either gave up is left out."""
    theirs = [[comparable(one) for one in pod] for pod in found.get("pods", [])]
    if any("timeout" in one for pod in theirs for one in pod):
        counts["given up by the oracle"] += 1
        return True
    mine = answers(document, version)
    if any("timeout" in one for pod in mine for one in pod):
        counts["given up by the planner"] += 1
        return True
    for pod in found.get("pods", []):
        counts.update(outcome(one) for one in pod)
    counts["pods"] += len(theirs)
    if mine == theirs:
        return True
    print(json.dumps({"version": version, "document": document, "answers": found.get("pods"), "ours": mine}))
    return False


def compared_steps(document: dict[str, Any], found: dict[str, Any], version: int, counts: Counter[str]) -> bool:
    """Return whether planner and oracle agree on a sequence; one at which either gave up is left out."""
    is_whole = int(document["name"].rpartition("-")[2]) % counts["whole of"] == 0
    wrong = differences(document, found, version, whole=is_whole)
    if wrong is None:
        counts["given up"] += 1
        return True
    counts["whole"] += is_whole
    counts["pods"] += len(found["steps"])
    for tried in found["steps"]:
        counts.update("placed" if one.get("placed") else outcome(one) for one in tried)
        counts["elsewhere"] += sum("elsewhere" in one for one in tried)
    if wrong:
        print(json.dumps({"version": version, "document": document, "answers": found["steps"], "wrong": wrong}))
    return not wrong


def main() -> int:
    """Compare documents in batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle36", required=True)
    parser.add_argument("--oracle37")
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=BATCH)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--sequences", action="store_true")
    parser.add_argument("--whole-of", type=int, default=1)
    options = parser.parse_args()
    drawing, compare, of = (Sequences, compared_steps, "steps") if options.sequences else (Clusters, compared, "pods")
    programs = {36: options.oracle36, 37: options.oracle37}
    counts: Counter[str] = Counter({"whole of": options.whole_of} if options.sequences else {})
    recorded, wrong = [], 0
    for first in range(options.first, options.first + options.count, BATCH):
        seeds = range(first, min(first + BATCH, options.first + options.count))
        by_version: dict[int, list[dict[str, Any]]] = {}
        for seed in seeds:
            drawn = drawing(seed)
            by_version.setdefault(drawn.version, []).append(drawn.document(f"seed-{seed}"))
        for version, documents in sorted(by_version.items()):
            program = programs[version]
            if program is None:
                continue
            for document, found in zip(documents, asked(program, documents), strict=True):
                counts["documents"] += 1
                wrong += not compare(document, found, version, counts)
                if options.record:
                    recorded.append({"version": f"1.{version}", "document": document, "answers": found.get(of, [])})
    if options.record:
        content = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in recorded)
        options.record.write_bytes(gzip.compress(content.encode(), mtime=0))
    print(wrong, "differ;", dict(counts), file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
