"""Points at which a process may be killed: before and after each write to the store and each call to the API server.

A point is named by its action and its number among those of the same kind over all lives of a scenario, such as "before
POST pods/eviction #4". A file keeps the names in their order; it outlives the process that is killed.
"""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# Reads may be repeated endlessly: this number of each kind is enough.
MOST_READS = 12
DIED = "died "


class Point(NamedTuple):
    """The `number`-th moment, from 1, of a kind such as "after PATCH nodes"."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind} #{self.number}"

    @property
    def is_read(self) -> bool:
        """Return whether nothing changes at it."""
        return self.kind.split()[1] == "GET" or "accessreviews" in self.kind


def parse(text: str) -> Point:
    """The point of a name."""
    kind, _, number = text.rpartition(" #")
    return Point(kind, int(number))


class Moments:
    """The moments of one process, which ends itself at one of the points. Thread-safe."""

    def __init__(self, path: Path, points: Iterable[Point]) -> None:
        self._counts = reached(path)
        self._points = frozenset(points)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()

    def note(self, kind: str) -> None:
        """Record a point; die if it is one of the chosen ones."""
        with self._lock:
            self._counts[kind] += 1
            point = Point(kind, self._counts[kind])
            dies = point in self._points
            os.write(self._file, f"{kind}\n{DIED}{point}\n".encode() if dies else f"{kind}\n".encode())
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)


def reached(path: Path) -> Counter[str]:
    """How many moments of each kind there were."""
    return Counter(line for line in _lines(path) if not line.startswith(DIED))


def deaths(path: Path) -> list[Point]:
    """Where processes ended themselves, in order."""
    return [parse(line.removeprefix(DIED)) for line in _lines(path) if line.startswith(DIED)]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def points_of(counts: Counter[str]) -> list[Point]:
    """Every moment of a run without deaths: each kind's first before any second, changes before reads."""
    points = [
        Point(kind, number)
        for kind, count in counts.items()
        for number in range(1, (min(count, MOST_READS) if Point(kind, 1).is_read else count) + 1)
    ]
    return sorted(points, key=lambda point: (point.number > 1, point.is_read, point.number, point.kind))


def point_batches(points: Sequence[Point], wanted: int, size: int, seed: int) -> Iterator[list[Point]]:
    """Yield batches of `size` points, `wanted` in all, shuffled, all different within a batch.

    When points run out, they begin again.
    """
    chance = random.Random(seed)
    left = wanted
    while left > 0:
        chosen = list(points[:left])
        left -= len(chosen)
        chance.shuffle(chosen)
        yield from (chosen[start : start + size] for start in range(0, len(chosen), size))
