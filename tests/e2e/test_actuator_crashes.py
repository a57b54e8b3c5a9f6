"""The actuator is killed at each of its writes and calls, on a real control plane, and still ends correctly.

A run without deaths lists the points; then the actuator dies at them, at several in each scenario, and scenarios run in
parallel. Every fourth one shares a PostgreSQL store and elects a leader. `.ci/run` has so many deaths that each kind of
write and call is died at, before it and after it, the changes several times; nightly about every moment has one. By
environment: TRIMTAB_CRASH_POINTS deaths (from the beginning again when all moments are through), TRIMTAB_CRASH_SEED
what goes together, TRIMTAB_CRASH_WORKERS scenarios at a time, TRIMTAB_CRASH_AT one scenario alone with these points, as
a failure prints them.
"""

import os
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.builders.notes import Note
from tests.builders.postgresql import missing, running_postgresql
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.crash_points import Point, parse, point_batches, points_of, reached
from tests.e2e.crash_scenario import LEASE, CrashEnvironment, Scenario
from tests.e2e.fork_server import ForkServer
from tests.e2e.stages import write_stages
from trimtab.actuator.kube.api import connect

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2400)]

EACH_KIND, EVERY_MOMENT = 160, 500
"""Deaths of a run. A life has some 430 moments of 54 kinds, with a leader to elect 520 of 62."""
SEED = int(os.environ.get("TRIMTAB_CRASH_SEED", "1"))
WORKERS = int(os.environ.get("TRIMTAB_CRASH_WORKERS", "6"))
ONLY = os.environ.get("TRIMTAB_CRASH_AT", "")
# Deaths of one scenario; one scenario in so many elects a leader.
BATCH_SIZE, ELECTING = 8, 4
# For points that are not reached (a moment that came once need not come again) others are tried, so often.
ROUNDS = 5


class CrashCampaign:
    """All scenarios of a run."""

    def __init__(self, environment: CrashEnvironment, server: str) -> None:
        """`server` is PostgreSQL's URL, "" = there is none, and all stores are SQLite."""
        self._environment = environment
        self._server = server
        self.died: Counter[Point] = Counter()
        self.failures: list[str] = []

    def run(self, name: str, points: Sequence[Point], *, elects: bool) -> Scenario:
        """Run one scenario; record failures."""
        scenario = Scenario(self._environment, name, points, self._options(name) if elects else ())
        begun = time.monotonic()
        try:
            died = scenario.run()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            failure = f"{error!r} in line {where.lineno}, {where.line}"
            self.failures.append(f"{name}, seed {SEED}, elects {elects}, at {shown(points)}: {failure}")
            print(self.failures[-1], flush=True)
            return scenario
        self.died.update(died)
        print(f"{name}: died {len(died)} times in {time.monotonic() - begun:.0f} s at {shown(died)}", flush=True)
        return scenario

    def _options(self, name: str) -> tuple[str, ...]:
        if not self._server:
            return LEASE
        engine = sa.create_engine(
            self._server.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
        engine.dispose()
        return (*LEASE, f"--store={self._server.removesuffix('postgres')}{name}")


def shown(points: Sequence[Point]) -> str:
    return "; ".join(map(str, points))


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[CrashCampaign]:
    with ExitStack() as stack:
        stages = write_stages(cached_binaries(), tmp_path / "stages.yaml", slow_ms=0, job_ms=0)
        plane = stack.enter_context(ControlPlane(cached_binaries(), tmp_path / "plane", stages=[stages]))
        fork_server = stack.enter_context(ForkServer("tests.e2e.dying_actuator"))
        server = "" if missing() else stack.enter_context(running_postgresql())
        api = connect(plane.kubeconfig("admin"))
        stack.callback(api.close)
        yield CrashCampaign(CrashEnvironment(plane, api, fork_server, tmp_path), server)


@pytest.mark.parametrize(
    "deaths",
    [
        pytest.param(EACH_KIND, id="each kind"),
        pytest.param(EVERY_MOMENT, id="every moment", marks=pytest.mark.nightly),
    ],
)
def test_killed_at_each_write_and_each_call_nothing_is_lost_and_nothing_done_twice(
    campaign: CrashCampaign, deaths: int, note: Note
) -> None:
    begun = time.monotonic()
    deaths = int(os.environ.get("TRIMTAB_CRASH_POINTS", deaths))
    print(f"seed {SEED}, {WORKERS} scenarios at a time")
    if ONLY:
        campaign.run("only", [parse(text) for text in ONLY.split("; ")], elects="leases" in ONLY)
    else:
        kinds = run_all(campaign, deaths)
    died = campaign.died
    note(f"died {died.total()} times at {len(died)} points in {time.monotonic() - begun:.0f} s")
    assert campaign.failures == []
    if ONLY:
        return
    assert died.total() >= deaths
    # An event has a name of its own only when it is the first of those that are written together.
    calls = {kind for kind in kinds if " append " not in kind}
    missed = sorted(kind for kind in calls if not any(point.kind == kind for point in died))
    assert missed == [] or deaths < EACH_KIND, "kinds of calls that nobody died at"
    written = {point.kind for point in died if " append " in point.kind}
    assert len(written) >= len(kinds - calls) - 4 or deaths < EACH_KIND, "kinds of writes that nobody died at"


def run_all(campaign: CrashCampaign, deaths: int) -> set[str]:
    """Run scenarios without deaths, then those with deaths; return the kinds of moments."""
    with ThreadPoolExecutor(WORKERS) as pool:
        plain = pool.submit(campaign.run, "plain", (), elects=False)
        electing = pool.submit(campaign.run, "electing", (), elects=True)
        counts = reached(plain.result().moments), reached(electing.result().moments)
    if campaign.failures:
        return set()
    print(f"{counts[0].total()} moments without deaths, {counts[1].total()} with a leader to elect")
    for number in range(ROUNDS):
        wanted = deaths - campaign.died.total()
        if wanted > 0 and not campaign.failures:
            run_deaths(campaign, counts, wanted, SEED + 1_000_000 * number)
    return set(counts[0]) | set(counts[1])


def run_deaths(campaign: CrashCampaign, counts: tuple[Counter[str], Counter[str]], wanted: int, seed: int) -> None:
    """Let the actuator die `wanted` times: at all points, or, once some were not reached, at those that were."""
    shares = wanted - wanted // ELECTING, wanted // ELECTING
    runs = []
    for elects, (count, share) in enumerate(zip(counts, shares, strict=True)):
        points = [point for point in points_of(count) if not campaign.died or campaign.died[point]]
        if elects:  # first what only an election does
            points.sort(key=lambda point: point.kind in counts[0])
        batches = list(point_batches(points, share, BATCH_SIZE, seed))
        runs += [(number / len(batches), bool(elects), number, batch) for number, batch in enumerate(batches)]
    with ThreadPoolExecutor(WORKERS) as pool:
        # Those that elect mostly wait: they go side by side with those that do not.
        for _, elects, number, batch in sorted(runs):
            pool.submit(campaign.run, f"{'e' if elects else 's'}{seed}-{number}", batch, elects=elects)
