"""The two services as processes: started on free loopback ports, always ended, nothing left on disk.

Never leaves a process behind: whenever the context ends, processes are stopped first by SIGTERM, then by SIGKILL.
SIGTERM and SIGHUP to the demo itself act like Ctrl-C. Units: seconds.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType

from trimtab.clients.cli.failures import FailedError
from trimtab.common.rpc.client import connect, wait_until_serving
from trimtab.common.rpc.errors import TrimtabError

START_TIMEOUT_S = 300.0
"""The planner compiles its kernels on its first start; a slow or busy machine needs minutes."""
STOP_TIMEOUT_S = 5.0
QUICK_START = "--quick-start"
_LOG_LINES = 20
_QUICK = [
    *("--delay-after-taint", "0.5", "--eviction-retry", "0.5", "--delete-poll", "0.25"),
    *("--drain-poll", "0.25", "--drain-poll-max", "0.5", "--drain-timeout", "120"),
    *("--pod-start", "1", "--pod-stop", "0.5", "--node-start", "1", "--instance-delete", "0.5"),
    *("--max-parallelism", "1000", "--max-drain-parallelism", "1000"),
]
"""A simulated cluster in which pods start and instances end within a second, polled as often. Each request limits how
many nodes may be deleted at a time."""
QUICKER = (
    *("--delay-after-taint", "0.2", "--eviction-retry", "0.25", "--delete-poll", "0.2"),
    *("--drain-poll", "0.2", "--drain-poll-max", "0.4"),
    *("--pod-start", "0.4", "--pod-stop", "0.2", "--node-start", "0.5", "--instance-delete", "0.2"),
)
"""Additional options: all of that in less than half the time, where nothing is to be interrupted."""


@dataclass(frozen=True)
class Service:
    """A service that was started: the process, the file to which it writes where it listens, its log. `name` : for
    messages; `address_file` : holds host:port.
    """

    name: str
    process: subprocess.Popen[bytes]
    address_file: Path
    log: Path

    @cached_property
    def address(self) -> str:
        """Where it listens, "host:port"; waits until it serves. Errors: FailedError."""
        return _address(self)


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary directory; meanwhile, signals to stop are turned into KeyboardInterrupt."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as directory:
            yield Path(directory)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def planner(directory: Path, *, quick_start: bool = False, options: Sequence[str] = ()) -> Iterator[Service]:
    """Run a planner. quick_start : compile first only what scale-down needs; options : more of them.

    Does not wait until it serves: its `address` does.
    """
    with _service("planner", (*((QUICK_START,) if quick_start else ()), *options), directory) as service:
        yield service


class ActuatorProcess:
    """An actuator that was started, and can be killed and started again over the same state directory."""

    def __init__(
        self, stack: ExitStack, directory: Path, options: Sequence[str], when_restarted: Sequence[str] = ()
    ) -> None:
        """when_restarted : further options once it was killed."""
        self._stack, self._directory, self._options = stack, directory, options
        self._when_restarted = when_restarted
        self._service = self._start(options)

    @property
    def address(self) -> str:
        """Address on which it listens, "host:port"; changes with a restart. Waits until it serves."""
        return self._service.address

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Its process; changes with a restart."""
        return self._service.process

    def kill_and_restart(self) -> float:
        """Send SIGKILL, start it again, wait until it serves; return how long it was down, seconds."""
        killed = time.monotonic()
        self._service.process.kill()
        self._service.process.wait()
        (self._directory / "actuator.address").unlink(missing_ok=True)
        started = self._start((*self._options, *self._when_restarted))
        _address(started)
        self._service = started
        return time.monotonic() - killed

    def _start(self, options: Sequence[str]) -> Service:
        return self._stack.enter_context(_service("actuator", options, self._directory))


@contextmanager
def actuator(
    directory: Path, clusters: Sequence[Path], options: Sequence[str] = (), when_restarted: Sequence[str] = ()
) -> Iterator[ActuatorProcess]:
    """Run an actuator over an embedded cluster made from the files.

    options : additional ones; when_restarted : those to add after a kill. Does not wait until it serves: its `address`
    does.
    """
    state = directory / "state"
    state.mkdir(parents=True, exist_ok=True)
    all_options = ["--cloud", "memory", "--state-dir", str(state), *_QUICK, *options]
    for cluster in clusters:
        all_options += ["--cluster", str(cluster)]
    with ExitStack() as stack:
        yield ActuatorProcess(stack, directory, all_options, when_restarted)


@contextmanager
def _service(name: str, options: Sequence[str], directory: Path) -> Iterator[Service]:
    """Run `python -m trimtab.NAME` until the context is left."""
    directory.mkdir(parents=True, exist_ok=True)
    address_file, log = directory / f"{name}.address", directory / f"{name}.log"
    common = ["--address", "127.0.0.1:0", "--address-file", str(address_file), "--metrics-address", ""]
    with ExitStack() as stack:
        out = stack.enter_context(log.open("ab"))
        process = subprocess.Popen(
            [sys.executable, "-m", f"trimtab.{name}", *common, "--log-level", "warning", *options],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # A new session: Ctrl-C then reaches only the demo, which stops the services in order.
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        stack.callback(_end, process)
        yield Service(name, process, address_file, log)


def _address(service: Service) -> str:
    """Return the address that the service wrote, once it reports SERVING."""
    name, process, file, log = service.name, service.process, service.address_file, service.log
    deadline = time.monotonic() + START_TIMEOUT_S
    address = ""
    while time.monotonic() < deadline:
        address = address or (file.read_text().strip() if file.exists() else "")
        if address and _serves(address):
            return address
        if process.poll() is not None:
            raise FailedError(f"the {name} ended with code {process.returncode} while starting:\n{tail(log)}")
        time.sleep(0.02)
    raise FailedError(f"the {name} was not ready within {START_TIMEOUT_S:.0f} s:\n{tail(log)}")


def _serves(address: str) -> bool:
    """Whether the service reports SERVING; waits for it a little."""
    with connect(address) as channel:
        try:
            wait_until_serving(channel, timeout_s=0.5)
        except TrimtabError:
            return False
    return True


def stop(started: Iterable[Service | ActuatorProcess]) -> None:
    """Ask services to stop. They do so side by side; their contexts wait until each has ended."""
    for service in started:
        service.process.terminate()


def tail(log: Path) -> str:
    """Return the last lines of a service's log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:]) or "(its log is empty)"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process by SIGTERM, then by SIGKILL. A second Ctrl-C does not interrupt this."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
