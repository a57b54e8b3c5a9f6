"""Reads pages of metrics as Prometheus does."""

from prometheus_client.parser import text_string_to_metric_families

from tests.builders.metrics import HISTOGRAMS


def check_page(page: str, promised: dict[str, dict[str, set[str]]]) -> None:
    """Raise AssertionError unless a page has every promised metric with its labels and at least those values."""
    samples: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    for name, labels in promised.items():
        found = samples.get(f"{name}_count" if name in HISTOGRAMS else name)
        assert found, f"{name} is not there"
        for label, values in labels.items():
            assert all(label in one for one in found), f"{name} has no label {label}"
            assert {one[label] for one in found} >= values, f"{name}: {label}"
