"""YAML that must not be loaded: it would crash the process, fill the memory, or lose a value silently."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trimtab.common.documents.strict_yaml import YamlError, check_yaml, describe_yaml_error

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("[" * 30_000, "nested more than 200 levels", id="sequences"),
        pytest.param("{a: " * 30_000, "nested more than 200 levels", id="mappings"),
        pytest.param("- " * 30_000, "nested more than 200 levels", id="block sequences"),
        pytest.param("? " * 30_000, "nested more than 200 levels", id="keys"),
        pytest.param(LAUGHS, "line 6: aliases expand to more than", id="aliases of aliases"),
        pytest.param("a: &a [*a]", "line 1: alias 'a'", id="alias of itself"),
        pytest.param("a: 1\nb: {c: 1,\n  c: 2}", "line 3: key 'c' is given twice", id="key twice"),
        pytest.param("a: 1\n---\n- {1: x, '1': y}", "line 3: key '1' is given twice", id="key twice for Kubernetes"),
    ],
)
def test_what_is_refused_is_named_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(YamlError, match=problem):
        check_yaml(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab: -[]{}#&*!", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(st.lists(VALUES, max_size=3), st.booleans())
def test_what_is_written_from_values_is_accepted(values: list[object], flow: bool) -> None:
    shared = [values, values]
    check_yaml(yaml.safe_dump_all([*values, shared], default_flow_style=flow))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param("a: 1\nb: [\nc: }\n", "line 3: while parsing a flow node did not find expected", id="syntax"),
        pytest.param("a: 1\nb: !!python/tuple []\n", "line 2: could not determine a constructor", id="tag"),
        pytest.param("a: \0", "unacceptable character", id="character"),
    ],
)
def test_invalid_yaml_is_reported_in_one_line_with_its_line_number(text: str, what: str) -> None:
    with pytest.raises(yaml.YAMLError) as failed:
        yaml.load(text, Loader=yaml.CSafeLoader)
    assert describe_yaml_error(failed.value).startswith(what)
    assert "\n" not in describe_yaml_error(failed.value)
