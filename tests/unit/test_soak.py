"""What the soak test counts as growth. The soak test itself is run by hand, not here."""

import os
import threading

import pytest

from tests.soak.growth import Sample, ends, grown, sample

MIB = 1 << 20
STEADY = Sample(0.0, 300 * MIB, 24, 15)


def run_of(*megabytes: int) -> list[Sample]:
    """Return samples one second apart."""
    return [Sample(float(at), size * MIB, 24, 15) for at, size in enumerate(megabytes)]


def test_the_warm_up_does_not_count() -> None:
    first, last = ends(run_of(*range(100, 200, 10), *[300] * 40), warm_up_s=10)
    assert grown(first, last) == []


def test_a_leak_is_found_and_a_single_peak_is_not_a_leak() -> None:
    first, last = ends(run_of(*range(300, 400)), warm_up_s=20)
    assert grown(first, last) == ["memory from 327 to 391 MiB"]
    first, last = ends(run_of(*[300] * 98, 900, 300), warm_up_s=20)
    assert grown(first, last) == []


@pytest.mark.parametrize("field", ["descriptors", "threads"])
def test_what_is_never_closed_is_found(field: str) -> None:
    more = STEADY._replace(**{field: getattr(STEADY, field) + 5})
    assert len(grown(STEADY, more)) == 1
    assert grown(more, STEADY) == []


def test_a_run_that_is_too_short_has_no_result() -> None:
    with pytest.raises(ValueError, match="run for longer"):
        ends(run_of(*[300] * 20), warm_up_s=15)


def test_a_process_is_sampled() -> None:
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    try:
        now = sample(os.getpid(), 1.0)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert now.threads >= 21
    assert now.rss_bytes > MIB
    assert now.descriptors >= 3
