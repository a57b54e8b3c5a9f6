"""Read damaged input up to a number or for a time; print what was found."""

import argparse
import logging
import sys
import time
import traceback
import warnings
from random import Random

import structlog

from tests.fuzz.targets import TARGETS

SHARES = {"snapshot": 0.3, "delta": 0.15, "state": 0.3, "plan": 0.05, "external": 0.1, "expander": 0.1}


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES), help="these kinds of input alone")
    options = parser.parse_args()
    warnings.simplefilter("error")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    names, weights = options.only, [SHARES[name] for name in options.only]
    counts, found, until_s = dict.fromkeys(names, 0), 0, time.monotonic() + options.seconds
    for number in range(options.inputs):
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
    print(f"{sum(counts.values())} inputs read ({counts}), {found} found", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
