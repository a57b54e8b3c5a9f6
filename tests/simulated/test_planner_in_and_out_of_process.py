"""A plan of a planner in the command's process and of a planner service is the same, byte for byte. What `fit` says in
both is held against the scheduler's answers, in `tests/parity/test_trimtab_fit.py`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimtab.clients.cli.demo import services
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list

NOW = "2026-03-01T00:00:00Z"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with services.planner(tmp_path_factory.mktemp("planner")) as service:
        yield service.address


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster") / "cluster.json.gz"
    shape = ClusterShape(nodes=40, pods=800, seed=5, spread_share=0.2, anti_affinity_share=0.2, pending_pods=5)
    write_list(generate(shape), path)
    return path


def printed(*arguments: object, hash_seed: int = 0) -> str:
    """Return the output of `trimtab` in a process with seeded hashes."""
    done = subprocess.run(
        [sys.executable, "-m", "trimtab.clients.cli", *map(str, arguments)],
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def decided(text: str) -> dict[str, Any]:
    """Return a plan without the parts that may differ between two equal requests."""
    answer: dict[str, Any] = json.loads(text)
    for stage in answer["diagnostics"]["stages"]:
        del stage["duration"]
    return answer


@pytest.mark.ci
def test_a_plan_is_the_same_wherever_it_is_made(address: str, cluster: Path) -> None:
    arguments = ("plan", cluster, "--now", NOW, "-o", "json")
    inside = decided(printed(*arguments))
    assert len(inside["scaleDown"]["unneeded"]) > 3
    assert decided(printed(*arguments, "--planner", address, hash_seed=1)) == inside
