"""Warming up compiles everything: a large cluster, a delta and CheckFit compile nothing more.

If something has to be compiled, a second process helps, compiles the same kernels, and always exits.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders.tiers import ci_but
from trimtab.planner.service.warm_up import cores

PROGRAM = """
import gc, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from opentelemetry.metrics import NoOpMeterProvider
from trimtab.v1 import plan_pb2
from trimtab.clients.cluster_generator import ClusterShape, generate, write_list
from trimtab.common.objects import read_files
from tests.builders.differences import difference
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.warm_up import NOW_S, warm_up


def compiled():
    found = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {f"{one.py_func.__module__}.{one.py_func.__name__}": len(one.signatures) for one in found}


quick = sys.argv[2] == "quick"
warm_up(quick)
before = compiled()
file = Path(sys.argv[1])
# A quick start does not wait for the kernels that find new nodes for pods.
waiting = 0 if quick else 5
shape = ClusterShape(nodes=40, pods=600, spread_share=0.2, anti_affinity_share=0.2, pending_pods=waiting)
write_list(generate(shape), file)
cluster = read_files([file]).snapshot
handler = RequestHandler(NoOpMeterProvider().get_meter("x"), 1 << 26, log_decisions=False)
request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN])
request.settings.scale_down.unneeded_time.seconds = 0
request.now.seconds = NOW_S + 10**8
answer = handler.plan(request, cluster.SerializeToString(), Caller())
old = type(cluster).FromString(cluster.SerializeToString())
cluster.nodes[0].unschedulable = True
delta = difference(old, cluster)
request.state.CopyFrom(answer.state)
request.base_version = answer.snapshot_version
if not quick:
    request.settings.planner.balance.max_difference = 3
handler.plan(request, delta.SerializeToString(), Caller())
if not quick:
    list(handler.check_fit(request, b"", Caller()))
after = compiled()
assert len(before) > 10, before
assert not any(name.endswith(".entry") for name in after), "a kernel without an entry for Python is called by Python"
late = {name: (before.get(name), count) for name, count in after.items() if before.get(name) != count}
assert not late, late
"""


ROOT = Path(__file__).parents[4]
NIGHTLY = pytest.mark.nightly
pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler: leave out NUMBA_DISABLE_JIT"
)


def run(program: str, *arguments: str, **environment: str) -> str:
    """Return a program's output."""
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos")])}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(
        command, env=os.environ | path | environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("start", ci_but(["quick"], ["full", "quick"]))
def test_nothing_compiles_after_the_warm_up(tmp_path: Path, start: str) -> None:
    run(PROGRAM, str(tmp_path / "cluster.json"), start)


SIGNATURES = """
import gc, sys
from numba.core.dispatcher import Dispatcher
{start}
{end}
for one in gc.get_objects():
    if isinstance(one, Dispatcher) and "no_cpython_wrapper" not in one.targetoptions:
        for signature in one.signatures:
            print(one.py_func.__module__, one.py_func.__name__, signature)
"""


@pytest.mark.ci
@pytest.mark.parametrize("quick", [pytest.param(False, id="full", marks=NIGHTLY), pytest.param(True, id="quick")])
def test_the_second_process_compiles_exactly_what_requests_call(quick: bool) -> None:
    answering, answer = "from trimtab.planner.service.warm_up import answer_requests", f"answer_requests({quick})"
    second = SIGNATURES.format(
        start="from trimtab.planner.compiled.decorators import compile_recorded, record_calls; record_calls()",
        end=f"{answering}; {answer}; compile_recorded()",
    )
    first = SIGNATURES.format(start=answering, end=answer)
    assert sorted(run(second).splitlines()) == sorted(run(first).splitlines())


COLD = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from trimtab.planner.service.warm_up import second_process

def children():
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()

how = sys.argv[2]
with second_process(how.startswith("quick")):
    assert not children()
    from tiny import tiny
    assert not children()
    assert tiny(1) == 2
    print(*children(), flush=True)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "kills":
        os.kill(int(children()[0]), signal.SIGKILL)
    if how == "quick, fails":
        raise SystemExit(1)
if how == "quick, killed":
    os.kill(os.getpid(), signal.SIGKILL)
while how == "quick" and children():
    time.sleep(0.1)
assert not children()
"""


@pytest.mark.ci
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc, as Linux has it")
@pytest.mark.skipif(cores() < 2, reason="needs a second core")
@pytest.mark.parametrize(
    "how",
    [
        "ends",
        "kills",
        *(pytest.param(one, marks=NIGHTLY) for one in ("killed", "quick", "quick, killed", "quick, fails")),
    ],
)
def test_a_second_process_is_started_only_to_compile_and_never_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))  # where nothing is compiled yet
    (tmp_path / "tiny.py").write_text(
        "from trimtab.planner.compiled.decorators import kernel\n\n\n"
        "@kernel\ndef tiny(x: int) -> int:\n    return x + 1\n"
    )
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos")])}
    command = [sys.executable, "-c", COLD, str(tmp_path), how]
    cold = subprocess.run(command, env=os.environ | path, capture_output=True, text=True, timeout=280, check=False)
    (second,) = cold.stdout.split()
    assert (cold.returncode == 0) == (how in ("ends", "kills", "quick")), cold.stderr
    for _ in range(600):
        if not Path(f"/proc/{second}").exists():
            break
        time.sleep(0.1)
    assert not Path(f"/proc/{second}").exists()
    # Now it is cached: nothing is compiled, and no second process is started.
    if how == "ends":
        assert run(COLD, str(tmp_path), how).split() == []


@pytest.mark.ci
def test_kernels_are_compiled_ahead_where_they_can_be_kept(tmp_path: Path) -> None:
    program = "from trimtab.planner.__main__ import main; main()"
    place = os.environ.get("NUMBA_CACHE_DIR")
    command = [sys.executable, "-c", program, "--compile"]
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protos")])}
    done = subprocess.run(command, env=os.environ | path, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"compiled kernels are cached in {place or ROOT}")
    nowhere = {"NUMBA_CACHE_DIR": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "HOME": "/proc/nowhere"}
    nowhere["NUMBA_CACHE_LOCATOR_CLASSES"] = "UserProvidedCacheLocator"
    done = subprocess.run(
        command, env=os.environ | path | nowhere, capture_output=True, text=True, timeout=280, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "set NUMBA_CACHE_DIR to a writable directory" in done.stderr
