"""Loads: the number of replicas of workloads over time, and the arrivals of jobs.

Depends only on the scenario, never on the cluster: every setting gets the same trace. Times are seconds since the
beginning.
"""

import math
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.clients.simulation.scenario import Batch, Bursts, Diurnal, Scenario, WorkloadModel

DAY_S = 86_400.0


class Change(NamedTuple):
    """A change of a workload's number of replicas. `at_s` : seconds since the beginning; `replicas` : the new one."""

    at_s: float
    replicas: int


class JobArrival(NamedTuple):
    """A job of a batch. lifetime_s : how long each of its pods runs. at_s : seconds since the beginning; number :
    counts the jobs of the batch.
    """

    at_s: float
    number: int
    lifetime_s: float


def generator(scenario: Scenario, name: str) -> np.random.Generator:
    """Return a source of random numbers for one item of a scenario."""
    return np.random.default_rng((scenario.seed, zlib.crc32(name.encode())))


def changes(scenario: Scenario, workload: WorkloadModel) -> list[Change]:
    """Return the changes of a workload's replicas, in order of time, the first at 0."""
    draw = generator(scenario, f"{workload.namespace}/{workload.name}")
    if workload.diurnal is not None:
        found = _wave(workload.diurnal, scenario, draw)
    elif workload.bursts is not None:
        found = _bursts(workload.bursts, scenario.duration)
    else:
        found = iter([Change(0.0, workload.replicas), *(Change(step.at, step.replicas) for step in workload.steps)])
    kept: list[Change] = []
    for change in found:
        if not kept or kept[-1].replicas != change.replicas:
            kept.append(change)
    return kept


def arrivals(scenario: Scenario, batch: Batch) -> list[JobArrival]:
    """Return the jobs of a batch, in order of time."""
    draw = generator(scenario, f"batch {batch.namespace}/{batch.name}")
    found: list[JobArrival] = []
    at_s = 0.0
    while True:
        at_s += float(draw.exponential(3600.0 / batch.per_hour))
        if at_s >= scenario.duration:
            return found
        lifetime_s = max(1.0, float(draw.exponential(batch.lifetime)))
        found.append(JobArrival(round(at_s, 3), len(found), round(lifetime_s, 3)))


def _wave(wave: Diurnal, scenario: Scenario, draw: np.random.Generator) -> Iterator[Change]:
    midnight = scenario.start.replace(hour=0, minute=0, second=0, microsecond=0)
    first_s = (scenario.start - midnight).total_seconds()
    for number in range(math.ceil(scenario.duration / wave.every)):
        at_s = number * wave.every
        share = (1 + math.cos(2 * math.pi * (first_s + at_s - wave.peak) / DAY_S)) / 2
        wanted = wave.low + (wave.high - wave.low) * share
        yield Change(at_s, max(0, round(wanted * (1 + wave.noise * float(draw.uniform(-1, 1))))))


def _bursts(bursts: Bursts, duration_s: float) -> Iterator[Change]:
    yield Change(0.0, bursts.base)
    begin_s = bursts.first
    while begin_s < duration_s:
        yield Change(begin_s, bursts.base + bursts.size)
        yield Change(begin_s + bursts.length, bursts.base)
        begin_s += bursts.every
