"""Programs in separate processes, forked from one that has already imported their modules.

Starting an interpreter and importing takes longer than most commands. For tests of a command's output and exit, not of
its start. Each program has standard input closed and shares neither memory nor open files with earlier ones.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from trimtab.common.rpc.entry import CIPHERS_VARIABLE, TLS_1_3_ALONE

COMMANDS = (
    "trimtab.clients.cli.commands",
    "trimtab.actuator.service.process",
    "trimtab.planner.process",
    "trimtab.planner.decisions.plan",
)
"""What `trimtab` and both services import."""


class Ended(NamedTuple):
    """How a program ended."""

    returncode: int
    stdout: str
    stderr: str


class Programs:
    """Runs `python -m MODULE …` or `python -c PROGRAM …`, one at a time."""

    def __init__(self, process: "subprocess.Popen[str]", directory: Path) -> None:
        self._process, self._directory = process, directory

    def __call__(self, *arguments: object, environment: Mapping[str, str] | None = None) -> Ended:
        """Run a module, or "-c" and a program, with arguments until it ends.

        environment : by default the test's. Of the variables that Python reads at its start, only PYTHONPATH and
        PYTHONDONTWRITEBYTECODE have an effect.
        """
        out, err = self._directory / "out", self._directory / "err"
        words = list(map(str, arguments))
        task = {"arguments": words, "environment": dict(environment or os.environ), "files": [str(out), str(err)]}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**task, "directory": str(Path.cwd())}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that forks has ended"
        return Ended(json.loads(answer), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@contextmanager
def programs(modules: Sequence[str] = COMMANDS, environment: Mapping[str, str] | None = None) -> Iterator[Programs]:
    """Import modules in a separate process that forks programs. environment : of that process, as above."""
    command = [sys.executable, "-m", "tests.builders.forked", *modules]
    root = Path(__file__).parents[2]
    with (
        tempfile.TemporaryDirectory() as directory,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=root,
            start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield Programs(process, Path(directory))
        finally:
            # Together with forked programs that a test did not wait for.
            os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    """Import, then fork for each line of standard input."""
    # As when a program starts: gRPC reads it when it is loaded.
    os.environ.setdefault(CIPHERS_VARIABLE, TLS_1_3_ALONE)
    for module in sys.argv[1:]:
        import_module(module)
    # Memory that the collector does not visit stays shared.
    gc.freeze()
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if not child:
            _end(_run(**task))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[str], directory: str) -> int:
    """Run the program in this process; return its exit code."""
    for number, path in enumerate((os.devnull, *files)):
        opened = os.open(path, os.O_RDONLY if not number else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process lives
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.path[:0] = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    try:
        if arguments[0] == "-c":
            sys.argv[:] = ["-c", *arguments[2:]]
            exec(arguments[1], {"__name__": "__main__"})
        else:
            sys.argv[:] = ["-m", *arguments[1:]]
            runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """Exit without finalizing the interpreter, which takes as long as the imports."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
