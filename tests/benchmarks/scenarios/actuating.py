"""The actuator's memory: a start on a large journal, then its whole status over the wire, repeatedly."""

from typing import Any

from tests.benchmarks.registry import Stages, scenario

# What works on it is imported late: other scenarios do without, and their memory is measured.


def setup() -> Any:
    """A journal on disk."""
    from tests.benchmarks.journal import Journalled

    return Journalled()


def run(made: Any, stages: Stages) -> Any:
    """Start, and ask."""
    from tests.benchmarks import journal

    return journal.run(made, stages)


def verify(made: Any, status: Any) -> None:
    """Everything is there."""
    from tests.benchmarks import journal

    journal.verify(made, status)


scenario(
    name="actuator_journal",
    what="start on a journal of 1,000 drains of 30 pods, then the whole status over loopback gRPC",
    setup=setup,
    run=run,
    verify=verify,
    aims={"start on the journal": 2.0, "status": 0.020, "peak": 400 << 20},
)
