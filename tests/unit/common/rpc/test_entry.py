"""A command's error if it is interrupted while loading, if the disk is full, or if a file cannot be created; and that
numpy does not ask for huge pages.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.forked import Programs
from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc.entry import HUGE_PAGES_VARIABLE

COMMANDS = {
    "trimtab": "trimtab.clients.cli",
    "trimtab-planner": "trimtab.planner",
    "trimtab-actuator": "trimtab.actuator",
}
# Sends the interrupt while a module that all commands need is loaded.
INTERRUPTED = """
import builtins, os, runpy, signal, sys
real = builtins.__import__
def load(name, *more, **named):
    if name == "typer":
        os.kill(os.getpid(), signal.SIGINT)
    return real(name, *more, **named)
builtins.__import__ = load
signal.signal(signal.SIGINT, signal.default_int_handler)
module = sys.argv.pop(1)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
# The command itself is replaced by one that only loads numpy.
LOADS_NUMPY = """
import sys, runpy
from trimtab.common.rpc import entry
run = entry.run_command
entry.run_command = lambda program, place, extra: run(program, "numpy:get_include", extra)
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
import numpy
print(int(numpy._core.multiarray._get_madvise_hugepage()))
"""


@pytest.mark.parametrize(("given", "huge"), [({}, 0), ({HUGE_PAGES_VARIABLE: "1"}, 1)], ids=["default", "wanted"])
def test_a_command_asks_for_huge_pages_only_if_the_user_wants_them(given: dict[str, str], huge: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != HUGE_PAGES_VARIABLE}
    call = [sys.executable, "-c", LOADS_NUMPY, COMMANDS["trimtab"]]
    done = subprocess.run(
        call, capture_output=True, text=True, timeout=LIMIT_S, check=True, env={**environment, **given}
    )
    assert done.stdout == f"{huge}\n"


@pytest.mark.parametrize("program", COMMANDS)
def test_an_interrupt_while_the_code_is_loaded_is_reported_in_one_line(program: str, tmp_path: Path) -> None:
    more = {"trimtab-actuator": [f"--state-dir={tmp_path}"], "trimtab": ["--version"]}.get(program, [])
    call = [sys.executable, "-c", INTERRUPTED, COMMANDS[program], *more]
    done = subprocess.run(call, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stderr == f"{program}: interrupted\n"
    assert done.returncode == 128 + signal.SIGINT


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
def test_a_full_disk_under_the_output_is_reported_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trimtab.clients.cli", "--help"], stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    assert done.stderr == f"trimtab: the output cannot be written: {os.strerror(28)}\n"
    assert done.returncode == 1


def test_a_planner_that_cannot_write_its_address_file_says_so_in_one_line(forked: Programs) -> None:
    done = forked("trimtab.planner", "--address-file=/proc/nowhere/address", "--log-level=error")
    assert done.returncode == 2
    assert done.stderr.startswith("trimtab-planner: ")
    assert "/proc/nowhere" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_command_whose_standard_stream_is_closed_ends_as_with_a_null_device(closed: int) -> None:
    call = [sys.executable, "-m", "trimtab.clients.cli", "--version"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *call], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert (bool(done.stdout), done.stderr) == (closed != 1, "")
