"""The groups that the Cluster Autoscaler of two real clusters grew, and our plan for the moment before."""

from __future__ import annotations

import gzip
import json
import re
from importlib.resources import files
from typing import Any

import pytest

from tests.parity.cluster_autoscaler_growth import DATA, Growth, ours

LEAST_WASTE = {"scaleUp": {"expanders": ["LEAST_WASTE"], "templateSource": "PREFER_NODE"}}
GCP, AWS = "gardener-gcp-g2", "gardener-aws-scenario-c"
SYSTEM_MIB = 500
"""What pods of kube-system request on each node of AWS, about: the recording is without them. Those of the other
recording request 457 and 607 MiB on its two nodes."""


def recorded_growth(name: str) -> dict[str, int]:
    """By how many nodes each group grew, over all loops."""
    entries = json.loads((DATA / f"{name}.recorded.json").read_text())["scaleUps"]
    splits = {split for entry in entries for split in re.findall(r"\{(\S+) (\d+)->(\d+)", entry["message"])}
    grown: dict[str, int] = {}
    for group, before, after in sorted(splits):
        grown[group] = grown.get(group, 0) + int(after) - int(before)
    return grown


def planned_growth(items: list[dict[str, Any]]) -> Growth:
    mine = ours({"now": "2024-06-01T00:00:00Z", "settings": LEAST_WASTE, "items": items})
    assert mine.offences == []
    return mine.growth


def items_of(name: str) -> list[dict[str, Any]]:
    recording = files("clients").joinpath("data/recordings").joinpath(f"{name}.json.gz")
    found: list[dict[str, Any]] = json.loads(gzip.decompress(recording.read_bytes()))["items"]
    return found


def with_system_pods(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cluster with a pod of a DaemonSet on each node."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "system", "uid": "system", "controller": True}
    resources = {"requests": {"memory": f"{SYSTEM_MIB}Mi"}}
    spec = {"containers": [{"name": "c", "resources": resources}], "tolerations": [{"operator": "Exists"}]}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "system", "namespace": "kube-system", "uid": "system"},
        "spec": {"selector": {"matchLabels": {"app": "system"}}, "template": {"spec": spec}},
    }
    names = [item["metadata"]["name"] for item in items if item["kind"] == "Node"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"system-{name}", "namespace": "kube-system", "ownerReferences": [owner]},
            "spec": {**spec, "nodeName": name},
            "status": {"phase": "Running"},
        }
        for name in names
    ]
    return [*items, daemon_set, *pods]


@pytest.mark.parametrize(("name", "items"), [(GCP, items_of(GCP)), (AWS, with_system_pods(items_of(AWS)))])
def test_the_groups_grow_as_the_real_autoscaler_grew_them(name: str, items: list[dict[str, Any]]) -> None:
    assert planned_growth(items).groups == recorded_growth(name)


def test_where_no_system_pod_was_recorded_small_nodes_serve_two_more_pods() -> None:
    # As recorded, a node of the smallest group has 6.46 GiB for a pod of 6 GiB; with system pods it has less.
    grown = planned_growth(items_of(AWS))
    smallest = "shoot--scalesim--scenario-c-p1-z1"
    assert grown.groups == recorded_growth(AWS) | {smallest: 2}
    assert len(planned_growth(with_system_pods(items_of(AWS))).pending) == len(grown.pending) + 2
