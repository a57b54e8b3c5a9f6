"""One loader for YAML and JSON that people write: bounded nesting and aliases, no key twice, keys that are text, times
that stay text, and errors that begin with the line. Used for settings, policies, scenarios, prices and Kubernetes
objects as YAML. Never reads a file.
"""

import json
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import yaml

from trimtab.common.documents.strict_json import RepeatedKeyError, load_json
from trimtab.common.documents.strict_yaml import YamlError, check_yaml, describe_yaml_error

_PEEK: Final = 1 << 12
"""Blanks before a document that are looked through."""
_END: Final = object()
_TEXT_TAG: Final = "tag:yaml.org,2002:str"


class DocumentError(ValueError):
    """A text that is not loaded. The message is one line, and begins with the line of the text where it is known."""


class NotADocumentError(DocumentError):
    """A text that is neither YAML nor JSON."""


class _Loader(yaml.CSafeLoader):
    """A loader that reads YAML as Kubernetes does: every key is text, and a time stays text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping, checking its keys first."""
        self.flatten_mapping(node)
        for key_node, _ in node.value:
            if key_node.tag != _TEXT_TAG:
                key = self.construct_object(key_node, deep=True)
                where = f"line {key_node.start_mark.line + 1}"
                raise DocumentError(f'{where}: key {key!r} is not text; write it in quotes: "{key_node.value}"')
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_document(text: bytes | str) -> Any:
    """Return the value of one document; None for an empty one. Text that looks like JSON is read as JSON first: that is
    faster, and JSON may contain tabs, which YAML forbids. Raises DocumentError.
    """
    with _named():
        if text[:_PEEK].lstrip()[:1] in (b"{", "{", b"[", "["):
            try:
                return _load_json(text)
            except json.JSONDecodeError:
                pass
        check_yaml(text)
        return yaml.load(text, Loader=_Loader)


def load_documents(text: bytes | str) -> Iterator[Any]:
    """Yield the value of each YAML document of a text. Raises DocumentError, before the first for nesting, aliases and
    keys.
    """
    with _named():
        check_yaml(text)
    documents = yaml.load_all(text, Loader=_Loader)
    while True:
        with _named():
            document = next(documents, _END)
        if document is _END:
            return
        yield document


def compose_document(text: bytes | str) -> Any:
    """Return the node of a document, with the positions of its values; None for an empty one. Raises DocumentError."""
    with _named():
        check_yaml(text)
        return yaml.compose(text, Loader=_Loader)


def line_of(node: Any, where: Sequence[int | str]) -> int:
    """Return the line of a value below the node of a document, or of the nearest one above it; from 1."""
    line: int = node.start_mark.line + 1
    for part in where:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is None:
                return line
            line, node = pair[0].start_mark.line + 1, pair[1]
        else:
            return line
    return line


def _load_json(text: bytes | str) -> Any:
    try:
        return load_json(text)
    except RepeatedKeyError:
        # JSON is YAML too, but for tabs, and that check knows the line.
        check_yaml(text)
        raise


@contextmanager
def _named() -> Iterator[None]:
    """Turn every error of the parsers into a DocumentError."""
    try:
        yield
    except DocumentError:
        raise
    except (YamlError, RepeatedKeyError) as error:
        raise DocumentError(str(error)) from None
    except RecursionError:
        raise DocumentError("it is nested too deep") from None
    except (yaml.YAMLError, ValueError) as error:
        raise NotADocumentError(describe_yaml_error(error)) from None
