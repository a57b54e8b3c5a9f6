"""What happened to pods and nodes while Karpenter worked, from the API server's own watches."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from tests.e2e.karpenter.wrong_sizes import is_disrupted
from tests.e2e.watch_log import Change, ended_pods, lowest_health


class History(NamedTuple):
    """moved : pods that were told to go; most_leaving : the most nodes that were leaving at the same time; lowest : the
    fewest healthy pods of each Deployment at any time.
    """

    moved: int
    most_leaving: int
    lowest: dict[str, int]


def history_of(changes: list[Change], apps: Iterable[str]) -> History:
    """Return what happened."""
    leaving: set[str] = set()
    most = 0
    for change in changes:
        if change.kind == "Node":
            name = change.item["metadata"]["name"]
            if not change.gone and is_disrupted(change.item):
                leaving.add(name)
            else:
                leaving.discard(name)
            most = max(most, len(leaving))
    lowest = {app: lowest_health(changes, "default", {"app": app}) for app in apps}
    return History(len(ended_pods(changes)), most, lowest)


def moved_after(changes: list[Change], began_s: float) -> list[float]:
    """Return after how many seconds each pod that moved was told to go, ascending. began_s : Unix time."""
    times = [
        datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]).timestamp() for pod in ended_pods(changes).values()
    ]
    return sorted(time - began_s for time in times)
