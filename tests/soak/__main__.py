"""Mixed calls for a long time: `python -m tests.soak --minutes 30`. Exit code 1 if a service grows or fails."""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.soak.actuator_calls import ActuatorCalls
from tests.soak.callers import Answers, Target, call_until
from tests.soak.growth import Sample, ends, grown, sample
from tests.soak.planner_calls import PlannerCalls
from trimtab.clients.cli.demo.services import actuator, planner
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import read_files

PLANNED = ClusterShape(nodes=500, pods=10_000)
ACTED_ON = ClusterShape(nodes=60, pods=900)
CACHE_BYTES = 64 << 20
"""Small enough to be full within the warm-up: a cache that still fills looks like growth."""
KEEP_S = 60
"""How long the actuator keeps results; with the default of an hour its memory grows for an hour."""
CALLERS = 3
SAMPLES = 40
"""Samples of a run, at least: a run of a minute is compared too."""


@dataclass
class Soaked:
    """A service under test."""

    name: str
    pid: int
    make: Callable[[], Target]
    answers: Answers = field(default_factory=Answers)
    samples: list[Sample] = field(default_factory=list)


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--warm-up", type=float, default=0.2, help="share of the time that is not compared")
    parser.add_argument("--every", type=float, default=5.0, help="most seconds between two samples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--samples", type=Path, help="write all samples here, as JSON")
    options = parser.parse_args()
    with ExitStack() as stack:
        services = start(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-soak-"))), stack)
        soak(services, options)
    if options.samples:
        options.samples.write_text(json.dumps({one.name: one.samples for one in services}))
    return report(services, options.warm_up * options.minutes * 60)


def start(directory: Path, stack: ExitStack) -> list[Soaked]:
    """Start the services."""
    planned, acted_on = directory / "planned.json", directory / "acted-on.json"
    write_list(generate(PLANNED), planned)
    write_list(generate(ACTED_ON), acted_on)
    document = json.loads(planned.read_text())
    snapshots = [read_files([planned]).snapshot]
    for number in range(3):
        # Some pods are gone, different ones than before.
        items = [item for at, item in enumerate(document["items"]) if item["kind"] != "Pod" or at % 97 != number]
        planned.write_text(json.dumps(document | {"items": items}))
        snapshots.append(read_files([planned]).snapshot)
    deciding = stack.enter_context(planner(directory, options=("--cache-bytes", str(CACHE_BYTES))))
    keep = ("--keep-finished", str(KEEP_S), "--keep-evictions", str(KEEP_S))
    acting = stack.enter_context(actuator(directory, [acted_on], keep))
    # Both serve before the first sample.
    planner_at, actuator_at = deciding.address, acting.address
    return [
        Soaked("planner", deciding.process.pid, lambda: PlannerCalls(planner_at, snapshots)),
        Soaked("actuator", acting.process.pid, lambda: ActuatorCalls(actuator_at, ACTED_ON.nodes // 2)),
    ]


def soak(services: list[Soaked], options: argparse.Namespace) -> None:
    """Run the callers and take samples."""
    stopped, begun_s = threading.Event(), time.monotonic()
    threads = [
        threading.Thread(
            target=call_until,
            args=(stopped, one.make, Random(f"{options.seed}/{one.name}/{number}"), one.answers),
            daemon=True,
        )
        for one in services
        for number in range(CALLERS)
    ]
    for thread in threads:
        thread.start()
    try:
        while (at_s := time.monotonic() - begun_s) < options.minutes * 60 and all(
            map(threading.Thread.is_alive, threads)
        ):
            for one in services:
                one.samples.append(sample(one.pid, at_s))
            time.sleep(min(options.every, options.minutes * 60 / SAMPLES))
    finally:
        stopped.set()
        for thread in threads:
            thread.join(120.0)


def report(services: list[Soaked], warm_up_s: float) -> int:
    """Print the measurements; return 1 if something grew or failed."""
    faults = []
    for one in services:
        print(f"{one.name}: {sum(one.answers.counts.values())} calls")
        for (kind, answer), count in sorted(one.answers.counts.items()):
            print(f"  {kind:24} {answer:20} {count}")
        first, last = ends(one.samples, warm_up_s)
        for what, at in (("first", first), ("last", last)):
            print(
                f"  {what:5} at {at.at_s:5.0f} s: {at.rss_bytes / (1 << 20):.1f} MiB,"
                f" {at.descriptors} file descriptors, {at.threads} threads"
            )
        faults += [f"{one.name}: {what}" for what in grown(first, last)]
        faults += [
            f"{one.name}: {count} x {answer} for {kind}" for (kind, answer), count in one.answers.unexpected().items()
        ]
    for fault in faults:
        print(f"found: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
