"""Quantities and the requests of a pod are read as the API server reads them."""

from fractions import Fraction
from typing import Any

import pytest

from tests.builders.kubernetes import Json
from trimtab.clients.kubernetes.quantities_of_objects import parse_quantity, pod_requests


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("1", 1), ("100m", Fraction(1, 10)), ("1.5Gi", 3 << 29), ("1k", 1000), ("1M", 10**6),
        ("2E", 2 * 10**18), ("1e3", 1000), ("1E3", 1000), ("1e-3", Fraction(1, 1000)), ("5u", Fraction(5, 10**6)),
        ("7n", Fraction(7, 10**9)),
        (".5", Fraction(1, 2)), ("1.", 1), ("+3", 3), ("1Ki", 1024), ("2Ti", 2 << 40), ("12E", 12 * 10**18),
    ],
)  # fmt: skip
def test_a_quantity_is_read(text: str, value: Any) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "x", "1kk", "1 Gi", "Gi", "1e", "--1", "1e9999", "0x10", "1Ki5", "\u0661"])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


def container(cpu: str = "", limit: str = "", **more: Any) -> Json:
    resources = {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}
    return {"name": "c", "resources": resources, **more}


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        pytest.param({"containers": [container("100m"), container("1")]}, 1100, id="containers together"),
        pytest.param({"containers": [container(limit="2")]}, 2000, id="a limit where no request is"),
        pytest.param({"containers": [container("1", "2")]}, 1000, id="a request beside a limit"),
        pytest.param({"containers": [container("0.0001")]}, 1, id="rounded up"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3")]}, 3000, id="a large init container"
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("2", restartPolicy="Always")]},
            3000,
            id="a sidecar",
        ),
        pytest.param(
            {
                "containers": [container("1")],
                "initContainers": [container("2", restartPolicy="Always"), container("4")],
            },
            6000,
            id="an init container beside a sidecar",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead"),
        pytest.param({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, 5000, id="pod level"),
    ],
)
def test_what_a_pod_requests(spec: Json, cpu_milli: int) -> None:
    assert pod_requests(spec).get("cpu") == cpu_milli
