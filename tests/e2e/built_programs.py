"""Programs of others that tests start: where built ones are kept, and Go in a module that names their version."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def cache_folder() -> Path:
    """Return where `.ci/e2e` and tests keep what they have built: outside the checkout, thrown away at will."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab"


def go(module: Path, *arguments: str) -> str:
    """Run Go's tool in a module; return its output."""
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        ["go", *arguments], check=False, cwd=module, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, f"go {' '.join(arguments)}: {done.stderr[-3000:]}"
    return done.stdout


def skip_without_go(program: str) -> None:
    """Skip the test where there is no Go to build a program with."""
    if shutil.which("go") is None:
        pytest.skip(f"NOT TESTED: there is no Go to build {program} with")


def built_by_go(module: Path, package: str, name: str) -> Path:
    """Return a binary of a module's package, built now."""
    binary = cache_folder() / name
    go(module, "build", "-o", str(binary), package)
    return binary
