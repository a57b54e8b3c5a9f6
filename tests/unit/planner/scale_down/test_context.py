"""The digest of the inputs of the choice among orders is the same in every process."""

import os
import subprocess
import sys

import pytest

from tests.builders.waiting import LIMIT_S

PRINTED = """
from trimtab.v1 import plan_pb2, snapshot_pb2
from trimtab.planner.model.settings import resolve_planner, resolve_scale_down
from trimtab.planner.scale_down.context import basis
from trimtab.planner.snapshot.decode import canonicalize
settings = plan_pb2.PlanSettings()
settings.scale_up.startup_taints.keys.extend("abcdefgh")
settings.planner.balance.ignored_labels.extend("uvwxyz")
general = resolve_planner(settings)
print(basis(canonicalize(snapshot_pb2.ClusterSnapshot()), resolve_scale_down(settings), general))
"""


@pytest.mark.ci
def test_sets_in_settings_give_the_same_basis_whatever_the_hash_seed() -> None:
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        call = [sys.executable, "-c", PRINTED]
        done = subprocess.run(call, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=environment)
        found.add(done.stdout)
    assert len(found) == 1
