"""What a benchmark is: `scenario(setup, run, verify)`, its stages, its aims.

A scenario runs in a separate process, so its peak memory is measured separately. `run` is timed stage by stage,
`verify` fails unless the answer is right: a fast wrong answer is not a result. Units: seconds, bytes.
"""

import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class Stages:
    """A stopwatch with named stages; a stage entered twice in one run adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.facts: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def add(self, name: str, seconds: float) -> None:
        """Add a time measured elsewhere."""
        self.seconds[name] += seconds

    def fact(self, name: str, value: float) -> None:
        """Keep a figure that is not a time, such as bytes or nodes found."""
        self.facts[name] = value


@dataclass(frozen=True)
class Scenario:
    """A benchmark.

    setup makes what `run` works on, untimed; run(made, stages) is one repetition and returns the answer; verify(made,
    answer) raises AssertionError when it is wrong; aims by stage in seconds ("total" is the whole), or "peak" in bytes;
    reference: what it is compared with, in words.
    """

    name: str
    what: str
    setup: Callable[[], Any]
    run: Callable[[Any, Stages], Any]
    verify: Callable[[Any, Any], None]
    aims: Mapping[str, float] = field(default_factory=dict)
    repeats: int = 5
    reference: str = ""
    large: bool = False


@dataclass
class Result:
    """Medians over the repetitions after the first, which warms up."""

    scenario: str
    seconds: dict[str, float]
    facts: dict[str, float]
    peak_bytes: int
    first_s: float


SCENARIOS: dict[str, Scenario] = {}


def scenario(**fields: Any) -> Scenario:
    """Register a scenario."""
    made = Scenario(**fields)
    if made.name in SCENARIOS:
        raise ValueError(f"there are two scenarios named {made.name}")
    SCENARIOS[made.name] = made
    return made


def measure(chosen: Scenario) -> Result:
    """Run a scenario in this process."""
    made = chosen.setup()
    close = getattr(made, "close", lambda: None)
    try:
        rounds = []
        for _ in range(chosen.repeats + 1):
            stages = Stages()
            start = time.perf_counter()
            answer = chosen.run(made, stages)
            stages.seconds.setdefault("total", time.perf_counter() - start)
            chosen.verify(made, answer)
            rounds.append(stages)
        names = list(dict.fromkeys(name for one in rounds for name in one.seconds))
        seconds = {name: statistics.median(one.seconds[name] for one in rounds[1:]) for name in names}
        own_peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        peak = getattr(made, "peak_bytes", lambda: own_peak)()
        return Result(chosen.name, seconds, rounds[-1].facts, peak, rounds[0].seconds["total"])
    finally:
        close()
