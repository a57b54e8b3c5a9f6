"""Collects the sentences that the programs print: texts of the source with three words or more that are no docstrings,
and quoted texts of the contract. `python -m tests.sentences [FOLDER...]` prints them, one a line, to be read aloud.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("planner", "actuator", "clients", "common", "protos")
LEAST_WORDS = 3
_WORD = re.compile(r"(?<![\w.{])[A-Za-z][a-z'-]*(?![\w(=])")


class Sentence(NamedTuple):
    """A text that may be printed. `place` : file and line; `text` : with `{}` for each value that is put in."""

    place: str
    text: str


def sentences(*folders: str) -> Iterator[Sentence]:
    """Yield the sentences of some folders of the source, of all without any, by file and line."""
    for folder in folders or SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".proto") and "__pycache__" not in path.parts and "_pb2" not in path.name:
                read = _of_python if path.suffix == ".py" else _of_contract
                name = path.relative_to(ROOT)
                yield from (Sentence(f"{name}:{line}", text) for line, text in read(path) if _is_sentence(text))


def _is_sentence(text: str) -> bool:
    return len(_WORD.findall(text)) >= LEAST_WORDS and " " in text.strip()


def _of_python(path: Path) -> list[tuple[int, str]]:
    """Return the texts of a file, without those that stand alone as a statement: docstrings, also of fields."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in node.values)
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            found.append((node.lineno, " ".join("".join(map(str, parts)).split())))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, " ".join(node.value.split())))
    return sorted(found)


def _of_contract(path: Path) -> list[tuple[int, str]]:
    """Return the quoted texts of a file of the contract, without those of comments."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return [(number, text) for number, line in lines for text in re.findall(r'"([^"]*)"', line.partition("//")[0])]


def main() -> None:
    """Print the sentences of the folders that are named."""
    for place, text in sentences(*sys.argv[1:]):
        print(f"{place}\t{text}")


if __name__ == "__main__":
    main()
