"""Pauses of Python's garbage collector, where many objects are made of which none is in a cycle."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause the garbage collector: what is decoded has no cycles, but is many objects to visit."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
