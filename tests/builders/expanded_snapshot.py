"""A snapshot as rows by key, without indices, and a delta applied to them: the naive meaning of both."""

from typing import Any

from tests.reference.snapshot.decode import read_rows
from trimtab.v1 import snapshot_pb2 as pb

Tables = dict[str, dict[Any, Any]]
KEYS = {
    "pods": lambda row: f"{row[0]}/{row[1]}",
    "nodes": lambda row: row[0],
    "groups": lambda row: row[0],
    "owners": lambda row: row.uid,
    "budgets": lambda row: f"{row[0]}/{row[1]}",
    "namespaces": lambda row: row[0],
}
"""The key of a row, by table of `tests.reference.snapshot.decode`."""
DELETED = {"groups": "deleted_node_groups", "budgets": "deleted_pod_disruption_budgets"}
ACTING = ("deletions", "evictions")


def expand(snapshot: pb.ClusterSnapshot) -> Tables:
    """Return every table as rows by key; what the actuator does only where the snapshot says it."""
    rows = read_rows(snapshot)
    tables = {name: {key(row): row for row in rows[name]} for name, key in KEYS.items()}
    assert {name: len(table) for name, table in tables.items()} == {name: len(rows[name]) for name in KEYS}
    if snapshot.HasField("actuation_status"):
        tables |= {name: dict(enumerate(rows[name])) for name in ACTING}
    return tables


def applied(base: Tables, delta: pb.SnapshotDelta) -> Tables:
    """Return the tables after a delta. A deleted key that the base lacks is a KeyError."""
    changed = expand(delta.changed)
    result = {name: dict(rows) for name, rows in base.items()}
    for name in KEYS:
        for key in getattr(delta, DELETED.get(name, f"deleted_{name}")):
            del result[name][key]
        result[name] |= changed[name]
    return result | {name: changed[name] for name in ACTING if name in changed}
