"""JSON of a watched object, of all kinds but pods, to the struct that snapshots are built from.

`trimtab.common.objects` alone decides what a field means, for files and live clusters alike. Fields that the struct
does not declare are ignored.
"""

from typing import Any

import msgspec

from trimtab.common.kubernetes.errors import MalformedAnswerError
from trimtab.common.kubernetes.json_envelope import decoder
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.registry import BY_KIND, STRUCTS

_WITHOUT_STATUS = ("CapacityBuffer",)
_YEAR_0 = b'"0000-'
"""The year 0 in a time: Python has none, which Kubernetes accepts."""


class _WatchedMetadata(msgspec.Struct):
    metadata: ObjectMeta


def json_object(kind: str, raw: bytes) -> Any:
    """Return an object from JSON; a CapacityBuffer without its status, which its controller writes. An object of a kind
    that a CustomResourceDefinition defines, with a field of the wrong type, is returned without content.

    Errors: MalformedAnswerError for bytes that are not an object.
    """
    try:
        try:
            found = _decoded(kind, raw)
        except msgspec.ValidationError:
            if not BY_KIND[kind].is_custom:
                raise
            found = STRUCTS[kind](metadata=decoder(_WatchedMetadata).decode(raw).metadata)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"{len(raw)} bytes are no {kind}: {error}") from error
    if found.metadata is None:
        raise MalformedAnswerError(f"{len(raw)} bytes are no {kind}: they have no metadata")
    if kind in _WITHOUT_STATUS:
        found.status = None
    return found


def _decoded(kind: str, raw: bytes) -> Any:
    decode = decoder(STRUCTS[kind]).decode
    try:
        return decode(raw)
    except msgspec.ValidationError:
        if _YEAR_0 not in raw:
            raise
        return decode(raw.replace(_YEAR_0, b'"0001-'))


def json_names(struct: type[msgspec.Struct]) -> list[str]:
    """Return the names that the fields of a struct have in JSON."""
    return [info.encode_name for info in msgspec.structs.fields(struct)]
