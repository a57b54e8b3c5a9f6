"""Additional features of documents: marks of the scheduler, sizes, outdated budgets, delays, controllers of other
groups.

Changes the objects of a generated cluster in place, with its own random numbers, so earlier draws do not change.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
DELAY = "delay-deletion.cluster-autoscaler.kubernetes.io/storage"
_OFTEN, _SOMETIMES, _SELDOM = 0.8, 0.15, 0.04


def widen(items: list[Object], seed: int) -> Object:
    """Change the objects; return settings that go with them."""
    r = random.Random(seed + 1_000_003)
    for item in items:
        _CHANGES.get(item["kind"], _leave)(item, r)
    if r.random() < _SOMETIMES:
        _other_group(items, r)
    return {"resourceMinimums": list(_minimums(items, r))} if r.random() < _SOMETIMES else {}


def _leave(item: Object, r: random.Random) -> None:
    """Change nothing."""


def _pod(item: Object, r: random.Random) -> None:
    if "nodeName" in item["spec"]:
        conditions = item["status"].get("conditions", [])
        if r.random() < _SELDOM:
            item["status"]["conditions"] = [c | {"status": "False"} if c["type"] == "Ready" else c for c in conditions]
        return
    if r.random() < _OFTEN:
        item["status"]["conditions"] = [UNSCHEDULABLE]
    if r.random() < _SOMETIMES:
        item["spec"] = item["spec"] | {"priority": -50}


def _group(item: Object, r: random.Random) -> None:
    if r.random() < _SELDOM:
        item["spec"]["targetSize"] = r.randint(1, item["spec"]["maxSize"])


def _budget(item: Object, r: random.Random) -> None:
    if r.random() < _SELDOM:
        item["metadata"]["generation"] = 2
    if r.random() < _SOMETIMES:
        item["spec"]["unhealthyPodEvictionPolicy"] = r.choice(["AlwaysAllow", "IfHealthyBudget"])


def _node(item: Object, r: random.Random) -> None:
    if r.random() < _SELDOM:
        item["metadata"].setdefault("annotations", {})[DELAY] = "true"


_CHANGES = {"Pod": _pod, "NodeGroup": _group, "PodDisruptionBudget": _budget, "Node": _node}


def _other_group(items: list[Object], r: random.Random) -> None:
    """Make one StatefulSet one of another API group, which no list holds."""
    owned = [owner for item in items for owner in item["metadata"].get("ownerReferences", ())]
    names = sorted({owner["name"] for owner in owned if owner["kind"] == "StatefulSet"})
    if names:
        name = r.choice(names)
        for owner in owned:
            if owner["kind"] == "StatefulSet" and owner["name"] == name:
                owner["apiVersion"] = "apps.kruise.io/v1beta1"
        items[:] = [i for i in items if i["kind"] != "StatefulSet" or i["metadata"]["name"] != name]


def _minimums(items: list[Object], r: random.Random) -> Iterator[Object]:
    total = sum(int(i["status"]["allocatable"]["cpu"].removesuffix("m")) for i in items if i["kind"] == "Node")
    yield {"resource": "cpu", "amount": str(int(total * r.uniform(0.5, 0.9)))}
