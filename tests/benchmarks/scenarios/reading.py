"""Files to a snapshot."""

from pathlib import Path

from tests.benchmarks.clusters import LARGE, objects_file
from tests.benchmarks.registry import Stages, scenario
from trimtab.common.objects import BuiltSnapshot, read_files


def run(path: Path, stages: Stages) -> BuiltSnapshot:
    with stages.stage("read"):
        built = read_files([path])
    stages.fact("file MB", path.stat().st_size / 1e6)
    return built


def verify(path: Path, built: BuiltSnapshot) -> None:
    assert len(built.snapshot.nodes) == LARGE.nodes
    assert abs(built.snapshot.pods.count - LARGE.pods) < 0.05 * LARGE.pods


scenario(
    name="read files",
    what="kubectl's JSON, 5,000 nodes / 150,000 pods, to a snapshot",
    setup=lambda: objects_file(LARGE),
    run=run,
    verify=verify,
    aims={"read": 10.0},
    repeats=2,
)
