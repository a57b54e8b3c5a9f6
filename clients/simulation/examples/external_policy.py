"""A policy for `trimtab simulate --program`: a node of the cheapest group for as many cores as wait, empty nodes go.

    trimtab simulate shop.yaml --settings upstream --program "python3 external_policy.py"

Shows the protocol of `docs/simulate.md`; needs nothing but Python.
"""

import json
import math
import sys
from typing import Any

Json = dict[str, Any]


def decide(question: Json) -> Json:
    """Return the decision for one cluster."""
    by_kind: dict[str, list[Json]] = {}
    for item in question["items"]:
        by_kind.setdefault(item["kind"], []).append(item)
    pods = [one for one in by_kind.get("Pod", []) if "deletionTimestamp" not in one["metadata"]]
    daemons = [one for one in pods if any(owner["kind"] == "DaemonSet" for owner in owners(one))]
    busy = {one["spec"].get("nodeName") for one in pods if one not in daemons}
    nodes = [one["metadata"]["name"] for one in by_kind.get("Node", [])]
    waiting = sum(cores(one) for one in pods if not one["spec"].get("nodeName"))
    groups = sorted(
        by_kind.get("NodeGroup", []), key=lambda one: (one["spec"].get("price", 0.0), one["metadata"]["name"])
    )
    upcoming = max(0, sum(one["spec"]["targetSize"] for one in groups) - len(nodes))
    grown = {}
    for group in groups:
        size = float(group["spec"]["template"]["status"]["allocatable"]["cpu"])
        room = group["spec"]["maxSize"] - group["spec"]["targetSize"]
        wanted = max(0, math.ceil(waiting / size) - upcoming)
        if wanted and room:
            grown[group["metadata"]["name"]] = min(wanted, room)
            break
    return {"scaleUp": {"groups": grown}, "scaleDown": {"unneeded": [name for name in nodes if name not in busy]}}


def owners(pod: Json) -> list[Json]:
    """Return the references to a pod's owners."""
    return list(pod["metadata"].get("ownerReferences") or [])


def cores(pod: Json) -> float:
    """Return the cores that a pod requests."""
    total = 0.0
    for container in pod["spec"]["containers"]:
        text = str(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        total += float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    return total


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(decide(json.loads(line))) + "\n")
        sys.stdout.flush()
