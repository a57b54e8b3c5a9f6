"""An actuator with very many recent evictions, and processes that watch its status: how long each gets it, and how much
memory that takes. `python -m tests.soak.watchers --evictions 100000 --watchers 16`. Exit code 1 if a watcher gets
another status than the actuator has.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.builders.actuator_service import SETTINGS, Service
from tests.soak.growth import sample
from trimtab.actuator.tracker.events import PodsEvicted
from trimtab.actuator.tracker.states import PodRef

CHANGES: Final = 10
AT_ONCE: Final = 1000
WATCHER: Final = """
import json, sys, time
from trimtab.clients.actuator_client import ActuatorClient

for status in ActuatorClient(sys.argv[1]).watch_status():
    print(json.dumps([len(status.recent_evictions), time.time()]), flush=True)
"""
ROOT: Final = Path(__file__).parents[2]


def main() -> int:
    """Run, and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evictions", type=int, default=100_000)
    parser.add_argument("--watchers", type=int, default=16)
    options = parser.parse_args()
    service = Service(replace(SETTINGS, max_watchers=options.watchers))
    with ExitStack() as stack:
        stack.callback(service.close)
        for first in range(0, options.evictions, AT_ONCE):
            evict(service, first, AT_ONCE)
        begun_s = time.perf_counter()
        size = len(service.client.get_status().SerializeToString())
        print(f"status: {size / 1e6:.1f} MB, read for the first time in {time.perf_counter() - begun_s:.2f} s")
        peak = stack.enter_context(Peak())
        watchers = [stack.enter_context(watching(service)) for _ in range(options.watchers)]
        return compare(service, watchers, options.evictions, peak)


def compare(service: Service, watchers: list["subprocess.Popen[str]"], count: int, peak: "Peak") -> int:
    """Print how long watchers wait; return 1 if one gets another number of evictions than there are."""
    begun_s, seen = time.time(), [told(one) for one in watchers]
    print(f"first status: {max(at_s for _, at_s in seen) - begun_s:.2f} s, process {peak.rss_bytes >> 20} MiB")
    faults = sum(number != count for number, _ in seen)
    for change in range(CHANGES):
        begun_s = time.time()
        evict(service, count + change, 1)
        seen = [told(one) for one in watchers]
        print(f"change {change}: {max(at_s for _, at_s in seen) - begun_s:.2f} s, process {peak.rss_bytes >> 20} MiB")
        faults += sum(number != count + change + 1 for number, _ in seen)
    for one in watchers:
        one.kill()
    print(f"found: {faults} wrong statuses" if faults else "every status was whole")
    return 1 if faults else 0


def evict(service: Service, first: int, count: int) -> None:
    """Record evictions, as a drain does."""
    pods = tuple(
        PodRef(f"namespace-{number % 50}", f"web-{number % 500}-7d9f8b6c5d-{number:05x}", f"uid-{number:032x}")
        for number in range(first, first + count)
    )
    service.actuator.processor.submit(PodsEvicted(f"n{first % 50}", pods))


def watching(service: Service) -> "subprocess.Popen[str]":
    """Start a process that watches the status."""
    command = [sys.executable, "-c", WATCHER, service.shell.address]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(watcher: "subprocess.Popen[str]") -> tuple[int, float]:
    """Return the number of evictions in a watcher's next status, and when it had it."""
    assert watcher.stdout is not None
    number, at_s = json.loads(watcher.stdout.readline())
    return number, at_s


class Peak:
    """The most memory that this process, which is the actuator, has used; use as a context manager."""

    def __init__(self) -> None:
        self.rss_bytes = 0
        self._stopped = threading.Event()

    def __enter__(self) -> "Peak":
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(0.05):
            self.rss_bytes = max(self.rss_bytes, sample(os.getpid(), 0.0).rss_bytes)


if __name__ == "__main__":
    sys.exit(main())
