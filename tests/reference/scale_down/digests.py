"""Uids sorted by Python."""


def sorted_uids(uids: list[str]) -> bytes:
    """Return uids in order, each followed by a line feed."""
    return b"".join(uid + b"\n" for uid in sorted(uid.encode() for uid in uids))
