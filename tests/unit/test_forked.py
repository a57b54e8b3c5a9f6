"""A forked program is independent: its arguments, environment, directory, output and exit code."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.forked import Ended, Programs, programs


@pytest.fixture(scope="module")
def forked() -> Iterator[Programs]:
    """Yield a runner of programs without preloaded imports."""
    with programs([]) as started:
        yield started


def test_output_and_exit_code_are_returned(forked: Programs) -> None:
    program = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.stderr.write('b'); sys.exit(3)"
    assert forked("-c", program, "a", 1) == Ended(3, "['a', '1'] \n", "b")
    assert forked("-c", "pass") == Ended(0, "", "")
    assert forked("-c", "raise SystemExit('c')") == Ended(1, "", "c\n")
    assert forked("-c", "import os; os.kill(os.getpid(), 9)").returncode == -9


def test_an_error_ends_it_with_a_traceback(forked: Programs) -> None:
    done = forked("-c", "1 / 0")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")


def test_it_has_the_given_environment_and_directory_and_finds_a_module(
    forked: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "found.py").write_text("import os; print(__name__, os.environ['NAME'], os.getcwd())")
    given = {"PYTHONPATH": os.pathsep.join([str(tmp_path), "elsewhere"]), "NAME": "value"}
    assert forked("found", environment=given) == Ended(0, f"__main__ value {tmp_path}\n", "")


def test_changes_of_memory_are_not_visible_to_the_next_program(forked: Programs) -> None:
    assert forked("-c", "import json; json.changed = True; print(1)").stdout == "1\n"
    assert forked("-c", "import json; print(hasattr(json, 'changed'))").stdout == "False\n"
