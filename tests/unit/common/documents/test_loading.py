"""The one loader of YAML and JSON: what it refuses, with the line, and what it leaves as text."""

from typing import Any

import pytest
import yaml

from trimtab.common.documents.loading import (
    DocumentError,
    NotADocumentError,
    compose_document,
    load_document,
    load_documents,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: [1, x, null]\n", {"a": [1, "x", None]}, id="YAML"),
        pytest.param('{"a": [1,\t"x"]}', {"a": [1, "x"]}, id="JSON with a tab"),
        pytest.param("{a: 1, b: 2}", {"a": 1, "b": 2}, id="YAML that begins like JSON"),
        pytest.param(b'\n [{"a": 1}]', [{"a": 1}], id="bytes"),
        pytest.param("at: 2026-03-02T00:00:00Z", {"at": "2026-03-02T00:00:00Z"}, id="a time stays text"),
        pytest.param("name: 2026-03-02", {"name": "2026-03-02"}, id="a date stays text"),
        pytest.param('"1": x', {"1": "x"}, id="a number in quotes is a key"),
        pytest.param("a: &x {k: 1}\nb: {<<: *x}", {"a": {"k": 1}, "b": {"k": 1}}, id="a merged mapping"),
    ],
)
def test_a_document_is_loaded(text: str | bytes, value: Any) -> None:
    assert load_document(text) == value
    if b"\t" not in (text if isinstance(text, bytes) else text.encode()):
        assert list(load_documents(text)) == ([] if value is None else [value])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("a: 1\nb: 2\na: 3\n", "line 3: key 'a' is given twice", id="a key twice"),
        pytest.param('{"a": 1,\n "a": 2}', "line 2: key 'a' is given twice", id="a key twice in JSON"),
        pytest.param('{\t"a": 1, "a": 2}', "line 1: key 'a' is given twice", id="a key twice beside a tab"),
        pytest.param("a:\n  1: x\n", "line 2: key 1 is not text; write it in quotes", id="a number as key"),
        pytest.param("a: 1\n  b: 2\n", "line 2: mapping values are not allowed", id="not YAML"),
        pytest.param('{"a": 1,\n "b" 2]', "line 2: ", id="neither YAML nor JSON"),
        pytest.param("[" * 300, "nested", id="nested too deep"),
        pytest.param('{"a":' * 100_000, "nested", id="JSON nested too deep"),
        pytest.param(b"a: \xff", "", id="not text"),
        pytest.param("a: 1\n---\nb: 2\n", "expected a single document", id="two documents"),
    ],
)
def test_a_document_is_refused_in_one_line_that_names_the_line(text: str | bytes, told: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load_document(text)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_that_stand_for_millions_of_values_are_refused_before_anything_is_built() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    for load in (load_document, compose_document, lambda text: list(load_documents(text))):
        with pytest.raises(DocumentError, match="aliases expand to more than"):
            load("\n".join(lines))


def test_several_documents_are_loaded_one_by_one() -> None:
    documents = load_documents("a: 1\n---\n---\nb: 2\n")
    assert next(documents) == {"a": 1}
    assert list(documents) == [None, {"b": 2}]


def test_a_composed_document_has_the_lines_of_its_values() -> None:
    root = compose_document("a:\n  b: 1\n")
    assert isinstance(root, yaml.MappingNode)
    assert root.value[0][1].value[0][1].start_mark.line == 1
    assert compose_document("") is None


@pytest.mark.parametrize("text", ["a: 1\n  b: 2\n", '{"a" 1]', b"a: \xff"])
def test_a_text_that_is_neither_yaml_nor_json_has_another_error_than_one_that_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotADocumentError):
        load_document(text)
    with pytest.raises(DocumentError) as caught:
        load_document("a: 1\na: 2")
    assert not isinstance(caught.value, NotADocumentError)
