"""Numbers in annotations of pods; the caller chooses the annotations. Decides what a number is: a finite float as
Python reads it, without underscores and white space. Anything else in such an annotation is NaN, so that a reader can
tell it from an annotation that is absent.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from trimtab.clients.kubernetes.kinds.pods import Pod, PodAnnotations, PodMeta

Numbers = tuple[tuple[str, float], ...]
"""(key of the annotation, its number or NaN), sorted by key."""
_LONGEST = 64


def number_of(text: str) -> float:
    """Return the number that an annotation holds; NaN for anything else."""
    if len(text) > _LONGEST or "_" in text or text != text.strip():
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


def numbers_of(annotations: PodAnnotations | None, keys: Sequence[str]) -> Numbers:
    """Return the numbers in the annotations of these keys. keys : sorted, as given to `pod_struct`."""
    if annotations is None or not keys:
        return ()
    field = _fields(type(annotations))
    texts = [(key, getattr(annotations, field[key])) for key in keys if key in field]
    return tuple([(key, number_of(text)) for key, text in texts if text is not None])


@lru_cache(maxsize=64)
def _fields(struct: type[PodAnnotations]) -> dict[str, str]:
    return {info.encode_name: info.name for info in msgspec.structs.fields(struct)}
