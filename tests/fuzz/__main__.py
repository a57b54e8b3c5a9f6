"""Read damaged input up to a number or for a time; print what was found.

An input that takes longer than a minute ends the run, with a traceback; `--first` continues at the last reported one.
"""

import argparse
import faulthandler
import logging
import sys
import time
import traceback
import warnings
from random import Random

import structlog

from tests.fuzz.targets import TARGETS, planned_all

SHARES = {
    "snapshot": 0.26, "delta": 0.14, "state": 0.28, "plan": 0.05, "shape": 0.02, "external": 0.1, "expander": 0.1,
    "objects": 0.05,
}  # fmt: skip
HANGS_S = 60.0
REPORT_EVERY = 2_000


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES), help="these kinds of input alone")
    options = parser.parse_args()
    warnings.simplefilter("error")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    names, weights = options.only, [SHARES[name] for name in options.only]
    # Compiles the kernels, which takes longer than an input may.
    planned_all()
    counts, found, until_s = dict.fromkeys(names, 0), 0, time.monotonic() + options.seconds
    begun_s = time.monotonic()
    for number in range(options.first, options.first + options.inputs):
        if number % REPORT_EVERY == 0:
            print(f"at input {number}, {found} found, {time.monotonic() - begun_s:.0f} s", flush=True)
        faulthandler.dump_traceback_later(HANGS_S, exit=True)
        random = Random(f"{options.seed}/{number}")
        (name,) = random.choices(names, weights)
        counts[name] += 1
        try:
            TARGETS[name](random)
        except Exception:
            found += 1
            print(f"input {options.seed}/{number} of {name}:")
            traceback.print_exc(file=sys.stdout)
        if time.monotonic() > until_s or found >= 20:
            break
    faulthandler.cancel_dump_traceback_later()
    print(f"{sum(counts.values())} inputs read ({counts}), {found} found, in {time.monotonic() - begun_s:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
