"""A stand-in for the drivers of devices: it publishes the slices of nodes that have come, a moment after them.

A slice is owned by its node, so the control plane removes it with the node. Runs in a thread of the test.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.actuator_process import apply, listed
from tests.e2e.control_plane.control_plane import ControlPlane

Json = dict[str, Any]
INTERVAL_S = 0.5
POOL = "pool"
"""The label of nodes that names what they have."""


@contextmanager
def driver_stand_in(plane: ControlPlane, slices_of: Callable[[str, str], list[Json]]) -> Iterator[None]:
    """Publish slices until the end. slices_of(node, pool) : those of a new node, none for others."""
    stopped = threading.Event()
    failures: list[Exception] = []

    def publish() -> None:
        published: set[str] = set()
        while not stopped.wait(INTERVAL_S):
            try:
                _publish_new(plane, slices_of, published)
            except Exception as error:
                failures.append(error)
                return

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    assert failures == []


def owned_by_node(node: Json, slices: list[Json]) -> list[Json]:
    """Return slices with their node as the owner."""
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return [one | {"metadata": one["metadata"] | {"ownerReferences": [owner]}} for one in slices]


def _publish_new(plane: ControlPlane, slices_of: Callable[[str, str], list[Json]], published: set[str]) -> None:
    made = []
    for node in listed(plane, "nodes"):
        meta = node["metadata"]
        if meta["uid"] not in published and "deletionTimestamp" not in meta:
            published.add(meta["uid"])
            made += owned_by_node(node, slices_of(meta["name"], meta["labels"].get(POOL, "")))
    if made:
        apply(plane, *made)
