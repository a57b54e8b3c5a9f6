"""Pages of `-o html=FILE`, made and read."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.builders.cli import Run


class Reader(HTMLParser):
    """What a page has: elements with their attributes, texts, scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._is_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._is_script = tag == "script"

    def handle_data(self, data: str) -> None:
        (self.scripts if self._is_script else self.texts).append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._is_script = False

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def figures(self) -> list[dict[str, Any]]:
        found = re.search(r"^const figures = (.*);$", self.scripts[-1], re.MULTILINE)
        assert found is not None
        figures: list[dict[str, Any]] = json.loads(found[1])
        return figures

    def identities(self) -> set[str | None]:
        return {attributes["id"] for tag, attributes in self.elements if tag == "details" and "id" in attributes}


def page_of(trimtab: Run, directory: Path, *files: object) -> Reader:
    out = directory / "page.html"
    done = trimtab("plan", *files, "-o", f"html={out}")
    assert done.code == 0, done.err
    return Reader(out.read_text(encoding="utf-8"))
