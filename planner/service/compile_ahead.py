"""Compile kernels from the last to the first, beside a service that compiles them from the first to the last.

`trimtab.planner.service.warm_up` runs it as a separate process, `python -m trimtab.planner.service.compile_ahead`, if
kernels have to be compiled. It first answers the same requests with kernels as plain Python, which is quick and shows
which kernels are called with which types. Ends when everything is compiled, or when standard input closes: the service
has then ended or no longer needs it. If it fails, the service compiles the rest itself. After a quick start of the
service it continues with the kernels of scale-up: scale-down comes after scale-up in a plan, so its kernels were
compiled before.
"""

import os
import sys
import threading

from trimtab.common.rpc.collection import collection_rare
from trimtab.planner.compiled.decorators import compile_recorded, record_calls


def main() -> None:
    """Compile all."""
    threading.Thread(target=_end_with_service, daemon=True).start()
    record_calls()
    # Imported only now: kernels are defined when their modules are imported.
    from trimtab.planner.service.warm_up import QUICK, answer_requests

    with collection_rare():
        answer_requests(quick=QUICK in sys.argv)
        compile_recorded()


def _end_with_service() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
