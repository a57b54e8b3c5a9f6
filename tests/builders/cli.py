"""Running `trimtab` in the process of a test, as the fixture `trimtab` does, and files for it."""

import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from trimtab.clients.cli import main

# A command line builds all commands, which takes as long as many of them; hundreds run in this process.
typer.main.get_command = cache(typer.main.get_command)


class Outcome(NamedTuple):
    """The output and exit code of a run."""

    code: int
    out: str
    err: str

    def document(self) -> Any:
        """Return the printed JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)


Run = Callable[..., Outcome]


def listed(directory: Path, *objects: dict[str, Any], name: str = "cluster.json") -> Path:
    """Write objects as one List."""
    path = directory / name
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}), encoding="utf-8")
    return path


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line in this process; arguments of any type are converted to text."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["trimtab", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        printed = capsys.readouterr()
        assert isinstance(code, int)
        return Outcome(code, printed.out, printed.err)

    return run
