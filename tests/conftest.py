"""What holds for every test: how hypothesis runs, that modules are compiled once, and that logging starts as it does in
a new process.

Hypothesis has no deadline for one example, since kernels compile within the first one.

By default each run draws the same examples, so a test fails because of a change and not by chance; the profile
`explore` draws new ones, and more. Neither keeps examples in files, or fails because drawing an example is slow or in
vain.

Answers are as wide as without a terminal: workers inherit the size that the line editor, which pytest imports, notes in
the environment.

Both workers and more than a hundred processes import the same modules. They keep what they compile, beside the compiled
kernels, even where the environment tells Python otherwise, as images of containers do.
"""

import gc
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import structlog
import yaml
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from pytest_rerunfailures import suspended_finalizers

from tests.builders.examples import ALL, EXPLORE, EXPLORED, MOST
from tests.builders.forked import Programs, programs
from tests.builders.notes import PROPERTY, Note, notes_of
from trimtab.common.rpc.collection import collection_paused

WITH_PROCESSES: Final = frozenset({"contract", "e2e"})
"""Folders of tests that start planner, actuator, commands or a control plane, and wait for them."""

# Checkouts share what they compile, where numba looks for it once it is imported; nothing depends on what is there.
_KERNELS: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab" / "kernels"
os.environ.setdefault("NUMBA_CACHE_DIR", str(_KERNELS))
# The parser in Python takes ten times as long, for documents that are read while tests are collected.
yaml.SafeLoader = yaml.CSafeLoader
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
for _size in ("COLUMNS", "LINES"):
    os.environ.pop(_size, None)

settings.register_profile(
    "trimtab",
    max_examples=EXPLORED if ALL else MOST,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(EXPLORE, settings.get_profile("trimtab"), max_examples=EXPLORED, derandomize=False)
settings.load_profile("trimtab")
# Otherwise numbers and texts of the source are examples, too: any change of it changes all tests', and each process
# parses every module, which takes four seconds.
providers._get_local_constants = lambda: providers._local_constants


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove compiled kernels of two weeks ago from the folder that checkouts share: most are of changed sources."""
    if hasattr(session.config, "workerinput") or not _KERNELS.is_dir():
        return
    for path in _KERNELS.rglob("*.nb[ci]"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > 14 * 86400:
                path.unlink()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out end-to-end tests where their marker does: each of them carries it."""
    return True if collection_path.name == "e2e" and "not e2e" in config.getoption("markexpr") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spare the collector what lives until the end, modules and tests, which it would visit again and again."""
    with collection_paused():
        try:
            return (yield)
        finally:
            gc.freeze()


@pytest.fixture(autouse=True)
def logging_as_in_a_new_process() -> None:
    """Reset what an earlier test has left: a command's logging configuration, which is no output or the stream of that
    test, and the fields that a call bound.

    Tracebacks are plain: by default they are decorated, with values of all variables, which takes 0.1 s each.
    """
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()
    *processors, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*processors, plain])


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Return a function that writes a line into the summary of the run, whatever the test's outcome."""
    return partial(record_property, PROPERTY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run a test of whole processes once more if it fails, as it depends on what else the machine does. What it printed
    the first time is shown, and it fails if it fails again.
    """
    for item in items:
        if WITH_PROCESSES.intersection(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """End the fixtures that a failed test shares with its file before it runs again: what it left in a control plane
    would fail it again.
    """
    if getattr(item, "execution_count", 1) > 1:  # an attribute of pytest-rerunfailures, which kept these fixtures alive
        state = item.session._setupstate
        state.stack.update(suspended_finalizers)
        suspended_finalizers.clear()
        state.teardown_exact(item.session)  # type: ignore[arg-type]  # only its chain of parents is asked for


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the notes of all tests, and the failures of those that passed when run again."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"run again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
    notes = notes_of(report for reports in terminalreporter.stats.values() for report in reports)
    if notes:
        terminalreporter.section("notes")
        for line in notes:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def forked() -> Iterator[Programs]:
    """Run commands in processes that have already imported their modules."""
    with programs() as started:
        yield started
