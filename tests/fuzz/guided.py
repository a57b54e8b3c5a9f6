"""Coverage-guided fuzzing of the readers of external bytes: `pip install atheris`, then

    NUMBA_CACHE_DIR=DIR python -m tests.fuzz.guided READER --inputs 1000000 [--seconds 60] [--corpus DIR]

READER : one of `tests.fuzz.readers`. An input that leads to lines not seen before is kept and changed further: as
bytes, and as a message whose fields, columns and rows are damaged. An exception that is not a refusal is printed with
its input, and the exit code is 1. An input that takes longer than a minute, or more than 2 GiB, ends the run.
"""

import argparse
import importlib
import logging
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

import structlog
from google.protobuf.message import DecodeError

ROOT = Path(__file__).parents[2]
MOST_FOUND = 20
REPORT_EVERY = 20_000


def uninstrumented() -> list[str]:
    """Return the compiled modules, which cannot be traced line by line."""
    files = [path for path in (ROOT / "planner").rglob("*.py") if "kernels" in path.parts]
    parts = [("trimtab", *path.relative_to(ROOT).with_suffix("").parts) for path in files]
    names = [".".join(one).removesuffix(".__init__") for one in parts]
    return [*names, "trimtab.planner.compiled.decorators"]


class Fuzzed:
    """One reader with the statistics of its inputs."""

    def __init__(self, name: str, most: int, most_s: float) -> None:
        readers: Any = importlib.import_module("tests.fuzz.readers")
        self._readers, self._name, self._most, self._most_s = readers, name, most, most_s
        self.reader = readers.READERS[name]
        self.count = self.read_count = 0
        self.found: list[bytes] = []
        self._begun_s = time.monotonic()

    def take(self, data: bytes) -> None:
        """Read one input."""
        self.count += 1
        try:
            self.read_count += not self._readers.refused(self.reader.read, data)
        except Exception:
            self.found.append(data)
            print(f"found: input {self.count} of {self._name}: {data.hex()}")
            traceback.print_exc(file=sys.stdout)
        if self.count % REPORT_EVERY == 0:
            self.report()
        is_over = self.count >= self._most or time.monotonic() - self._begun_s >= self._most_s
        if is_over or len(self.found) >= MOST_FOUND:
            self.end()

    def report(self) -> None:
        """Print progress."""
        took_s = time.monotonic() - self._begun_s
        print(
            f"{self._name}: {self.count} inputs, of which {self.read_count} were read and the others refused,"
            f" {len(self.found)} found, {took_s:.0f} s",
            flush=True,
        )

    def end(self) -> None:
        """Exit the process, the only way to end libFuzzer."""
        self.report()
        os._exit(1 if self.found else 0)

    def change(self, data: bytes, most_bytes: int, seed: int) -> bytes:
        """Return another input like this one."""
        mutations: Any = importlib.import_module("tests.fuzz.mutations")
        random = Random(seed)
        changed = None
        if self.reader.message is not None and random.random() < 0.7:
            message = self.reader.message()
            try:
                message.ParseFromString(data)
                changed = mutations.damaged(message, random)
            except DecodeError:
                pass
        if changed is None:
            atheris: Any = importlib.import_module("atheris")
            return bytes(atheris.Mutate(data, most_bytes))
        return bytes(changed.SerializeToString()[:most_bytes])


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader")
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="kept inputs, read first; default: none are kept")
    options = parser.parse_args()
    # Log records of the services are irrelevant here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    # A read past the end of an array raises.
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(
        include=["trimtab.planner", "trimtab.clients", "trimtab.actuator"], exclude=uninstrumented()
    ):
        fuzzed = Fuzzed(options.reader, options.inputs, options.seconds)
    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="trimtab-fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(fuzzed.reader.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    flags = (f"-seed={options.seed}", "-max_len=16384", "-timeout=60", "-rss_limit_mb=2048", "-verbosity=0")
    # Files that libFuzzer writes itself, such as slow inputs.
    flags = (*flags, f"-artifact_prefix={tempfile.mkdtemp(prefix='trimtab-fuzz-found-')}/")
    atheris.Setup([sys.argv[0], *flags, str(corpus)], fuzzed.take, custom_mutator=fuzzed.change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
