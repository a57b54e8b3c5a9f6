"""Compiled code is kept between runs exactly as long as all its sources are unchanged.

Processes that start at the same time compile each kernel once.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.forked import programs
from trimtab.planner.compiled.kernel_cache import content_of

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="needs the compiler: leave out NUMBA_DISABLE_JIT"
)
FILES = {
    "numbers.py": "STEP = 3\nROW = (5, 7)\n",
    "inner.py": """
from trimtab.planner.compiled.decorators import kernel
from package import numbers


@kernel
def inner(x: int) -> int:
    \"\"\"Add.\"\"\"
    return x + 10 + numbers.STEP
""",
    "outer.py": """
from trimtab.planner.compiled.decorators import kernel
from package.inner import inner
from package.numbers import ROW


@kernel
def outer(x: int) -> int:
    return middle(x) + ROW[1]


@kernel
def middle(x: int) -> int:
    return 1000 * inner(x)
""",
    "__init__.py": "",
}
PROGRAM = "from package.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"


def own_cache() -> dict[str, str]:
    """Return the environment without the cache that the tests share."""
    return {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}


def whole(directory: Path, **environment: str) -> dict[str, str]:
    """Return the environment of a program that can import the package."""
    path = os.pathsep.join([str(directory), str(ROOT), str(ROOT / "protos")])
    known = own_cache()
    # Sources change within a second here, which compiled Python files would not notice.
    return known | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | environment


def start(directory: Path, program: str = PROGRAM, **environment: str) -> subprocess.Popen[str]:
    """Start a program that can import the package."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", program]
    return subprocess.Popen(
        command, env=whole(directory, **environment), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def finish(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    """Return the words of a program's standard output, and its standard error."""
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.split(), errors


Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Return a function that calls the outer kernel in a new process without kernels, and returns its result and the
    number of cache hits.
    """
    with programs(["trimtab.planner.compiled.decorators"], own_cache()) as forked:

        def call(directory: Path, **environment: str) -> list[str]:
            done = forked("-c", PROGRAM, environment=whole(directory, **environment))
            assert done.returncode == 0, done.stderr
            return done.stdout.split()

        yield call


def write(directory: Path, **changed: tuple[str, str]) -> None:
    """Write the package, with a text of some modules replaced."""
    package = directory / "package"
    package.mkdir(exist_ok=True)
    for name, source in FILES.items():
        (package / name).write_text(source.replace(*changed.get(name.removesuffix(".py"), ("\0", ""))))


def caches(directory: Path) -> set[Path]:
    return {path.parent for path in directory.rglob("*.nbi")}


@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        pytest.param({"inner": ("10", "20")}, "24007", id="a kernel called by a kernel called"),
        pytest.param({"numbers": ("3", "4")}, "15007", id="a constant that an inner kernel reads"),
        pytest.param({"numbers": ("(5, 7)", "(5, 8)")}, "14008", id="a constant that is imported by name"),
        pytest.param({"outer": ("1000 *", "2000 *")}, "28007", id="a kernel defined after its caller"),
    ],
)
def test_code_made_of_something_that_has_changed_is_not_used(
    run: Run, tmp_path: Path, changed: dict[str, tuple[str, str]], answer: str
) -> None:
    write(tmp_path)
    assert run(tmp_path) == ["14007", "0"]
    write(tmp_path, **changed)
    assert run(tmp_path) == [answer, "0"]
    assert run(tmp_path) == [answer, "1"]


def test_code_for_a_vanished_type_is_compiled_for_the_present_one(run: Run, tmp_path: Path) -> None:
    package = tmp_path / "package"
    for name in ("Pair", "Couple"):
        write(tmp_path)
        (package / "numbers.py").write_text(
            f"from typing import NamedTuple\n\n\nclass {name}(NamedTuple):\n    one: int\n    other: int\n"
        )
        (package / "inner.py").write_text(
            "from trimtab.planner.compiled.decorators import kernel\n\n\n"
            "@kernel\ndef total(x):\n    return x.one + x.other\n"
        )
        (package / "outer.py").write_text(
            "from package.inner import total\nfrom package import numbers\n\n\nclass outer:\n    stats = total.stats\n"
            f"    def __new__(cls, x):\n        return total(numbers.{name}(x, 4))\n"
        )
        assert run(tmp_path) == ["5", "0"]
        assert run(tmp_path) == ["5", "1"]


def test_what_says_the_same_is_loaded(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    run(tmp_path)
    assert run(tmp_path) == ["14007", "1"]
    write(tmp_path, inner=("Add.", "Add, and say so at length."), outer=("def outer", "# A remark.\ndef outer"))
    assert run(tmp_path)[0] == "14007"
    write(tmp_path, inner=("Add.", "Add, and say so at length."))
    assert run(tmp_path) == ["14007", "1"]


def test_where_sources_may_not_be_written_the_users_cache_is(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "package" / "__pycache__").write_text("no directory can be made here")
    home = tmp_path / "cache"
    assert run(tmp_path, XDG_CACHE_HOME=str(home)) == ["14007", "0"]
    assert caches(tmp_path) == caches(home)
    assert run(tmp_path, XDG_CACHE_HOME=str(home)) == ["14007", "1"]


@pytest.mark.ci
def test_a_configured_directory_comes_first_is_shared_and_no_checkout_replaces_what_another_compiled(
    tmp_path: Path,
) -> None:
    own = str(tmp_path / "own")
    for name, changed, answer, hits in (
        ("first", {}, "14007", "0"),
        ("same", {}, "14007", "1"),
        ("other", {"numbers": ("3", "4")}, "15007", "0"),
        ("first", {}, "14007", "1"),
    ):
        checkout = tmp_path / name
        checkout.mkdir(exist_ok=True)
        write(checkout, **changed)
        # numba reads the directory at import, so these processes are new ones.
        assert finish(start(checkout, NUMBA_CACHE_DIR=own))[0] == [answer, hits]
    assert caches(tmp_path) == caches(Path(own))


def test_where_nothing_can_be_written_kernels_are_compiled_each_time(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    nowhere = tmp_path / "package" / "__pycache__"
    nowhere.write_text("no directory can be made here")
    for _ in range(2):
        assert run(tmp_path, XDG_CACHE_HOME=str(nowhere), HOME=str(nowhere)) == ["14007", "0"]


@pytest.mark.ci
def test_a_folder_that_others_can_write_is_not_loaded_from_and_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    own = tmp_path / "own"
    assert finish(start(tmp_path, NUMBA_CACHE_DIR=str(own))) == (["14007", "0"], "")
    folder = own / "package.outer"
    assert folder in caches(own)
    folder.chmod(0o777)
    answer, errors = finish(start(tmp_path, NUMBA_CACHE_DIR=str(own)))
    assert answer == ["14007", "0"]
    assert errors.count(f"{folder} may be written by every account") == 1
    folder.chmod(0o755)
    assert finish(start(tmp_path, NUMBA_CACHE_DIR=str(own))) == (["14007", "1"], "")


@pytest.mark.ci
def test_processes_that_start_at_the_same_time_compile_a_kernel_once(tmp_path: Path) -> None:
    write(tmp_path)
    processes = [start(tmp_path) for _ in range(3)]
    assert sorted(finish(process)[0][1] for process in processes) == ["0", "1", "1"]


def shipped(folder: Path, feature: str = "") -> str:
    """Return the program with kernels that came with the distribution, for processors that have a feature."""
    return (
        "from pathlib import Path\nfrom trimtab.planner.compiled import shipped\n"
        f"shipped.FOLDER = Path({str(folder)!r})\n"
        f"level = shipped.ProcessorLevel('x86-64-v3', {(feature,) if feature else ()!r})\n"
        "shipped.LEVELS = {'x86_64': level, 'aarch64': level._replace(cpu='generic')}\n"
    ) + PROGRAM


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package, and its kernels in the folder `kernels`, compiled for a level of processors."""
    directory = tmp_path_factory.mktemp("distribution")
    write(directory)
    cpu = {"x86_64": "x86-64-v3", "aarch64": "generic"}.get(platform.machine())
    if cpu is None:
        pytest.skip("needs x86-64 or 64-bit Arm: kernels are shipped for no other processor")
    options = {"NUMBA_CACHE_DIR": str(directory / "kernels"), "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": ""}
    assert finish(start(directory, **options))[0] == ["14007", "0"]
    return directory


@pytest.mark.ci
def test_kernels_of_the_distribution_are_loaded_and_nothing_is_written(distribution: Path, tmp_path: Path) -> None:
    write(tmp_path)
    program = shipped(distribution / "kernels")
    assert finish(start(tmp_path, program)) == (["14007", "1"], "")
    (tmp_path / "package" / "__pycache__").rmdir()
    (tmp_path / "package" / "__pycache__").write_text("no directory can be made here")
    nowhere = str(tmp_path / "package" / "__pycache__")
    assert finish(start(tmp_path, program, XDG_CACHE_HOME=nowhere, HOME=nowhere)) == (["14007", "1"], "")
    assert not caches(tmp_path)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("changed", "feature", "answer"),
    [
        pytest.param({"inner": ("10", "20")}, "", "24007", id="their source has changed"),
        pytest.param({}, "no such instruction", "14007", id="this processor lacks an instruction"),
    ],
)
def test_kernels_of_the_distribution_that_do_not_fit_are_compiled(
    distribution: Path, tmp_path: Path, changed: dict[str, tuple[str, str]], feature: str, answer: str
) -> None:
    write(tmp_path, **changed)
    program = shipped(distribution / "kernels", feature)
    assert finish(start(tmp_path, program)) == ([answer, "0"], "")
    assert finish(start(tmp_path, program)) == ([answer, "1"], "")
    assert caches(tmp_path)


HOLDER = """
from package.outer import outer, middle
from package.inner import inner
from trimtab.planner.compiled.decorators import numba
for one in (inner, middle):
    assert one._cache.load_overload(numba.int64(numba.int64), one.targetctx) is None
print("held", flush=True)
input()
"""


@pytest.mark.nightly
def test_the_kernels_of_a_process_that_was_killed_are_compiled_by_another(tmp_path: Path) -> None:
    write(tmp_path)
    holder = start(tmp_path, HOLDER)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    waiting = start(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=3)
    holder.kill()
    holder.communicate()
    assert finish(waiting)[0] == ["14007", "0"]


RECORDER = """
from trimtab.planner.compiled.decorators import compile_recorded, record_calls
record_calls()
from package.outer import outer
print(outer(1))
compile_recorded()
"""


def test_what_another_process_compiled_for_the_calls_that_it_noted_is_loaded(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    assert finish(start(tmp_path, RECORDER)) == (["14007"], "")
    assert run(tmp_path) == ["14007", "1"]


def one(x: int) -> int:
    return x + LIMIT


LIMIT = 5


def test_content_is_compared_by_what_indices_reach_not_by_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_of(one)
    assert content_of(one) == before
    monkeypatch.setattr("trimtab.planner.compiled.kernel_cache._known", {})
    assert content_of(one) == before
    monkeypatch.setattr("trimtab.planner.compiled.kernel_cache._known", {})
    monkeypatch.setitem(globals(), "LIMIT", 6)
    assert content_of(one) != before
