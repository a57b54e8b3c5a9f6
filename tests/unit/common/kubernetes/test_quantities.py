"""Quantities in every notation of Kubernetes, with its rounding."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.quantities import (
    MAX_INT64,
    NANO,
    amount_of,
    counted_amount,
    counted_amounts,
    milli_units,
    parse_quantity,
    quantity,
    whole_units,
)

TABLE = [
    ("0", 0, 0),
    ("1", 1, 1000),
    ("+1", 1, 1000),
    ("007", 7, 7000),
    ("5.", 5, 5000),
    (".5", 1, 500),
    ("0.5", 1, 500),
    ("1.0005", 2, 1001),
    ("100m", 1, 100),
    ("1m", 1, 1),
    ("0.5m", 1, 1),
    ("1u", 1, 1),
    ("1n", 1, 1),
    ("0.1n", 1, 1),
    ("1500u", 1, 2),
    ("1k", 1000, 10**6),
    ("2M", 2 * 10**6, 2 * 10**9),
    ("3G", 3 * 10**9, 3 * 10**12),
    ("1T", 10**12, 10**15),
    ("1P", 10**15, 10**18),
    ("1E", 10**18, MAX_INT64),
    ("1Ki", 1024, 1024000),
    ("1.5Ki", 1536, 1536000),
    (".1Ki", 103, 102400),
    ("1Mi", 2**20, 2**20 * 1000),
    ("1Gi", 2**30, 2**30 * 1000),
    ("1Ti", 2**40, 2**40 * 1000),
    ("1Pi", 2**50, 2**50 * 1000),
    ("7Ei", 7 * 2**60, MAX_INT64),
    ("1e3", 1000, 10**6),
    ("1E3", 1000, 10**6),
    ("1e+3", 1000, 10**6),
    ("1.5e-3", 1, 2),
    ("12345678901234567890123", MAX_INT64, MAX_INT64),
    ("9Ei", MAX_INT64, MAX_INT64),
    ("1e999999", MAX_INT64, MAX_INT64),
    ("1e-999", 1, 1),
    ("-1", -1, -1000),
    ("-1500m", -2, -1500),
    (" 1 ", 1, 1000),
]


@pytest.mark.parametrize(("text", "whole", "milli"), TABLE, ids=[row[0] for row in TABLE])
def test_a_quantity_is_read_and_rounded_up(text: str, whole: int, milli: int) -> None:
    assert (whole_units(parse_quantity(text)), milli_units(parse_quantity(text))) == (whole, milli)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        ".",
        "Ki",
        "1K",
        "1ki",
        "1 Gi",
        "1e",
        "1e1.5",
        "0x1",
        "1_000",
        "--1",
        "1m5",
        "1mm",
        "abc",
        "٣",
        "1iK",
        "9" * 301,
    ],
)
def test_an_invalid_quantity_is_refused_with_a_valid_example(text: str) -> None:
    with pytest.raises(FieldError, match="is not a quantity; write it as Kubernetes does"):
        parse_quantity(text)


@pytest.mark.parametrize(("value", "whole"), [(2, 2), (0.5, 1), (1e3, 1000), (1e22, MAX_INT64), (1e-7, 1)])
def test_a_number_counts_as_its_text(value: float, whole: int) -> None:
    assert whole_units(quantity(value)) == whole


def test_cpu_is_counted_in_milli_cores_and_everything_else_in_whole_units() -> None:
    assert amount_of("cpu", parse_quantity("1.5")) == 1500
    assert amount_of("memory", parse_quantity("1.5")) == 2
    assert amount_of("nvidia.com/gpu", parse_quantity("1")) == 1


@pytest.mark.parametrize(
    ("resource", "value", "amount"),
    [
        pytest.param("cpu", "100m", 100, id="milli-cores"),
        pytest.param("cpu", 0.5, 500, id="a number"),
        pytest.param("memory", "1.5Gi", 3 << 29, id="bytes"),
        pytest.param("memory", "0.1", 1, id="rounded up"),
        pytest.param("memory", "-0.5", -1, id="rounded away from zero"),
        pytest.param("memory", "12E", MAX_INT64, id="cut at int64"),
        pytest.param("memory", "1e9999", MAX_INT64, id="an exponent of any length"),
    ],
)
def test_a_quantity_counts_as_the_scheduler_counts_it(resource: str, value: object, amount: int) -> None:
    assert counted_amount(resource, value) == amount
    assert counted_amounts({resource: value}) == {resource: amount}
    assert counted_amounts(None) == {}


@pytest.mark.parametrize("value", [None, True, [], "1 Gi"])
def test_a_value_that_is_no_quantity_is_refused_with_its_resource(value: object) -> None:
    with pytest.raises(FieldError, match=r"^cpu: .* is not a quantity"):
        counted_amounts({"memory": "1", "cpu": value})


SUFFIXES = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)} | {
    s: Fraction(f)
    for s, f in {
        "k": 10**3,
        "M": 10**6,
        "G": 10**9,
        "Ki": 2**10,
        "Mi": 2**20,
        "Gi": 2**30,
        "e2": 100,
        "E-2": Fraction(1, 100),
    }.items()
}


@given(st.integers(0, 10**9), st.text("0123456789", max_size=6), st.sampled_from(sorted(SUFFIXES)))
def test_a_quantity_equals_its_exact_value_rounded_up_to_nanos(whole: int, fraction: str, suffix: str) -> None:
    exact = Fraction(f"{whole}.{fraction or '0'}") * SUFFIXES[suffix] * NANO
    assert parse_quantity(f"{whole}.{fraction}{suffix}") == min(
        -(-exact.numerator // exact.denominator), MAX_INT64 * NANO
    )


@given(st.integers(0, MAX_INT64))
def test_whole_and_milli_units_survive_a_round_trip(value: int) -> None:
    assert whole_units(parse_quantity(str(value))) == value
    assert milli_units(parse_quantity(f"{value}m")) == value


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_clear_error(text: str) -> None:
    try:
        nano = parse_quantity(text)
    except FieldError:
        return
    assert abs(nano) <= MAX_INT64 * NANO
