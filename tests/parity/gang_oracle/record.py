"""Ask the program about random clusters; write questions and answers, or compare Trimtab's answers at once.

Usage: python -m tests.parity.gang_oracle.record --oracle PROGRAM [--first SEED] [--count N] [--out FILE]
Without --out it compares, and prints how many differ.
"""

import argparse
import gzip
import json
import subprocess
from pathlib import Path

from tests.parity.gang_documents import Answered, bound_by_plan
from tests.parity.gang_oracle.questions import question


def answered(program: str, first: int, count: int) -> list[Answered]:
    """Return questions with the scheduler's answers."""
    questions = [question(seed) for seed in range(first, first + count)]
    text = "".join(json.dumps(one) + "\n" for one in questions)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return [Answered(one, bound) for one, bound in zip(questions, answers, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--oracle", required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = answered(given.oracle, given.first, given.count)
    if given.out:
        lines = "".join(json.dumps(one._asdict(), separators=(",", ":")) + "\n" for one in found)
        given.out.write_bytes(gzip.compress(lines.encode(), mtime=0))
        return
    groups = differ = whole = none = 0
    for seed, one in enumerate(found, given.first):
        ours = bound_by_plan(one.question)
        groups += len(ours)
        differ += sum(mine != other for mine, other in zip(ours, one.bound, strict=True))
        gangs = [bound for unit, bound in zip(one.question["units"], one.bound, strict=True) if unit["min"]]
        whole += sum(map(bool, gangs))
        none += gangs.count(0)
        if ours != one.bound:
            print(f"seed {seed}: scheduler {one.bound}, Trimtab {ours}: {json.dumps(one.question)}")
    singles = groups - whole - none
    print(f"{len(found)} clusters, {whole} gangs placed, {none} not, {singles} sets of single pods: {differ} differ")


if __name__ == "__main__":
    main()
