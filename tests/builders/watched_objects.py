"""A watched cluster that has received objects as an API server sends them, and the same objects from files."""

import json
from typing import Any

from tests.builders.kubernetes_protobuf import encoded
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.registry import WATCHED, registered_kind
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.build import Actuation
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.watched_objects import WatchedObjects

Json = dict[str, Any]


def whole(store: WatchedObjects, groups: list[NodeGroup] | None = None, actuation: Actuation | None = None) -> bytes:
    """Return a whole snapshot of a store, made separately."""
    snapshot = SnapshotMaker(store).next_update(groups or [], actuation).snapshot
    assert snapshot is not None
    return snapshot.SerializeToString(deterministic=True)


def from_files(objects: list[Json]) -> bytes:
    """Return the snapshot of the same objects from files."""
    decoded = decode_objects(objects)
    decoded.given = set(WATCHED)
    return build_snapshot(decoded).snapshot.SerializeToString(deterministic=True)


def kind_of(one: Json) -> str:
    """Return the kind of an object as the registry has it."""
    return registered_kind(one["apiVersion"], one["kind"])


def raw(one: Json) -> bytes:
    """Return an object as the API server sends it."""
    return encoded(one).SerializeToString() if one["kind"] == "Pod" else json.dumps(one).encode()


def filled(objects: list[Json]) -> WatchedObjects:
    """Return a store that has received objects."""
    store = WatchedObjects()
    for one in objects:
        store.put(kind_of(one), [raw(one)])
    return store
