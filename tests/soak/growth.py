"""Whether a process grows: its memory, file descriptors and threads, sampled while it works.

Pure but for `sample`. Units: seconds, bytes.
"""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

SHARE: Final = 0.05
"""Memory may differ by this much between two parts of a run: threads and the allocator retain varying amounts."""
LEAST_BYTES: Final = 8 << 20
COUNT: Final = 4
"""File descriptors and threads may differ by this number: calls are in progress when a sample is taken."""


class Sample(NamedTuple):
    """A process at one time. at_s : since the start of the run."""

    at_s: float
    rss_bytes: int
    descriptors: int
    threads: int


def sample(pid: int, at_s: float) -> Sample:
    """Return a sample of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Sample(at_s, int(status["VmRSS"].split()[0]) * 1024, descriptors, int(status["Threads"]))


def ends(samples: Sequence[Sample], warm_up_s: float) -> tuple[Sample, Sample]:
    """Return the medians of the first and of the last fifth of the samples after the warm-up.

    Errors: ValueError for fewer than ten.
    """
    warm = [one for one in samples if one.at_s >= warm_up_s]
    if len(warm) < 10:
        raise ValueError(f"{len(warm)} samples after the warm-up are too few to compare; run for longer")
    fifth = len(warm) // 5
    return median(warm[:fifth]), median(warm[-fifth:])


def median(samples: Sequence[Sample]) -> Sample:
    """Return the median of each figure."""
    at_s, *counts = (statistics.median(figures) for figures in zip(*samples, strict=True))
    return Sample(at_s, *map(round, counts))


def grown(first: Sample, last: Sample) -> list[str]:
    """Return descriptions of what has grown; [] = nothing."""
    found = []
    if last.rss_bytes > first.rss_bytes + max(LEAST_BYTES, SHARE * first.rss_bytes):
        found.append(f"memory from {first.rss_bytes >> 20} to {last.rss_bytes >> 20} MiB")
    if last.descriptors > first.descriptors + COUNT:
        found.append(f"file descriptors from {first.descriptors} to {last.descriptors}")
    if last.threads > first.threads + COUNT:
        found.append(f"threads from {first.threads} to {last.threads}")
    return found
