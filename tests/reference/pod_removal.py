"""Which pods a controller removes when it scales a group down, by the ranks that the actuator writes: a reference
implementation of a controller. Ranks are read from a PodGroupCost, or from annotations of pods; a pod whose value the
actuator would not have written so is unranked. Reads no clock and no cluster. Times are Unix seconds.
Source: Kubernetes enhancement proposal 1888, test plan and risks.

Rules, in this order:
1. Pods that are not running well go first, whatever their ranks: those in `Group.first`.
2. If a pod of the group has no rank, or the ranks are stale, or the ranking is marked as not ready: wait; after the
   timeout the controller's own order decides, as if there were no ranks.
3. A ranking that is valid only until the next removal gives one pod; the next pod is given once exactly the remaining
   pods are ranked again. A group that has to wait for another one waits. The timeout applies to these cases, too.
4. Otherwise the pods with the highest ranks go; the controller's own order breaks ties.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

RANK_ANNOTATION: Final = "scheduling.alpha.kubernetes.io/cost"
TIME_ANNOTATION: Final = "trimtab.dev/pod-cost-time"
UNFINISHED_ANNOTATION: Final = "trimtab.dev/pod-cost-unfinished"
_RANK: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_LARGEST: Final = 1 << 31
Json = Mapping[str, Any]


class Ranking(NamedTuple):
    """ranks : by name of the pod, a higher one is removed sooner; made_s : when they were last confirmed, None = not
    known; ready : whether the ranks are marked as usable; why_not : the given reason otherwise; max_removals :
    pods that may go before the group is ranked again, 0 = any number; waits_for : the group that is scaled down first,
    "" = none.
    """

    ranks: Mapping[str, int] = {}
    made_s: float | None = None
    ready: bool = True
    why_not: str = ""
    max_removals: int = 0
    waits_for: str = ""


def of_object(item: Json | None) -> Ranking:
    """Read a PodGroupCost as kubectl prints it; None = there is none."""
    if item is None:
        return Ranking(ready=False, why_not="there is no PodGroupCost")
    spec, status = item.get("spec") or {}, item.get("status") or {}
    ranks = {name: rank for name, rank in (spec.get("costs") or {}).items() if _is_rank(rank)}
    generation, about = (item.get("metadata") or {}).get("generation"), status.get("generation")
    why_not = ""
    if about is None or about != generation:
        why_not = "its status is not about the present costs yet"
    elif not status.get("complete"):
        why_not = str(status.get("message") or "its status says that it is not complete")
    elif status.get("rankedPods") != status.get("observedPods"):
        why_not = f"{status.get('rankedPods')} of {status.get('observedPods')} pods are ranked"
    most = spec.get("maxRemovals")
    return Ranking(
        ranks=ranks,
        made_s=_seconds(status.get("rankedAt")),
        ready=not why_not,
        why_not=why_not,
        max_removals=most if isinstance(most, int) and most > 0 else 0,
        waits_for=str(spec.get("waitsFor") or ""),
    )


def of_annotations(pods: Iterable[Json]) -> Ranking:
    """Read the ranks of pods from their annotations, as kubectl prints the pods.

    The time in an annotation is when the rank was computed, not when it was last confirmed, and a rank may stay
    unchanged for long, so no age is known. While one of the pods is marked because other ranks are still to be written,
    old and new ranks are mixed and none may be used.
    """
    ranks, why_not = {}, ""
    for pod in pods:
        meta = pod.get("metadata") or {}
        texts = meta.get("annotations") or {}
        if UNFINISHED_ANNOTATION in texts:
            why_not = "some pods of the group still have ranks of an earlier plan"
        text = texts.get(RANK_ANNOTATION)
        if TIME_ANNOTATION in texts and isinstance(text, str) and _RANK.fullmatch(text) and _is_rank(int(text)):
            ranks[str(meta.get("name"))] = int(text)
    return Ranking(ranks, ready=not why_not, why_not=why_not)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value < _LARGEST


def _seconds(text: object) -> float | None:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


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
