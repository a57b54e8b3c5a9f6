"""A recording is a FILE like the objects it was made from: plan, fit and explain give the same answers for both."""

from itertools import pairwise
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.differences import difference
from tests.builders.messages import write_snapshot
from trimtab.common.objects import read_files
from trimtab.common.recording import RecordingWriter
from trimtab.v1 import snapshot_pb2

NOW = ("--now", "2026-01-31T12:00:00Z")
COMMANDS = [
    pytest.param(("plan", "{}", *NOW, "-o", "json"), id="plan"),
    pytest.param(("explain", "{}", "fit", "-o", "json"), id="fit"),
    pytest.param(("explain", "{}", "node/n1", *NOW), id="explain a node"),
    pytest.param(("explain", "{}", "pod/default/waiting", *NOW), id="explain a pod"),
]


def recorded(directory: Path, *snapshots: snapshot_pb2.ClusterSnapshot) -> Path:
    """Write a recording: the first cluster whole, the others as changes."""
    file = directory / "cluster.trimtab"
    with RecordingWriter(file) as writer:
        writer.write(snapshots[0])
        for before, after in pairwise(snapshots):
            writer.write(difference(before, after))
    return file


def answer(trimtab: Run, command: tuple[str, ...], file: Path) -> str:
    """Run a command over a file; durations are left out."""
    outcome = trimtab(*(part.replace("{}", str(file)) for part in command))
    assert outcome.code == 0, outcome.err
    return "\n".join(line for line in outcome.out.splitlines() if '"duration"' not in line)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_recording_of_one_cluster_is_answered_as_its_objects(
    trimtab: Run, cluster: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    recording = recorded(tmp_path, read_files([cluster]).snapshot)
    assert answer(trimtab, command, recording) == answer(trimtab, command, cluster)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_recording_of_several_loops_is_answered_as_its_last_cluster(
    trimtab: Run, cluster: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = listed(
        tmp_path,
        *(k8s.node(name, cpu="8", labels={"pool": "b"}) for name in ("n1", "n2", "gone")),
        k8s.pod("left", cpu="1", node="n1"),
        k8s.pod("bare", cpu="100m", node="gone"),
        name="before.json",
    )
    recording = recorded(tmp_path, read_files([before]).snapshot, read_files([cluster]).snapshot)
    assert answer(trimtab, command, recording) == answer(trimtab, command, cluster)


@pytest.mark.parametrize("column", ["label_set", "namespace"])
def test_a_recorded_cluster_that_breaks_the_contract_is_refused_with_table_and_field(
    trimtab: Run, cluster: Path, tmp_path: Path, column: str
) -> None:
    snapshot = read_files([cluster]).snapshot
    setattr(snapshot.pods, column, (1 << 20).to_bytes(4, "little") * snapshot.pods.count)
    write_snapshot(tmp_path / "broken.trimtab", snapshot)
    outcome = trimtab("explain", tmp_path / "broken.trimtab", "pod/default/waiting", *NOW)
    assert outcome.code == 2
    assert f"pods[0].{column}: {1 << 20} is no index into" in outcome.err


def test_a_recorded_cluster_that_is_damaged_gets_no_prices(trimtab: Run, cluster: Path, tmp_path: Path) -> None:
    snapshot, prices = read_files([cluster]).snapshot, tmp_path / "prices.csv"
    prices.write_text("type,price\nm5,1\n")
    for node in snapshot.nodes:
        node.label_set = 1 << 20
    write_snapshot(tmp_path / "broken.trimtab", snapshot)
    outcome = trimtab("plan", tmp_path / "broken.trimtab", "--prices", prices, *NOW)
    assert outcome.code == 2
    assert outcome.err.startswith("trimtab: the recorded cluster is damaged: ")
