"""Compile kernels from the last to the first, beside a service that compiles them from the first to the last.

Run as a process of its own, `python -m planner.service.compile_ahead`, by `planner.service.warm_up` where kernels have
to be compiled. The same requests are answered with kernels as plain Python, which takes a moment and says which are
called with which types. Ends when all is compiled, or when standard input closes: then the service has ended or does
not need it any more. Whatever goes wrong here, the service compiles what is missing.
"""

import os
import sys
import threading

from planner.model.jit import compile_recorded, record_calls


def main() -> None:
    """Compile all."""
    threading.Thread(target=_end_with_service, daemon=True).start()
    record_calls()
    # Only now: kernels are defined when their modules are imported.
    from planner.service.warm_up import QUICK, answer_requests

    answer_requests(quick=QUICK in sys.argv)
    compile_recorded()


def _end_with_service() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
