"""Compiled code is kept from run to run exactly as long as all that it was made of is unchanged."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.model.kernel_content import content_of

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
FILES = {
    "numbers.py": "STEP = 3\nROW = (5, 7)\n",
    "inner.py": """
from planner.model.jit import kernel
from package import numbers


@kernel
def inner(x: int) -> int:
    \"\"\"Add.\"\"\"
    return x + 10 + numbers.STEP
""",
    "outer.py": """
from planner.model.jit import kernel
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


def run(directory: Path, **environment: str) -> list[str]:
    """Call the outer kernel in a process of its own; return its result, and how often it came from the cache."""
    path = os.pathsep.join([str(directory), str(ROOT), str(ROOT / "protos")])
    known = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    # Sources are changed within a second here, which compiled Python would not notice.
    set_up = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env=known | set_up | environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def write(directory: Path, **changed: tuple[str, str]) -> None:
    """Write the package, a text of some modules replaced by another."""
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
    tmp_path: Path, changed: dict[str, tuple[str, str]], answer: str
) -> None:
    write(tmp_path)
    assert run(tmp_path) == ["14007", "0"]
    write(tmp_path, **changed)
    assert run(tmp_path) == [answer, "0"]
    assert run(tmp_path) == [answer, "1"]


def test_what_says_the_same_is_loaded(tmp_path: Path) -> None:
    write(tmp_path)
    run(tmp_path)
    assert run(tmp_path) == ["14007", "1"]
    write(tmp_path, inner=("Add.", "Add, and say so at length."), outer=("def outer", "# A remark.\ndef outer"))
    assert run(tmp_path)[0] == "14007"
    write(tmp_path, inner=("Add.", "Add, and say so at length."))
    assert run(tmp_path) == ["14007", "1"]


def test_where_sources_may_not_be_written_the_users_cache_is(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "package" / "__pycache__").write_text("no directory can be made here")
    home = tmp_path / "cache"
    assert run(tmp_path, XDG_CACHE_HOME=str(home)) == ["14007", "0"]
    assert caches(tmp_path) == caches(home)
    assert run(tmp_path, XDG_CACHE_HOME=str(home)) == ["14007", "1"]


def test_a_directory_of_ones_own_comes_first(tmp_path: Path) -> None:
    write(tmp_path)
    own = tmp_path / "own"
    assert run(tmp_path, NUMBA_CACHE_DIR=str(own)) == ["14007", "0"]
    assert caches(tmp_path) == caches(own)
    assert run(tmp_path, NUMBA_CACHE_DIR=str(own)) == ["14007", "1"]


def test_where_nothing_can_be_written_kernels_are_compiled_each_time(tmp_path: Path) -> None:
    write(tmp_path)
    nowhere = tmp_path / "package" / "__pycache__"
    nowhere.write_text("no directory can be made here")
    for _ in range(2):
        assert run(tmp_path, XDG_CACHE_HOME=str(nowhere), HOME=str(nowhere)) == ["14007", "0"]


def one(x: int) -> int:
    return x + LIMIT


LIMIT = 5


def test_content_is_told_by_what_is_reached_not_by_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_of(one)
    assert content_of(one) == before
    monkeypatch.setattr("planner.model.kernel_content._known", {})
    assert content_of(one) == before
    monkeypatch.setattr("planner.model.kernel_content._known", {})
    monkeypatch.setitem(globals(), "LIMIT", 6)
    assert content_of(one) != before
