"""Selectors whose values grow take no more than a bounded work, whatever the API server's cost of them."""

import pytest

from tests.fuzz.shapes import EXPRESSIONS
from trimtab.planner.devices.cel import values
from trimtab.planner.devices.cel.values import MOST_WORK, are_equal, bounded_work, parse_semver, spend
from trimtab.planner.devices.model import DeviceContent, DeviceFeatures
from trimtab.planner.devices.selectors import LONGEST, DeviceSelectors, SelectorError
from trimtab.planner.model.execution import within

DOUBLED = ".map(x, [x, x, x, x, x, x, x, x])" * 60
TOO_DEAR = "actual cost limit exceeded"


def value(expression: str) -> bool:
    return DeviceSelectors(DeviceFeatures(37)).matches(expression, "gpu.example.com", DeviceContent())


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound the work of an evaluation to an eighth, which is reached sooner."""
    monkeypatch.setattr(values, "MOST_WORK", MOST_WORK // 8)


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize("expression", EXPRESSIONS[:-1], ids=range(len(EXPRESSIONS) - 1))
def test_expressions_whose_values_grow_eightfold_a_hundred_times_have_no_value(expression: str) -> None:
    levels = ".map(x, x + x + x + x + x + x + x + x)" * 100
    with pytest.raises(SelectorError, match=TOO_DEAR):
        value(expression.format(levels=levels))


@pytest.mark.usefixtures("little_work")
@pytest.mark.parametrize(
    "expression",
    [
        f"[[1]]{DOUBLED} == [[1]]{DOUBLED}",
        f"[[1]]{DOUBLED}.flatten(100).size() > 0",
        f"[[1]]{DOUBLED} in [[[1]]{DOUBLED}]",
        "lists.range(1000000).all(x, lists.range(1000000).transformMap(i, v, false, 1).size() == 0)",
        "lists.range(1000000).map(x, x).sort().size() > 0",
        f"lists.range(100000).all(i, '{'a' * 4000}'.matches('(a?){{900}}(a?){{90}}$'))",
        "['ab'].map(x, x.replace('', 'z" + "y" * 9000 + "')).map(x, x.replace('', x)).size() > 0",
    ],
)
def test_what_is_read_again_and_again_counts_each_time(expression: str) -> None:
    with pytest.raises(SelectorError, match=TOO_DEAR):
        value(expression)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("{[1]: 2}.size() > 0", "compile error: unsupported key type: list"),
        ("{dyn([1]): 2}.size() > 0", "unsupported key type: list"),
        ("dyn({1: 2})[dyn([1])] == 2", "no such key: list"),
        (f"semver('{'1' * 5000}.0.0').major() > 0", "is no semantic version"),
        ("true || " * LONGEST + "true", f"the API allows {LONGEST}"),
    ],
)
def test_keys_are_never_lists_and_numbers_and_texts_have_a_length(expression: str, problem: str) -> None:
    with pytest.raises(SelectorError, match=problem):
        value(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "[1u, 2u].sum() == 3u",
        "[[quantity('1')]].flatten().size() == 1",
        "cel.bind(x, 1 / 0 == 1, true)",
        "optional.of(1).orValue(1 / 0) == 1",
        "[2.5].filter(x, x < 0.0).sum() < 1u",
        "!(1 / 0 in [])",
        "cidr('10.0.0.1/8') != cidr('10.0.0.0/8')",
        "!quantity('1').includes('1')",
        "[1.5, 2.5].sum() == 4.0",
    ],
)
def test_values_are_those_of_the_real_evaluator(expression: str) -> None:
    assert value(expression)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("uint(1.0 / 0.0) > 0u", "type conversion error from double"),
        ("[dyn('a'), dyn('b')].sum() == 'ab'", "no such overload: the sum of string"),
        (r"'\ud800' == ''", "invalid escape"),
        ("dyn(quantity('1')).all(x, true)", "a comprehension over quantity"),
        ("[1].flatten().size() == 1", "found no matching overload for 'flatten'"),
        ("[[1]].flatten(-1).size() == 1", "level must be non-negative"),
        ("[dyn(1)].flatten(1).join() == ''", "found no matching overload|no such overload: join"),
        ("[1].existsOne(x, true)", "undeclared reference to 'x'|undeclared reference to 'existsOne'"),
        ("bool(string(7))", "compile error: type conversion error"),
    ],
)
def test_what_has_no_value_is_an_error_of_the_selector(expression: str, problem: str) -> None:
    with pytest.raises(SelectorError, match=problem):
        value(expression)


def test_usual_expressions_are_far_from_the_bound() -> None:
    assert value("lists.range(100).map(x, [x, x + 1]).flatten().sort().distinct().size() == 101")
    assert not value(f"dyn([[1]]{DOUBLED}) in {{1: 2}}")
    assert parse_semver(f"1.0.0-{'1' * 5000}") is None


class Taking:
    def __init__(self) -> None:
        self.bytes = self.checks = 0

    def check(self) -> None:
        self.checks += 1

    def reserve(self, byte_count: int, what: str) -> None:
        assert what
        self.bytes += byte_count


def test_memory_is_taken_before_work_and_the_limits_of_the_request_are_asked() -> None:
    taking = Taking()
    with within(taking), bounded_work():
        spend(MOST_WORK // 2)
        assert taking.bytes == 8 * (MOST_WORK // 2)
        assert are_equal((1,) * 70_000, (1,) * 70_000)
        assert taking.bytes > 8 * (MOST_WORK // 2 + 65_000)
    before = taking.checks
    with within(taking):
        value("lists.range(20000).all(x, x >= 0)")
    assert taking.checks > before + 10
