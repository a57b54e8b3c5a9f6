"""Choose which pods of a group go, by their ranks; wait for ranks that are to come; after a time fall back.

Rules, in this order:
1. Pods that are not running well go first, whatever their ranks: those that `Group.first` names.
2. A group of which a pod has no rank, whose ranks are stale, or whose ranking says that it is not ready, is not chosen
from:
   wait; after the timeout the controller's own order decides, as if there were no ranks.
3. A ranking that holds until the next removal only gives one pod; the next one is given once there are ranks again of
exactly
   the pods that are left. A group that waits for another is waited with. The timeout holds for these as well.
4. Otherwise the highest ranks go; equal ones by the controller's own order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clients.pod_removal.ranking import Ranking


class Group(NamedTuple):
    """pods : names of all pods of the group in the controller's own order of removal; first : those of them that go
    before any rank counts (not on a node, pending, not ready); surplus : how many are to go.
    """

    pods: Sequence[str]
    surplus: int
    first: frozenset[str] = frozenset()


class Moment(NamedTuple):
    """Unix seconds. since_s : when the group first had the surplus that it has, or last lost a pod."""

    now_s: float
    since_s: float


@dataclass(frozen=True)
class PickerSettings:
    """How long to wait, seconds."""

    # After this the controller's own order decides: shrinking late is worse than shrinking in another order.
    timeout_s: float = 30.0
    # Ranks that nobody has confirmed for longer are not used: whoever ranks may have died. The actuator confirms every
    # minute.
    max_age_s: float = 300.0


class Choice(NamedTuple):
    """victims : names, in order; wait : there is more to remove, ask again; fell_back : ranks were not used;
    why : why it waits or fell back, "" = neither."""

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
        # What has just gone changes the ranks too.
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
