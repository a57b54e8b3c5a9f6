"""Groups that have changed, by comparing lists."""

from typing import NamedTuple


class ComparedPod(NamedTuple):
    """The compared fields of a pod."""

    namespace: int
    name: str
    node: int
    spec: int
    created_s: int
    values: tuple[int, ...]


def differing(now: list[list[ComparedPod]], before: list[list[ComparedPod]], place: list[int]) -> list[bool]:
    """Return for each group whether its pods differ from those of the group at its earlier place, -1 = none."""
    return [at < 0 or group != before[at] for group, at in zip(now, place, strict=True)]
