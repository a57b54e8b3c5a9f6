"""Groups that differ from what they were, by comparing lists."""

from typing import NamedTuple


class Pod(NamedTuple):
    """What is compared of a pod."""

    namespace: int
    name: str
    node: int
    spec: int
    created_s: int
    values: tuple[int, ...]


def differing(now: list[list[Pod]], before: list[list[Pod]], place: list[int]) -> list[bool]:
    """Say for each group whether it has other pods than the group at its place before; -1 = there was none."""
    return [at < 0 or group != before[at] for group, at in zip(now, place, strict=True)]
