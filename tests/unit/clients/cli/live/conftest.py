"""Commands configure logging for their process; tests share one."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Forget the configuration: it would write to the stream of a test that has ended."""
    yield
    structlog.reset_defaults()
