"""Faults to inject: which operations of the simulated cluster and its cloud fail, and when.

Decides whether an operation fails or is slow. An operation is named like the method of `Cluster` or `CloudProvider`;
its subject is a node, a node group or a pod as "namespace/name".
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

Hook = Callable[[str, str], None]

FOREVER = 1 << 30


@dataclass
class Fault:
    """One fault. `subject` "*" = any; `times` counts down; `error` None = slow only. `operation` : of the cluster or
    the cloud; `delay_s` : seconds before it fails or runs.
    """

    operation: str
    subject: str = "*"
    error: Exception | None = None
    delay_s: float = 0.0
    times: int = FOREVER


class Faults:
    """The active faults. Thread-safe."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        # Called with operation and subject before and after each operation; a test kills the process here.
        self.before: Hook = _nothing
        self.after: Hook = _nothing

    def add(self, fault: Fault) -> None:
        """Activate a fault."""
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Deactivate all faults."""
        with self._lock:
            self._faults.clear()

    def strike(self, operation: str, subject: str) -> None:
        """Raise or wait if a fault applies."""
        self.before(operation, subject)
        with self._lock:
            struck = [fault for fault in self._faults if _applies(fault, operation, subject)][:1]
            for fault in struck:
                fault.times -= 1
        for fault in struck:
            if fault.delay_s:
                self._sleep(fault.delay_s)
            if fault.error is not None:
                raise fault.error


def _applies(fault: Fault, operation: str, subject: str) -> bool:
    return fault.times > 0 and fault.operation == operation and fault.subject in ("*", subject)


def _nothing(operation: str, subject: str) -> None:
    del operation, subject
