"""Prints what a command has found: its blocks on a terminal, or a document for programs as JSON or YAML. The
document of an explanation has the planner's messages that it rests on, and its blocks: a new fact is added to one of
them, and is printed in every form.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from google.protobuf.message import Message

from trimtab.clients.cli.blocks import AnswerPage, page_document
from trimtab.clients.cli.output import Format, as_document, stdout_console
from trimtab.clients.cli.terminal import print_page
from trimtab.common.documents.output import escaped, is_visible


class _PlainDumper(yaml.CSafeDumper):
    """Writes equal parts out each time: anchors and aliases confuse people and simple readers."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Return that no part is replaced by an alias."""
        return True


def print_found(
    page: AnswerPage,
    form: Format,
    document: Callable[[], Any],
    *,
    verbose: bool = False,
    is_line: bool = False,
) -> None:
    """Print a page on a terminal, or the document in another form. is_line : JSON in one line, for a watch."""
    if form is Format.TABLE:
        print_page(stdout_console(), page, verbose=verbose)
    else:
        print_document(document(), form, is_line=is_line)


def print_document(document: Any, form: Format, *, is_line: bool = False) -> None:
    """Print a document as JSON or YAML on stdout."""
    if form is Format.YAML:
        text = _yaml(document, allow_unicode=True)
        sys.stdout.write(text if is_visible(text) else _yaml(document, allow_unicode=False))
    else:
        text = json.dumps(document, indent=None if is_line else 2, ensure_ascii=False)
        sys.stdout.write(escaped(text) + "\n")
    if is_line:
        sys.stdout.flush()


def messages_and_blocks(messages: Mapping[str, Message | Mapping[str, Any]], page: AnswerPage) -> dict[str, Any]:
    """Return the document of an explanation: messages by name, and the page's blocks by their fields."""
    named = {key: as_document(one) if isinstance(one, Message) else dict(one) for key, one in messages.items()}
    return named | {"blocks": page_document(page)["blocks"]}


def _yaml(document: Any, *, allow_unicode: bool) -> str:
    return str(yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, allow_unicode=allow_unicode))
