"""The ranks of a group, read from Kubernetes JSON: from its PodGroupCost, or from its pods' annotations. Decides which
values are valid: a pod whose value the actuator would not have written so is unranked.
Times are Unix seconds.
"""

import re
from collections.abc import Iterable, Mapping
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
