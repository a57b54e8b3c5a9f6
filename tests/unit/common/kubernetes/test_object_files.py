"""Files of Kubernetes objects are read in every form, and a broken one is named."""

import gzip
import json
from pathlib import Path

import pytest
import yaml

from tests.builders.kubernetes import listed, node
from trimtab.common.kubernetes.object_files import ObjectFileError, load_files


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param("a.json", "{", "a.json", id="truncated JSON"),
        pytest.param("a.yaml", "a: [", "a.yaml", id="broken YAML"),
        pytest.param("a.txt", "{}", "unknown kind of file", id="unknown suffix"),
        pytest.param(
            "a.json", '{"kind":"Pod","kind":"Node","metadata":{"name":"a"}}', "'kind' is given twice", id="key"
        ),
        pytest.param("a.yaml", "[" * 30_000, "nested more than", id="nested without end"),
        pytest.param("a.json", "[1]", "expected an object, not list", id="no object"),
        pytest.param("a.json", '{"kind":"List","items":[5]}', r"items\[0\]: expected an object, not int", id="item"),
        pytest.param(
            "a.json", '{"kind":"List","items":[{"kind":"Pod"}]}', r"items\[0\]: kind and metadata", id="no name"
        ),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ObjectFileError, match=message):
        load_files([tmp_path / name])


def test_files_of_every_form_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(listed(node("n1"), node("n2"))))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(node("n3")).encode()))
    (tmp_path / "c.yaml").write_text(yaml.safe_dump_all([node("n4"), listed(node("n5")), None]))
    bare = {"kind": "NodeList", "items": [{key: value for key, value in node("n6").items() if key != "kind"}]}
    (tmp_path / "d.json").write_text(json.dumps(bare))
    items = load_files(sorted(tmp_path.iterdir()))
    assert [item["metadata"]["name"] for item in items] == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert {item["kind"] for item in items} == {"Node"}


def test_a_time_without_quotes_stays_text_as_an_api_server_would_give_it(tmp_path: Path) -> None:
    metadata = "{name: n1, creationTimestamp: 2026-03-02T00:00:00Z}"
    (tmp_path / "a.yaml").write_text(f"kind: Node\nmetadata: {metadata}\n")
    (item,) = load_files([tmp_path / "a.yaml"])
    assert item["metadata"]["creationTimestamp"] == "2026-03-02T00:00:00Z"
