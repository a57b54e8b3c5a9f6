"""Numbers in annotations of pods; the caller chooses the annotations. Decides what a number is: a finite float as
Python reads it, in ASCII, without underscores and white space. Anything else in such an annotation is NaN, so that a
reader can tell it from an annotation that is absent.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from trimtab.common.kubernetes.kinds.pods import Pod, PodAnnotations, PodMeta
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.signals import karpenter, well_known
from trimtab.common.objects.times import go_duration_ns, usable_s
from trimtab.v1 import plan_pb2

Numbers = tuple[tuple[str, float], ...]
"""(key of the annotation, its number or NaN), sorted by key."""
DO_NOT_DISRUPT: Final = karpenter.DO_NOT_DISRUPT.key
"""Its number: Unix seconds until when the pod is not to be disrupted, NaN = always."""
DISRUPTION_COSTS: Final = (karpenter.DISRUPTION_COST.key, well_known.AUTOSCALING_DISRUPTION_COST.key)
"""Read from every pod, whatever the caller asks for."""
_LONGEST = 64
_SECOND_NS = 1_000_000_000


def annotations_read(settings: plan_pb2.PlanSettings) -> frozenset[str]:
    """Return the keys of the annotations with numbers that strategies of pod costs name."""
    terms = (term for target in settings.pod_costs.targets for term in target.strategies)
    return frozenset(term.annotation for term in terms if term.annotation)


def number_of(text: str) -> float:
    """Return the number that an annotation holds; NaN for anything else."""
    if len(text) > _LONGEST or not text.isascii() or "_" in text or text != text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


@lru_cache(maxsize=64)
def pod_struct(keys: tuple[str, ...]) -> type[Pod]:
    """Return a struct for pods that also has the annotations with these keys. keys : sorted."""
    declared = {info.encode_name for info in msgspec.structs.fields(PodAnnotations)}
    added = [key for key in keys if key not in declared]
    if not added:
        return Pod
    names = {f"number_{i}": key for i, key in enumerate(added)}
    fields = [(name, str | None, None) for name in names]
    annotations = msgspec.defstruct(
        "PodAnnotations", fields, bases=(PodAnnotations,), rename=names, gc=False, omit_defaults=True
    )
    meta = _with_field(PodMeta, "annotations", annotations)
    struct: type[Pod] = _with_field(Pod, "metadata", meta)
    return struct


def _with_field(struct: type[msgspec.Struct], name: str, of: type[msgspec.Struct]) -> Any:
    """Return a struct like another one, with another type of one field."""
    hint: Any = of | None
    return msgspec.defstruct(
        struct.__name__, [(name, hint, None)], bases=(struct,), rename="camel", gc=False, omit_defaults=True
    )


def numbers_of(annotations: PodAnnotations | None, keys: Sequence[str], start_s: int) -> Numbers:
    """Return the numbers in the annotations of these keys and in those about disruption. keys : sorted, as given to
    `pod_struct`; start_s : Unix seconds when the pod started, or was created if it has not."""
    if annotations is None:
        return ()
    about_disruption = (annotations.do_not_disrupt, annotations.disruption_cost, annotations.autoscaling_cost)
    if not keys and about_disruption == (None, None, None):
        return ()
    field = _fields(type(annotations))
    every = sorted({*keys, *DISRUPTION_COSTS} - {DO_NOT_DISRUPT})
    texts = [(key, getattr(annotations, field[key])) for key in every if key in field]
    found = [(key, number_of(text)) for key, text in texts if text is not None]
    until = undisrupted_until(annotations.do_not_disrupt, start_s)
    return tuple(found if until is None else sorted([*found, (DO_NOT_DISRUPT, until)]))


def undisrupted_until(text: str | None, start_s: int) -> float | None:
    """Return until when `karpenter.sh/do-not-disrupt` protects a pod, Unix seconds rounded up, NaN = always; None = it
    does not: "true" is for ever, a Go duration counts from the start, anything else means nothing, as in Karpenter.
    start_s : Unix seconds; 0 = unknown."""
    if text == "true":
        return math.nan
    try:
        lasts_ns = go_duration_ns(text) if text else 0
    except FieldError:
        return None
    return None if lasts_ns <= 0 else float(usable_s(start_s - -lasts_ns // _SECOND_NS))


@lru_cache(maxsize=64)
def _fields(struct: type[PodAnnotations]) -> dict[str, str]:
    return {info.encode_name: info.name for info in msgspec.structs.fields(struct)}
