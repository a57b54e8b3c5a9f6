"""Damaged Kubernetes objects in requests: read or refused, and a refused request changes nothing."""

import json
from random import Random
from typing import Any, Final

from google.protobuf.message import DecodeError

from tests.builders.kubernetes_protobuf import wrapped
from tests.builders.object_door import changes, key_of, reserve_any
from tests.builders.random_node_pools import random_pool_objects
from tests.builders.random_objects import random_objects
from tests.fuzz.mutations import flipped
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.watched.cluster_objects import ClusterObjects
from trimtab.common.watched.received_objects import ObjectReader, SharedParts
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import planner_pb2

Json = dict[str, Any]
VALUES: Final = (
    None, "", "x", "\x00", "é" * 300, 0, -1, 1, 2**31, 2**63, 2**64, 1e300, 0.5, True, [], {}, [None], [{}],
    {"a": None}, "1e400", "-5", "1Ei", "100m", "2026-01-01T00:00:00Z", "9999-99-99T00:00:00Z", "true", "*", "In",
    "NoSchedule",
)  # fmt: skip
"""Values in place of any other one."""
SEEDS: Final = 40
"""Clusters that inputs begin with."""


def cluster(seed: int) -> list[Json]:
    """Return a valid cluster."""
    return random_pool_objects(seed) if seed % 3 == 0 else random_objects(seed)


def seeds() -> list[bytes]:
    """Return valid parts of a request: half of them in the API server's protobuf encoding."""
    found = []
    for seed in range(1, 9):
        objects = cluster(seed)
        part = planner_pb2.ObjectsPart(put=[wrapped(one) if seed % 2 else json.dumps(one).encode() for one in objects])
        for one in objects[:2]:
            version, kind, namespace, name = key_of(one)
            part.delete.add(api_version=version, kind=kind, namespace=namespace, name=name + "-gone")
        found.append(part.SerializeToString())
    return found


def read_part(data: bytes) -> object:
    """Read a part of a request with objects, and make the snapshot of it; None if it is refused."""
    part = planner_pb2.ObjectsPart()
    try:
        part.ParseFromString(data)
    except DecodeError:
        return None
    reader = ObjectReader(SharedParts(("cost",)), reserve_any)
    try:
        reader.put(part.put)
        for key in part.delete:
            reader.delete(key.api_version, key.kind, key.namespace, key.name)
        update = ClusterObjects(("cost",)).update(reader.changes, None).update
        assert update.snapshot is not None
        return canonicalize(update.snapshot)
    except (InvalidInputError, SnapshotError):
        return None


def spoiled(one: Json, random: Random) -> Json:
    """Return an object in which a field, at any depth, has another value or is gone."""
    copy: Json = json.loads(json.dumps(one))
    holder: Any = copy
    while True:
        places = list(holder) if isinstance(holder, dict) else range(len(holder))
        if not places:
            return copy
        place = random.choice(places)
        if isinstance(holder[place], (dict, list)) and holder[place] and random.random() < 0.8:
            holder = holder[place]
            continue
        if isinstance(holder, dict) and random.random() < 0.2:
            del holder[place]
        else:
            holder[place] = random.choice(VALUES)
        return copy


def objects(random: Random) -> None:
    """Check that damaged objects that come as changes are refused, or lead to a snapshot, and that a refused request
    leaves the cluster as it was.
    """
    before, now = cluster(random.randrange(SEEDS)), cluster(random.randrange(SEEDS))
    kept = ClusterObjects()
    base = _version_of(kept, before)
    if base is None:
        return
    texts = [json.dumps(spoiled(one, random) if random.random() < 0.1 else one).encode() for one in now]
    texts += [wrapped(one) for one in now] if random.random() < 0.1 else []
    if random.random() < 0.3 and texts:
        texts[random.randrange(len(texts))] = flipped(random.choice(texts), random)
    reader = ObjectReader(SharedParts(()), reserve_any)
    try:
        reader.put(texts)
        update = kept.update(reader.changes, None, is_repeated=random.random() < 0.2).update
        if update.snapshot is not None:
            canonicalize(update.snapshot)
        elif update.delta is not None:
            apply_delta(base, update.delta)
    except InvalidInputError:
        after = kept.update(changes(), None).update
        left = base if after.is_empty else _followed(base, after)
        assert left.version == base.version, "a refused request has changed the cluster"
    except SnapshotError:
        pass


def _followed(base: Snapshot, update: Any) -> Snapshot:
    return canonicalize(update.snapshot) if update.snapshot is not None else apply_delta(base, update.delta)


def _version_of(kept: ClusterObjects, given: list[Json]) -> Snapshot | None:
    try:
        update = kept.update(changes(given), None).update
        assert update.snapshot is not None
        return canonicalize(update.snapshot)
    except (InvalidInputError, SnapshotError):
        return None
