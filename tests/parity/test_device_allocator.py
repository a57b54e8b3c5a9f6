"""The device allocator against the real one: its own table of cases, random clusters, and selectors.

`device_oracle/README.md` says how the answers are made. Devices chosen, shares, node selectors and errors are compared;
of errors only that there is one.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.parity.device_documents import answers, comparable, device_content
from trimtab.planner.devices.model import DeviceFeatures
from trimtab.planner.devices.selectors import DeviceSelectors, SelectorError

DATA = Path(__file__).parent / "data/devices"
UNSUPPORTED = ("duration(", "url(")
"""Functions of other kinds of objects, which selectors of devices have no use for."""


def minor(version: str) -> int:
    """Return 36 for "1.36.3"."""
    return int(version.split(".")[1])


@cache
def recorded(name: str) -> list[dict[str, Any]]:
    """Return the documents of a file with their answers."""
    return [json.loads(line) for line in gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()]


@pytest.mark.parametrize("version", [36, 37])
def test_the_table_of_the_real_allocators_tests_has_the_same_answers(version: int) -> None:
    cases = recorded(f"table_{version}")
    assert len(cases) > 200
    different = [
        case["document"]["name"]
        for case in cases
        if answers(case["document"], version) != [[comparable(one) for one in pod] for pod in case["answers"]]
    ]
    assert different == []


def test_random_clusters_have_the_same_answers_pod_after_pod() -> None:
    different = []
    kinds = set()
    for case in recorded("random"):
        found = answers(case["document"], minor(case["version"]))
        expected = [[comparable(one) for one in pod] for pod in case["answers"]]
        kinds |= {
            "error" if "error" in one else "claims" if one["claims"] else "none" for pod in expected for one in pod
        }
        if found != expected:
            different.append(case["document"]["name"])
    assert different == []
    assert kinds == {"error", "claims", "none"}


def results_of(selectors: DeviceSelectors, expression: str, devices: list[dict[str, Any]]) -> str | None:
    """Return a letter for each device, as the oracle does, and None for an expression that does not compile."""
    try:
        selectors.program(expression)
    except SelectorError:
        return None
    letters = ""
    for one in devices:
        try:
            letters += "t" if selectors.matches(expression, one["driver"], device_content(one["device"])) else "f"
        except SelectorError:
            letters += "e"
    return letters


@pytest.mark.parametrize("version", [36, 37])
def test_selectors_compile_match_and_fail_as_the_real_ones_do(version: int) -> None:
    (case,) = (one for one in recorded("selectors") if minor(one["version"]) == version)
    selectors = DeviceSelectors(DeviceFeatures(version))
    document = case["document"]
    assert len(document["expressions"]) > 300
    different = []
    for expression, answer in zip(document["expressions"], case["answers"], strict=True):
        if expression.startswith(UNSUPPORTED):
            continue
        found = results_of(selectors, expression, document["devices"])
        if found != (None if answer.get("error") else answer["results"]):
            different.append((expression, found, answer))
    assert different == []
