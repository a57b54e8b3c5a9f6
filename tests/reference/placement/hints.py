"""Digests of uids with Python's integers, and hints by dictionary."""

WORD = 2**64 - 1


def digest(text: bytes) -> int:
    """Return the signed 32-bit digest: multiply and rotate over little-endian words of 8 bytes."""
    state = 0x9E3779B97F4A7C15
    whole = len(text) - len(text) % 8
    for at in range(0, whole, 8):
        state = ((state ^ int.from_bytes(text[at : at + 8], "little")) * 0xBF58476D1CE4E5B9) & WORD
        state = ((state << 29) | (state >> 35)) & WORD
    state = ((state ^ int.from_bytes(text[whole:], "little")) * 0xBF58476D1CE4E5B9) & WORD
    state ^= len(text)
    state = ((state ^ (state >> 31)) * 0x94D049BB133111EB) & WORD
    return (state >> 32) - 2**31


def match(remembered: dict[int, list[tuple[int, int]]], members: list[list[int]], digests: list[int]) -> dict[int, int]:
    """Return the destination by pod, from (digest, destination) by node.

    The entry after the last match is used if it is the pod's, otherwise the first matching one.
    """
    found = {}
    for group, entries in remembered.items():
        at = 0
        for pod in members[group]:
            rows = [row for row, (digest, _) in enumerate(entries) if digest == digests[pod]]
            if rows:
                row = at if at in rows else rows[0]
                found[pod] = entries[row][1]
                at = row + 1
    return found
