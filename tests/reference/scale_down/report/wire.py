"""Nodes of an answer, built field by field, and uids sorted by Python."""

from math import isnan

from trimtab.v1 import plan_pb2


def unneeded_node(
    name: str,
    since: tuple[int, int],
    reason: int,
    doubles: tuple[float, ...],
    texts: tuple[str, str, str],
    entries: list[tuple[str, str]],
    wave: int,
) -> plan_pb2.UnneededNode:
    """Return the message encoded by the bytes. doubles : utilization, saving, eviction cost; texts : digest, detail,
    gang.
    """
    node = plan_pb2.UnneededNode(node=name, not_now_reason=reason, destinations=dict(entries), wave=wave)
    node.since.seconds, node.since.nanos = since
    node.utilization, saving, node.eviction_cost = doubles
    if not isnan(saving):
        node.saving_per_hour = saving
    node.assumption.pods_to_move_count = len(entries)
    node.assumption.pods_to_move_digest, node.detail, node.gang = texts
    return node


Stay = tuple[str, int, int, str, str, float | None, dict[str, int]]
"""Name, reason, the blocking pod's reason, the blocking pod, detail, utilization or None, failures by predicate."""


def unremovable_node(row: Stay) -> plan_pb2.UnremovableNode:
    """Return the message to which the bytes must parse."""
    name, reason, blocking_reason, pod, detail, utilization, failed = row
    node = plan_pb2.UnremovableNode(node=name, blocking_pod=pod, detail=detail, utilization=utilization)
    node.reason, node.blocking_reason = reason, blocking_reason
    node.predicate_failure_counts.update(failed)
    return node


def sorted_uids(uids: list[str]) -> bytes:
    """Return uids in order, each followed by a line feed."""
    return b"".join(uid + b"\n" for uid in sorted(uid.encode() for uid in uids))
