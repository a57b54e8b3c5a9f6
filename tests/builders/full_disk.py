"""A disk that is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

LIMIT = 100_000


@contextmanager
def full_disk(limit: int = LIMIT) -> Iterator[None]:
    """Let no file grow beyond the limit meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
