"""How the tests' own configuration repeats a test of whole processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.fixture(scope="session")
def session():
    yield []
    print("session ends")

@pytest.fixture(scope="module")
def plane(session):
    session.append("started")
    print("plane starts")
    yield set()
    print("plane ends")

def test_that_leaves_an_object(plane, session):
    assert "object" not in plane
    plane.add("object")
    assert len(session) == 2

def test_after_it(plane, session):
    assert plane == {"object"}
    assert len(session) == 2
"""


def test_a_repeated_test_gets_new_fixtures_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "e2e" / "test_again.py"
    file.parent.mkdir()
    file.write_text(TESTS)
    options = ["-c", os.devnull, "--rootdir", str(tmp_path), "-p", "tests.conftest", "-p", "no:cacheprovider", "-qs"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(file)], capture_output=True, text=True, check=False, timeout=120
    )
    assert "2 passed, 1 rerun" in run.stdout, run.stdout + run.stderr
    events = re.findall(r"plane starts|plane ends|session ends", run.stdout.partition("run again:")[0])
    assert events == ["plane starts", "plane ends", "plane starts", "plane ends", "session ends"]
