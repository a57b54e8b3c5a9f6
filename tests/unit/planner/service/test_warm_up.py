"""Warming up compiles everything: a large cluster, a delta and a check of what fits compile nothing more."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from opentelemetry.metrics import NoOpMeterProvider
from trimtab.v1 import plan_pb2
from clients.cluster_generator import ClusterShape, generate, write_list
from clients.kubernetes_objects import read_files
from clients.snapshot_deltas import Interner, difference
from planner.service.engine import Caller, Engine
from planner.service.warm_up import NOW_S, warm_up


def compiled():
    found = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {f"{one.py_func.__module__}.{one.py_func.__name__}": len(one.signatures) for one in found}


warm_up()
before = compiled()
file = Path(sys.argv[1])
shape = ClusterShape(nodes=40, pods=600, spread_share=0.2, anti_affinity_share=0.2, pending_pods=5)
write_list(generate(shape), file)
cluster = read_files([file]).snapshot
engine = Engine(NoOpMeterProvider().get_meter("x"), 1 << 26, tell=False)
request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN])
request.now.seconds = NOW_S + 10**8
answer = engine.plan(request, cluster.SerializeToString(), Caller())
interner = Interner()
old = interner.intern(cluster)
cluster.nodes[0].unschedulable = True
delta = difference(old, interner.intern(cluster), interner)
request.state.CopyFrom(answer.state)
request.base_version = answer.snapshot_version
request.settings.scale_down.max_balance_difference = 3
engine.plan(request, delta.SerializeToString(), Caller())
list(engine.check_fit(request, b"", Caller()))
after = compiled()
assert len(before) > 10, before
late = {name: (before.get(name), count) for name, count in after.items() if before.get(name) != count}
assert not late, late
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_nothing_compiles_after_the_warm_up(tmp_path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "cluster.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
