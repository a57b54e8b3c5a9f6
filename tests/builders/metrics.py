"""Metrics that the services promise, with their labels and the values that are checked.

Tests of running services compare the served metrics with these tables; tests of rules and dashboards compare their
queries with them. Pages are read as Prometheus does.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

PLANNER: dict[str, dict[str, set[str]]] = {
    "function_duration_seconds": {"function": {"decode", "columns", "classes", "simulate"}},
    "plans_total": {"decision": {"SCALE_DOWN"}, "result": set()},
    "snapshot_bases_total": {"kind": {"whole"}},
    "grpc_server_call_duration_seconds": {"method": {"Plan"}, "code": {"OK"}},
}
ACTUATOR: dict[str, dict[str, set[str]]] = {
    "scaled_down_nodes_total": {"reason": {"underutilized", "empty"}},
    "scaled_down_gpu_nodes_total": {"reason": {"empty"}},
    "function_duration_seconds": {"function": {"start_deletion", "apply_taints"}, "work": {"empty", "non_empty"}},
    "evictions_total": {"result": {"granted"}, "kind": {"moved", "daemon"}},
    "scale_down_duration_seconds": {"kind": {"drain", "empty"}},
    "deletions_in_progress": {"state": {"TAINTED", "DRAINING", "DELETING"}, "age": {"1m", "10m", "1h", "more"}},
    "oldest_deletion_age_seconds": {"state": {"TAINTED", "DRAINING"}},
    "failed_scale_downs_total": {"reason": {"CANCELLED"}, "kind": {"drain"}},
    "leading": {},
    "unknown_taints": {},
    "grpc_server_call_duration_seconds": {"method": {"StartDeletion"}, "code": {"OK"}},
}
REPLACEMENTS: dict[str, dict[str, set[str]]] = {
    "replacements_total": {"result": {"DONE"}, "reason": {"UNSPECIFIED"}},
    "replaced_nodes_total": {},
    "replacement_savings_total": {},
    "replacement_nodes_given_back_total": {},
    "replacements_in_progress": {"stage": {"PLANNED", "ORDERING", "WAITING", "DRAINING", "ROLLING_BACK"}},
    "function_duration_seconds": {"function": {"start_replacement"}},
}
HISTOGRAMS = {"function_duration_seconds", "scale_down_duration_seconds", "grpc_server_call_duration_seconds"}


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


DEPLOY = Path(__file__).parents[2] / "deploy"

OBSERVE = DEPLOY / "chart" / "observe"


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OBSERVE / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> Iterator[tuple[str, str]]:
    """Return each query with the title of its rule or panel."""
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    for panel in json.loads((OBSERVE / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")
