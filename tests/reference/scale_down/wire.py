"""Destination maps built entry by entry, and uids sorted by Python."""

from trimtab.v1 import plan_pb2


def destinations(entries: list[tuple[str, str]]) -> dict[str, str]:
    """What the bytes must parse to, as the message holds it."""
    node = plan_pb2.UnneededNode()
    for pod, target in entries:
        node.destinations[pod] = target
    return dict(node.destinations)


def sorted_uids(uids: list[str]) -> bytes:
    """Uids in order, a line feed behind each."""
    return b"".join(uid + b"\n" for uid in sorted(uid.encode() for uid in uids))
