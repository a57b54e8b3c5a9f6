"""`python -m tests.benchmarks [NAME…] [--large] [--json FILE]`: run scenarios, print the page."""

import argparse
import dataclasses
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from rich.console import Console

from tests.benchmarks import scenarios
from tests.benchmarks.page import missed, print_page
from tests.benchmarks.registry import SCENARIOS, Result, measure


def load() -> None:
    """Import every module of scenarios, which registers them."""
    for module in iter_modules(scenarios.__path__):
        import_module(f"{scenarios.__name__}.{module.name}")


def in_own_process(name: str) -> Result:
    """Measure one scenario in a fresh process."""
    command = [sys.executable, "-m", "tests.benchmarks", "--one", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Run the requested scenarios; exit code 1 if an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scenarios; none = all but the large ones")
    parser.add_argument("--large", action="store_true", help="the large ones too (minutes, gigabytes)")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    load()
    if options.one:
        print(json.dumps(dataclasses.asdict(measure(SCENARIOS[options.one]))))
        return
    unknown = sorted(set(options.names) - set(SCENARIOS))
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    names = options.names or [name for name, one in SCENARIOS.items() if options.large or not one.large]
    results = []
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        results.append(in_own_process(name))
    print_page(results, Console(width=None if sys.stdout.isatty() else 200))
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(result) for result in results], indent=2) + "\n")
    for line in missed(results):
        print(f"missed: {line}")
    sys.exit(1 if missed(results) else 0)


if __name__ == "__main__":
    main()
