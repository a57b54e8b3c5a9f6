"""README and the pages of `docs/`: their fenced blocks, commands and links, read from Markdown."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = tuple(
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
)
SHELL, SAMPLE = "bash", "console"


class Block(NamedTuple):
    """A fenced block; `language` is "" if it is a picture."""

    page: str
    language: str
    text: str


class Command(NamedTuple):
    """A command line of a fenced block, without comment, and the output that the page shows below it ("" = none)."""

    page: str
    line: str
    output: str = ""


@cache
def text_of(page: str) -> str:
    """Return the text of a page, by its path from the root of the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(*languages: str) -> list[Block]:
    """Return the fenced blocks of all pages in some languages; without any, all blocks."""
    found = [
        Block(page, language, text)
        for page in PAGES
        for language, text in re.findall(r"^```(\S*)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    ]
    return [block for block in found if not languages or block.language in languages]


def commands() -> list[Command]:
    """Return the commands of all pages, in their order."""
    return [command for block in blocks(SHELL, SAMPLE) for command in _commands(block)]


def inline_commands(*programs: str) -> list[Command]:
    """Return the code spans outside of fenced blocks that call one of some programs with arguments."""
    pattern = re.compile(rf"`((?:{'|'.join(map(re.escape, programs))}) [^`]+)`")
    return [
        Command(page, " ".join(line.split()))
        for page in PAGES
        for line in pattern.findall(re.sub(r"^```.*?^```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL))
    ]


def _commands(block: Block) -> Iterator[Command]:
    if block.language == SHELL:
        for line in block.text.splitlines():
            if without_comment := _without_comment(line):
                yield Command(block.page, without_comment)
        return
    for sample in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = sample.partition("\n")
        yield Command(block.page, _without_comment(line), output.strip("\n"))


def _without_comment(line: str) -> str:
    """Return a line as it is without a comment of the shell: a "#" after spare_nodes, outside of quotes."""
    comment = re.search(r"(?:^|\s)#\s", line)
    return line[: comment.start()].rstrip() if comment else line.rstrip()


def words(line: str) -> list[list[str]]:
    """Return the words of each program of a pipeline; `&` at its end and redirections are left out."""
    line = re.sub(r"\s*>\s*\S+$", "", line.removesuffix("&").strip())
    programs: list[list[str]] = [[]]
    for word in shlex.split(line):
        if word == "|":
            programs.append([])
        else:
            programs[-1].append(word)
    return programs


def target(line: str) -> str | None:
    """Return the file that a command line writes by redirection, if any."""
    found = re.search(r"\s>\s*(\S+)$", line)
    return found[1] if found else None
