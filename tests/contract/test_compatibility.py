"""Changes that break older callers are detected, by buf and by the last release's messages."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROTOS = Path(__file__).parents[2] / "protos"
BUF = Path(sys.executable).parent / "buf"

pytestmark = pytest.mark.skipif(not BUF.exists(), reason="needs buf: pip install -e '.[dev]'")


def breaking(protos: Path) -> str:
    """Return what buf reports for a contract against the baseline; "" = no breaking change."""
    call = [BUF, "breaking", "--against", PROTOS / "baseline.binpb"]
    return subprocess.run(call, cwd=protos, capture_output=True, text=True, check=False, timeout=120).stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(PROTOS, tmp_path / "protos", ignore=shutil.ignore_patterns("*.py", "*.pyi", "__pycache__"))
    return tmp_path / "protos"


def test_the_contract_takes_and_gives_what_the_last_release_did() -> None:
    assert breaking(PROTOS) == ""


@pytest.mark.parametrize(
    ("file", "before", "after", "told"),
    [
        pytest.param("plan", "  int32 target = 10;\n", "", 'field "10"', id="a field is gone"),
        pytest.param("plan", "  int32 target = 10;\n", "  int32 aim = 10;\n", "aim", id="a field has another name"),
        pytest.param("plan", "  int32 target = 10;\n", "  bool target = 10;\n", "bool", id="a field has another type"),
        pytest.param("planner", "  rpc GetInfo(", "  rpc Info(", "GetInfo", id="a method is gone"),
    ],
)
def test_a_change_that_breaks_callers_is_found(copy: Path, file: str, before: str, after: str, told: str) -> None:
    path = copy / "trimtab" / "v1" / f"{file}.proto"
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))
    assert told in breaking(copy)


def test_an_addition_is_not_a_breaking_change(copy: Path) -> None:
    path = copy / "trimtab" / "v1" / "plan.proto"
    path.write_text(path.read_text().replace("  int32 target = 10;\n", "  int32 target = 10;\n  int32 more = 1000;\n"))
    assert breaking(copy) == ""
