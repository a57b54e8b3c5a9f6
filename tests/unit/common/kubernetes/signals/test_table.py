"""The registry of signals: no row twice, values that mean something, and the page that is written from it."""

from pathlib import Path

import pytest

from trimtab.common.kubernetes.signals import cluster_autoscaler, karpenter, well_known
from trimtab.common.kubernetes.signals.signal import KINDS, Signal
from trimtab.common.kubernetes.signals.table import SIGNALS, page

PAGE = Path(__file__).parents[5] / "docs" / "signals.md"


def test_no_signal_is_listed_twice_and_each_says_everything() -> None:
    rows = [(row.key, row.kind, row.on) for row in SIGNALS]
    assert len(rows) == len(set(rows))
    assert all(row.kind in KINDS and all((row.key, row.on, row.values.text, row.effect, row.source)) for row in SIGNALS)


def test_the_page_is_written_from_the_table() -> None:
    write = "python -c 'from trimtab.common.kubernetes.signals.table import page; print(page(), end=\"\")'"
    assert PAGE.read_text() == page(), f"docs/signals.md is old: {write} > docs/signals.md"


@pytest.mark.parametrize(
    ("row", "good", "bad"),
    [
        (cluster_autoscaler.SCALE_DOWN_DISABLED, ["true", "false", ""], ["True", "yes", "1", " true"]),
        (karpenter.DO_NOT_DISRUPT, ["true", "false", "10m", "1h30m"], ["True", "10", "ten minutes"]),
        (cluster_autoscaler.SAFE_TO_EVICT_VOLUMES, ["cache", "cache,data"], ["cache, data", " cache"]),
        (well_known.POD_DELETION_COST, ["-5", "+7", "0"], ["1.5", "low"]),
    ],
    ids=lambda one: one.key if isinstance(one, Signal) else None,
)
def test_values_that_mean_nothing_are_told_from_others(row: Signal, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if not row.is_understood(value)] == []
    assert [value for value in bad if row.is_understood(value)] == []
