"""Data cases in the YAML files of this folder: one list each, every case with its own name."""

from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent


def load(name: str) -> list[Any]:
    """Return the cases of a file as named parameters."""
    cases = yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names), f"{name}.yaml repeats a name"
    return [pytest.param(case, id=case["name"]) for case in cases]
