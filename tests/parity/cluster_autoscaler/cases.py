"""Data cases beside this file: one YAML list each, every case with a name of its own."""

from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent


def load(name: str) -> list[Any]:
    """The cases of a file as parameters, named."""
    cases = yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    names = [case["name"] for case in cases]
    assert len(set(names)) == len(names), f"{name}.yaml repeats a name"
    return [pytest.param(case, id=case["name"]) for case in cases]
