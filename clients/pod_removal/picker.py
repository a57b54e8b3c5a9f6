"""Choose which pods of a group to remove, by their ranks; wait for missing ranks; fall back after a timeout.

Rules, in this order:
1. Pods that are not running well go first, whatever their ranks: those in `Group.first`.
2. If a pod of the group has no rank, or the ranks are stale, or the ranking is marked as not ready: wait; after the
   timeout the controller's own order decides, as if there were no ranks.
3. A ranking that is valid only until the next removal gives one pod; the next pod is given once exactly the remaining
   pods are ranked again. A group that has to wait for another one waits. The timeout applies to these cases, too.
4. Otherwise the pods with the highest ranks go; the controller's own order breaks ties.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trimtab.clients.pod_removal.ranking import Ranking


class Group(NamedTuple):
    """pods : names of all pods of the group in the controller's own order of removal; first : those of them that go
    before ranks matter (not on a node, pending, not ready); surplus : how many to remove.
    """

    pods: Sequence[str]
    surplus: int
    first: frozenset[str] = frozenset()


class Moment(NamedTuple):
    """Unix seconds. since_s : when the current surplus began, or the group last lost a pod."""

    now_s: float
    since_s: float


@dataclass(frozen=True)
class PickerSettings:
    """How long to wait, seconds."""

    # After this time the controller's own order decides: shrinking late is worse than shrinking in another order.
    timeout_s: float = 30.0
    # Ranks that were not confirmed for longer are not used: their writer may have died. The actuator confirms them
    # every minute.
    max_age_s: float = 300.0


class Choice(NamedTuple):
    """victims : names, in order; wait : there is more to remove, call again; fell_back : ranks were not used; why :
    reason to wait or to fall back, "" = neither."""

    victims: tuple[str, ...]
    wait: bool = False
    fell_back: bool = False
    why: str = ""


def choose(group: Group, ranking: Ranking, moment: Moment, settings: PickerSettings | None = None) -> Choice:
    """Return the pods to remove now."""
    settings = settings or PickerSettings()
    surplus = max(min(group.surplus, len(group.pods)), 0)
    unwell = [pod for pod in group.pods if pod in group.first][:surplus]
    others = [pod for pod in group.pods if pod not in group.first]
    left = surplus - len(unwell)
    if not left:
        return Choice(tuple(unwell))
    why = _problem(others, ranking, moment, settings)
    if why and moment.now_s - moment.since_s < settings.timeout_s:
        return Choice(tuple(unwell), wait=True, why=why)
    if why:
        return Choice((*unwell, *others[:left]), fell_back=True, why=why)
    place = {pod: at for at, pod in enumerate(others)}
    ordered = sorted(others, key=lambda pod: (-ranking.ranks[pod], place[pod]))
    most = ranking.max_removals or left
    if unwell and ranking.max_removals:
        # Pods that have just gone change the ranks, too.
        return Choice(tuple(unwell), wait=True, why="the group is ranked again after each removal")
    is_short = most < left
    return Choice(
        (*unwell, *ordered[: min(most, left)]),
        wait=is_short,
        why="the group is ranked again after each removal" if is_short else "",
    )


def _problem(pods: Sequence[str], ranking: Ranking, moment: Moment, settings: PickerSettings) -> str:
    """Return why the ranks cannot be used now, "" = they can."""
    if not ranking.ready:
        return ranking.why_not
    unranked = [pod for pod in pods if pod not in ranking.ranks]
    if unranked:
        return f"{len(unranked)} of {len(pods)} pods have no rank, such as {unranked[0]}"
    if ranking.made_s is not None and moment.now_s - ranking.made_s > settings.max_age_s:
        return f"nobody has confirmed the ranks for {moment.now_s - ranking.made_s:.0f} s"
    if ranking.max_removals and set(ranking.ranks) != set(pods):
        return "the group has not been ranked since its last removal"
    if ranking.waits_for:
        return f"{ranking.waits_for} is scaled down first"
    return ""
