"""Decodes pods from JSON text, many at a time; each distinct spec is decoded and checked for repeated keys only once.

The specs of a workload's pods differ in their node, and in the name of the volume with the service account's token.
Both are cut out of the text, and the rest is the key of the decoded spec. Pods that are decoded here equal those that
are decoded one by one, which is left to the caller for whatever is broken: only then is there a pod to name.
"""

import re
from collections.abc import Sequence
from copy import copy
from types import GenericAlias

import msgspec
from msgspec import Raw

from trimtab.common.documents.strict_json import (
    RepeatedKeyError,
    count_colons,
    count_unique_colons,
    may_repeat_keys,
)
from trimtab.common.kubernetes.kinds.pods import Pod, PodSpec, RepeatedPodSpec
from trimtab.common.objects.mounts import relevant_volumes

MOST_KEPT = 50_000
"""Most cached specs; a cluster has several thousand distinct ones. A full cache is emptied, which only costs time."""
_NODE_KEY = b'"nodeName"'
_NODE = re.compile(rb'"nodeName"\s*:\s*"([a-z0-9][-a-z0-9.]*)"')
_TOKEN_PREFIX = b"kube-api-access-"
_TOKEN = re.compile(rb"kube-api-access-[a-z0-9]{5}")
_NO_TOKEN, _OTHER_TOKEN = _TOKEN_PREFIX + b"00000", _TOKEN_PREFIX + b"11111"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RepeatedKeyError)

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_spec = msgspec.json.Decoder(PodSpec | None).decode
_encode = msgspec.json.Encoder().encode


_Counted = tuple[PodSpec | None, int]
"""A spec, and the colons in its text."""


class PodTexts:
    """Decodes pods as `struct`, and keeps the specs it has seen."""

    def __init__(self, struct: type[Pod]) -> None:
        self._pods = msgspec.json.Decoder(GenericAlias(list, (struct,))).decode
        self._kept: dict[bytes, _Counted | None] = {}
        """None : the text has what looks like a token's volume and is something else."""
        self._nodes: dict[bytes, str] = {}

    def decode(self, texts: Sequence[Raw], colons: int) -> list[Pod] | None:
        """Return the pods; None if one cannot be decoded, or if an object in one may have a key twice.

        colons : in the texts, of which none is an escape
        """
        try:
            return self._decode(texts, colons)
        except _UNREADABLE:
            return None

    def _decode(self, texts: Sequence[Raw], colons: int) -> list[Pod] | None:
        objects = [_fields(text) for text in texts]
        specs, seen = [], 0
        for fields in objects:
            spec = None
            if "spec" in fields:
                spec, own = self._spec(bytes(fields.pop("spec")))
                seen += own + 1
            specs.append(spec)
        # The pods without their specs. A field that a pod has twice is here once, which the colons tell.
        rest = _encode(objects)
        if colons != seen + count_unique_colons(rest):
            return None
        pods: list[Pod] = self._pods(rest)
        for pod, spec in zip(pods, specs, strict=True):
            pod.spec = spec
        return pods

    def _spec(self, text: bytes) -> _Counted:
        """Return the spec of a text. Errors: those of msgspec; RepeatedKeyError if a key may be there twice."""
        at = text.find(_NODE_KEY)
        if at < 0:
            kept, colons = self._known(text) or _checked(text)
            return kept and copy(kept), colons
        found = _NODE.match(text, at)
        if found is None or text.find(_NODE_KEY, found.end()) >= 0:
            return _checked(text)
        start, end = found.span(1)
        kept, colons = self._known(text[:start] + text[end:]) or _NONE
        if kept is None or kept.node_name != "":  # the node that was cut out is not that of the spec itself
            return _checked(text)
        spec, name = copy(kept), found[1]
        spec.node_name = self._nodes.get(name) or self._nodes.setdefault(name, name.decode())
        return spec, colons

    def _known(self, text: bytes) -> _Counted | None:
        """Return the spec of a text without its node; None if the texts of other pods cannot stand for it."""
        key = _TOKEN.sub(_NO_TOKEN, text) if _TOKEN_PREFIX in text else text
        try:
            return self._kept[key]
        except KeyError:
            pass
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        kept = None
        if _is_token_unread(key):
            spec, colons = _checked(key)
            if spec is not None:
                spec.volumes = relevant_volumes(spec.volumes) or None
                spec = RepeatedPodSpec.of(spec)
            kept = spec, colons
        self._kept[key] = kept
        return kept


_NONE: _Counted = None, 0


def _checked(text: bytes) -> _Counted:
    """Return a spec. Errors: those of msgspec; RepeatedKeyError if a key may be there twice."""
    spec = _spec(text)
    if may_repeat_keys(text):
        raise RepeatedKeyError("a key may be there twice")
    return spec, count_colons(text)


def _is_token_unread(text: bytes) -> bool:
    """Return whether the names of token volumes in a text are nothing but names of volumes that do not matter."""
    if _NO_TOKEN not in text:
        return True
    first, second = _spec(text), _spec(text.replace(_NO_TOKEN, _OTHER_TOKEN))
    for spec in (first, second):
        if spec is not None:
            spec.volumes = relevant_volumes(spec.volumes)
    return bool(first == second)
