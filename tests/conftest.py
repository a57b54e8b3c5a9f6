"""What holds for every test: how hypothesis runs, and that logging starts as it does in a new process.

Hypothesis has no deadline for one example, since kernels compile within the first one.

By default each run draws the same examples, so that a test fails for a change and not by luck; the profile `explore`
draws new ones, and more. Neither keeps examples in files, or fails where drawing an example is slow or in vain.
"""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.builders.examples import EXPLORE, MOST
from tests.builders.forked import Programs, programs

settings.register_profile(
    "trimtab",
    max_examples=MOST,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(EXPLORE, settings.get_profile("trimtab"), max_examples=100, derandomize=False)
settings.load_profile("trimtab")


@pytest.fixture(autouse=True)
def logging_as_in_a_new_process() -> None:
    """Forget how a command of an earlier test configured logging: to no output, or to the stream of that test."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def forked() -> Iterator[Programs]:
    """Commands in processes that need not import what they run."""
    with programs() as started:
        yield started
