"""Ask the program about random clusters; write questions and answers, or compare Trimtab's answers at once.

Usage: python -m tests.parity.gang_oracle.record --oracle PROGRAM [--first SEED] [--count N] [--minor M] [--out FILE]
Without --out it compares, some clusters side by side at a time, and prints which differ and how many.
"""

import argparse
import gzip
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.parity.gang_documents import Answered, bound_by_plan
from tests.parity.gang_oracle.questions import Question, joined, question

TOGETHER = 10
"""Clusters in one question: beyond it, what the scheduler and a plan take for each grows."""
CHUNK = 500


def answers(program: str, questions: Sequence[Question]) -> list[list[int]]:
    """Return the scheduler's answers."""
    text = "".join(json.dumps(one) + "\n" for one in questions)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Comparison:
    """Counts what differs. minor : version of Kubernetes."""

    def __init__(self, program: str, minor: int) -> None:
        self.program, self.minor = program, minor
        self.clusters = self.whole = self.none = self.singles = self.differ = 0

    def compare(self, seeds: Sequence[int]) -> None:
        """Compare the answers about some clusters."""
        parts = [seeds[at : at + TOGETHER] for at in range(0, len(seeds), TOGETHER)]
        asked = [[question(seed, self.minor) for seed in part] for part in parts]
        together = [joined(some) for some in asked]
        for part, some, one, bound in zip(parts, asked, together, answers(self.program, together), strict=True):
            ours = bound_by_plan(one, self.minor)
            at = 0
            for seed, cluster in zip(part, some, strict=True):
                end = at + len(cluster["units"])
                self._count(seed, cluster, bound[at:end], ours[at:end])
                at = end

    def _count(self, seed: int, cluster: Question, bound: list[int], ours: list[int]) -> None:
        gangs = [count for unit, count in zip(cluster["units"], bound, strict=True) if unit["min"]]
        self.clusters += 1
        self.whole += sum(map(bool, gangs))
        self.none += gangs.count(0)
        self.singles += len(bound) - len(gangs)
        self.differ += sum(mine != other for mine, other in zip(ours, bound, strict=True))
        if ours != bound:
            print(f"seed {seed}: scheduler {bound}, Trimtab {ours}: {json.dumps(cluster)}", flush=True)

    def __str__(self) -> str:
        gangs = f"{self.whole} gangs placed, {self.none} not, {self.singles} sets of single pods"
        return f"{self.clusters} clusters, {gangs}: {self.differ} differ"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--oracle", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--minor", type=int, default=36)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count)
    if given.out:
        questions = [question(seed, given.minor) for seed in seeds]
        found = map(Answered, questions, answers(given.oracle, questions))
        lines = "".join(json.dumps(one._asdict(), separators=(",", ":")) + "\n" for one in found)
        given.out.write_bytes(gzip.compress(lines.encode(), mtime=0))
        return
    comparison = Comparison(given.oracle, given.minor)
    for at in range(0, len(seeds), CHUNK):
        comparison.compare(seeds[at : at + CHUNK])
        print(comparison, flush=True)


if __name__ == "__main__":
    main()
