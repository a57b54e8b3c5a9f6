"""The client in Go makes the snapshots that the Python client makes, byte for byte, and deltas that planners apply.
Tests that run Go are in the nightly tier, since compiling takes long; the stage `go` of `.ci/run` runs them too.
"""

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.builders.go_client import (
    MODULE,
    RECORDED,
    RECORDINGS,
    Cluster,
    digests,
    random_cluster,
    recorded_clusters,
    recorded_offers,
    recorded_settings,
    snapshot_of,
    write_pair,
)
from tests.builders.notes import Note
from tests.builders.random_objects import random_objects
from trimtab.clients.cluster_generator import ClusterShape, generate, objects
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import snapshot_pb2 as pb

CLUSTERS = 300
ROOT = MODULE.parents[1]


def go_or_skip(note: Note) -> str:
    """Return the program `go`; skip the test, loudly, where there is none."""
    go = shutil.which("go")
    if go is None:
        note("NOT TESTED: the client in Go, because there is no Go here")
        pytest.skip("needs Go 1.26 on PATH")
    return go


def run_go(note: Note, *arguments: str) -> str:
    """Return what the tests of the Go client that the arguments choose print."""
    command = [go_or_skip(note), "test", "-count=1", "-v", "./trimtab", *arguments]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.nightly
def test_go_and_python_make_the_same_bytes_of_the_same_objects(tmp_path: Path, note: Note) -> None:
    for seed in range(CLUSTERS):
        write_pair(tmp_path, f"random-{seed:03}", random_cluster(seed))
    for seed in range(3):
        shape = ClusterShape(nodes=40, pods=600, seed=seed, spread_share=0.3, anti_affinity_share=0.3, pending_pods=20)
        write_pair(tmp_path, f"synthetic-{seed}", Cluster(list(objects(generate(shape)))))
    for file in RECORDINGS.glob("*.json.gz"):
        recorded = Cluster(json.loads(gzip.decompress(file.read_bytes()))["items"])
        write_pair(tmp_path, file.name.partition(".")[0], recorded)
    output = run_go(note, "-run", "TestSnapshotsAreThoseOfPython", "-golden", str(tmp_path))
    assert f"{len(list(tmp_path.glob('*.json')))} snapshots compared" in output


@pytest.mark.nightly
def test_a_delta_of_go_applied_is_the_whole_snapshot(tmp_path: Path, note: Note) -> None:
    pairs = []
    for seed in range(120):
        before = [*random_objects(seed), *_many_pods(seed)]
        after = _edited(before, Random(seed))
        pairs.append((snapshot_of(before), snapshot_of(after)))
        for name, snapshot in zip(("before", "after"), pairs[-1], strict=True):
            (tmp_path / f"{seed:03}.{name}").write_bytes(snapshot.SerializeToString())
    run_go(note, "-run", "TestDeltasAreWritten", "-deltas", str(tmp_path))
    applied = 0
    for seed, (first, second) in enumerate(pairs):
        file = tmp_path / f"{seed:03}.delta"
        if not file.exists():  # the whole snapshot is to be sent
            continue
        delta = pb.SnapshotDelta.FromString(file.read_bytes())
        assert apply_delta(canonicalize(first), delta).version == canonicalize(second).version, seed
        applied += 1
    assert applied > 60


@pytest.mark.nightly
def test_the_program_of_the_page_compiles(tmp_path: Path, note: Note) -> None:
    program = re.search(r"^```go\n(package main\n.*?)^```", (ROOT / "docs/go.md").read_text(), re.DOTALL | re.MULTILINE)
    assert program is not None
    source, overlay = tmp_path / "main.go", tmp_path / "overlay.json"
    source.write_text(program[1])
    # As if the file lay in the module.
    overlay.write_text(json.dumps({"Replace": {str(MODULE / "program/main.go"): str(source)}}))
    go = go_or_skip(note)
    for file in ("go.mod", "go.sum"):  # the program uses modules that the client does not
        shutil.copy(MODULE / file, tmp_path / file)
    options = ["-buildvcs=false", "-mod=mod", f"-modfile={tmp_path / 'go.mod'}", f"-overlay={overlay}"]
    command = [go, "build", *options, "-o", str(tmp_path / "program"), "./program"]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    formatted = subprocess.run(["gofmt", "-l", str(source)], capture_output=True, text=True, check=True)
    assert formatted.stdout == ""


def _many_pods(seed: int) -> list[Any]:
    """Return pods, such that a few changes are few."""
    meta = {"namespace": "team-b", "labels": {"app": "many"}}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "10m"}}}]}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta | {"name": f"many-{i:03}"}, "spec": spec}
        for i in range(60 + seed % 5)
    ]


def _edited(before: Sequence[Any], random: Random) -> list[Any]:
    """Return the objects after some changes: some are gone, some changed, some new."""
    after = json.loads(json.dumps([one for one in before if random.random() < 0.95]))
    for one in after:
        if one["kind"] in ("Pod", "Node", "Namespace") and random.random() < 0.05:
            one["metadata"].setdefault("labels", {})["changed"] = str(random.randrange(3))
        if one["kind"] == "Pod" and random.random() < 0.03:
            one["spec"]["priority"] = random.randrange(9)
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a-new-pod", "namespace": "team-b"}}
    return [*after, new | {"spec": {"containers": [{"name": "c"}], "nodeName": "n0"}}]


def test_the_recorded_snapshots_are_those_of_python() -> None:
    remedy = "run `python -m tests.builders.go_client`"
    assert json.loads((RECORDED / "digests.json").read_text()) == digests(), remedy
    assert json.loads((RECORDED / "offers.json").read_text()) == recorded_offers(), remedy
    assert json.loads((RECORDED / "settings.json").read_text()) == recorded_settings(), remedy
    for name, recorded in recorded_clusters().items():
        if name.startswith("random"):
            assert json.loads(gzip.decompress((RECORDED / name).read_bytes()))["items"] == recorded.objects, remedy


def test_go_knows_the_same_features_and_indices_of_the_contract() -> None:
    made = subprocess.run([sys.executable, ".ci/go_tables.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    kept = (MODULE / "trimtab/contract_tables.go").read_text()
    assert re.sub(r"\s+", " ", kept) == re.sub(r"\s+", " ", made.stdout), "run .ci/generate"
