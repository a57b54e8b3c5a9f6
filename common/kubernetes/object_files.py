"""Kubernetes objects from files, as raw dicts.

Decides which files are read (`.json`, `.yaml`, `.yml`, each also with `.gz`; single objects, `List`s, several YAML
documents) and which fields are required. Errors name file, object and field.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trimtab.common.documents.bounded_input import DamagedInputError, InputSizeError, read_bounded
from trimtab.common.documents.loading import DocumentError, load_documents
from trimtab.common.documents.strict_json import RepeatedKeyError, may_repeat_keys, refuse_repeated_keys
from trimtab.common.kubernetes.names import RULE, is_label, is_subdomain

Object = dict[str, Any]


class ObjectFileError(ValueError):
    """A file or object that cannot be used; the text names it and the reason."""


def load_files(paths: Iterable[Path]) -> list[Object]:
    """Read all objects of all files, in order. Raises `ObjectFileError`."""
    return [item for path in paths for item in _load_file(path)]


def _load_file(path: Path) -> Iterator[Object]:
    try:
        with path.open("rb") as file:
            data = read_bounded(file)
    except (OSError, InputSizeError, DamagedInputError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise ObjectFileError(f"{path}: cannot be read: {problem}") from error
    name = path.name.removesuffix(".gz")
    try:
        if name.endswith(".json"):
            documents = [msgspec.json.decode(data)]
            if may_repeat_keys(data):
                refuse_repeated_keys(data)
        elif name.endswith((".yaml", ".yml")):
            documents = list(load_documents(data))
        else:
            raise ObjectFileError(f"{path}: unknown kind of file; use .json, .yaml or .yml, also with .gz")
    except (msgspec.DecodeError, DocumentError, RepeatedKeyError, UnicodeDecodeError, RecursionError) as error:
        raise ObjectFileError(f"{path}: {' '.join(str(error).split())}") from error
    for document in documents:
        yield from _flatten(document, str(path))


def _flatten(document: Any, place: str) -> Iterator[Object]:
    """Yield the objects of a document, which may be a `List`."""
    if document is None:
        return
    if not isinstance(document, dict):
        raise ObjectFileError(f"{place}: expected an object, not {type(document).__name__}")
    if isinstance(document.get("items"), list):
        for position, item in enumerate(document["items"]):
            if isinstance(item, dict) and "kind" not in item and str(document.get("kind", "")).endswith("List"):
                item["kind"] = document["kind"].removesuffix("List")
            yield from _flatten(item, f"{place}: items[{position}]")
        return
    check(document, place)
    yield document


def check(item: Object, place: str) -> None:
    """Raise `ObjectFileError` unless an object has the fields that every object needs."""
    metadata = item.get("metadata")
    if not isinstance(item.get("kind"), str) or not isinstance(metadata, dict) or not metadata.get("name"):
        raise ObjectFileError(f"{place}: kind and metadata.name are required")
    _check_names(item["kind"], metadata, place)
    for field in ("spec", "status"):
        if not isinstance(item.get(field) or {}, dict):
            raise ObjectFileError(f"{place}: {item['kind']} {metadata['name']}: {field} must be an object")


def _check_names(kind: str, metadata: Mapping[str, Any], place: str) -> None:
    """Raise `ObjectFileError` unless name and namespace are valid in Kubernetes."""
    name, namespace = metadata["name"], metadata.get("namespace") or "default"
    if kind in ("Node", "Pod") and not (isinstance(name, str) and is_subdomain(name)):
        raise ObjectFileError(f"{place}: {kind} {str(name)[:100]!r}: a name has {RULE}")
    if not isinstance(namespace, str) or not is_label(namespace):
        raise ObjectFileError(f"{place}: {kind} {name}: {str(namespace)[:100]!r} is not a namespace; names have {RULE}")
