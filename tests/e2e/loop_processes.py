"""Planner and reference loop as processes against a real control plane."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.clients.planner_client import GrpcLink
from trimtab.common.rpc.channel_security import ChannelSecurity


@contextmanager
def process(module: str, *arguments: object, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of ours; ended by its id whatever happens."""
    with log.open("wb") as out:
        started = subprocess.Popen([sys.executable, "-m", module, *map(str, arguments)], stdout=out, stderr=out)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait(30)


def until(what: str, condition: Callable[[], Any], limit_s: float = 240) -> Any:
    end = time.monotonic() + limit_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, what
        time.sleep(0.1)


@contextmanager
def planner_at(
    address: str, folder: Path, *options: str, security: ChannelSecurity | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a planner that serves. security : what a caller needs, if the options ask for it."""
    with process("trimtab.planner", "--address", address, *options, log=folder / "planner.log") as started:
        with GrpcLink(address, security=security) as link:
            until("the planner serves", lambda: started.poll() is not None or _serves(link))
        assert started.poll() is None, (folder / "planner.log").read_text()
        yield started


def _serves(link: GrpcLink) -> bool:
    try:
        return bool(link.info().decisions)
    except Exception:
        return False
