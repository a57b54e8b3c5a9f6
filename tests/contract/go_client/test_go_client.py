"""The client in Go sends what planners read: what it leaves out of objects decides nothing. Tests that run Go are in
the nightly tier, since compiling takes long; the stage `go` of `.ci/run` runs them too.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.notes import Note
from tests.builders.random_node_pools import random_pool_objects
from tests.builders.random_objects import random_objects
from trimtab.common.objects import build_snapshot, decode_objects

ROOT = Path(__file__).parents[3]
MODULE = ROOT / "clients/go"
NUMBERS = ("example.com/cost",)
"""Annotations with numbers that the test in Go sends too."""
CLUSTERS = 300


def go_or_skip(note: Note) -> str:
    """Return the program `go`; skip the test, loudly, where there is none."""
    go = shutil.which("go")
    if go is None:
        note("NOT TESTED: the client in Go, because there is no Go here")
        pytest.skip("needs Go 1.26 on PATH")
    return go


def built(items: list[Any]) -> tuple[bytes, bytes]:
    """Return the bytes of the snapshot of objects, and of the settings that they ask for."""
    made = build_snapshot(decode_objects(items, NUMBERS))
    settings = made.settings.SerializeToString(deterministic=True) if made.settings is not None else b""
    return made.snapshot.SerializeToString(deterministic=True), settings


@pytest.mark.nightly
def test_what_go_leaves_out_decides_nothing(tmp_path: Path, note: Note) -> None:
    clusters: dict[str, list[Any]] = {}
    for seed in range(CLUSTERS):
        clusters[f"random-{seed:03}"] = [*random_objects(seed), *(random_pool_objects(seed) if seed % 2 else ())]
    for file in (ROOT / "clients/data/recordings").glob("*.json.gz"):
        clusters[file.name.partition(".")[0]] = json.loads(gzip.decompress(file.read_bytes()))["items"]
    for name, items in clusters.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"items": items}))
    command = [go_or_skip(note), "test", "-count=1", "./trimtab", "-run", "TestObjectsOfAFolderAreTrimmed"]
    environment = {**os.environ, "TRIMTAB_OBJECTS": str(tmp_path)}
    done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    smaller = 0
    for name, items in clusters.items():
        text = (tmp_path / f"{name}.trimmed").read_bytes()
        assert built(json.loads(text)) == built(json.loads(json.dumps(items))), name
        smaller += len(text) < (tmp_path / f"{name}.json").stat().st_size
    assert smaller == len(clusters)


@pytest.mark.nightly
def test_the_program_of_the_page_compiles(tmp_path: Path, note: Note) -> None:
    program = re.search(
        r"^```go\n(package main\n.*?)^```", (ROOT / "docs/call-it.md").read_text(), re.DOTALL | re.MULTILINE
    )
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


def test_go_knows_the_kinds_fields_and_features_of_the_contract() -> None:
    made = subprocess.run([sys.executable, ".ci/go_tables.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (MODULE / "trimtab/contract.json").read_text() == made.stdout, "run .ci/generate"
