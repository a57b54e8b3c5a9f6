"""Running `trimtab` in the process of a test, as the fixture `trimtab` does, and files for it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


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
