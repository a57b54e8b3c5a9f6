"""Notes about keys and values that mean nothing, where somebody meant something by them: values of annotations and
labels that the registry of signals does not understand, keys that differ from a known one only in blanks or case, and
Karpenter's annotation where Karpenter is not.

Decides only what is noted; what a value means is decided where it is read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import Node
from trimtab.common.kubernetes.kinds.pods import Pod, PodAnnotations
from trimtab.common.kubernetes.signals.cluster_autoscaler import SAFE_TO_EVICT
from trimtab.common.kubernetes.signals.karpenter import DO_NOT_DISRUPT, NODE_POOL
from trimtab.common.kubernetes.signals.signal import ANNOTATION, LABEL, Signal
from trimtab.common.kubernetes.signals.table import SIGNALS
from trimtab.common.objects.misplaced_annotations import misplaced_annotation_notes
from trimtab.common.objects.objects import Objects

MOST_NAMED: Final = 3
_NOTHING: Final = PodAnnotations()
_FIELDS: Final = {info.encode_name: info.name for info in msgspec.structs.fields(PodAnnotations)}


def _signals(on: str, kind: str) -> dict[str, Signal]:
    return {row.key: row for row in SIGNALS if row.kind == kind and not row.is_prefix and on in row.on.split(", ")}


_OF_NODES: Final = {ANNOTATION: _signals("Node", ANNOTATION), LABEL: _signals("Node", LABEL)}
_MISSPELT: Final = {kind: {key.casefold(): key for key in rows} for kind, rows in _OF_NODES.items()}
_OF_PODS: Final = [
    (row, _FIELDS[key])
    for key, row in _signals("Pod", ANNOTATION).items()
    if key in _FIELDS and row.values.is_understood
]


class AnnotatedPod(NamedTuple):
    """A pod with annotations. key : "namespace/name"; node : its name, "" = on none."""

    key: str
    node: str
    annotations: PodAnnotations


def annotated(pods: Iterable[Pod]) -> list[AnnotatedPod]:
    """Return those of the pods that have annotations."""
    return [
        AnnotatedPod(
            f"{meta.namespace or 'default'}/{meta.name}", (pod.spec and pod.spec.node_name) or "", meta.annotations
        )
        for pod in pods
        if (meta := pod.metadata) is not None and meta.annotations is not None and meta.annotations != _NOTHING
    ]


def value_notes(objects: Objects, pods: Sequence[AnnotatedPod]) -> list[str]:
    """Return the notes, one for each key and value. objects : others than pods. O(nodes + pods)."""
    nodes = objects.of("Node")
    found: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        for text in _of_node(node):
            found[text].append(f"Node {(node.metadata or ObjectMeta()).name}")
    for pod in pods:
        for text in _of_pod(pod.annotations):
            found[text].append(f"Pod {pod.key}")
    notes = [f"{_few(names)}: {text}" for text, names in sorted(found.items())]
    return [*notes, *_without_karpenter(nodes, pods), *misplaced_annotation_notes(objects)]


def _of_node(node: Node) -> Iterator[str]:
    meta = node.metadata or ObjectMeta()
    for kind, given in ((ANNOTATION, meta.annotations or {}), (LABEL, meta.labels or {})):
        for key, value in given.items():
            row = _OF_NODES[kind].get(key)
            if row is not None and not row.is_understood(value):
                yield _text(row, value)
            elif row is None and (known := _MISSPELT[kind].get(key.strip().casefold())) is not None:
                yield f"{kind} {key!r} ({value!r}) has no effect; it is spelled {known!r}"


def _of_pod(annotations: PodAnnotations) -> Iterator[str]:
    for row, field in _OF_PODS:
        value = getattr(annotations, field)
        if value is not None and not row.is_understood(value):
            yield _text(row, value)


def _text(row: Signal, value: str) -> str:
    return (
        f"{row.kind} {row.key}: the value {value!r} is not understood and counts as if it were absent; "
        f"understood is {row.values.text}"
    )


def _without_karpenter(nodes: Iterable[Node], pods: Iterable[AnnotatedPod]) -> list[str]:
    """Return a note about pods whose annotation of Karpenter has no effect, as it is not what removes their nodes."""
    others = {meta.name for node in nodes if (meta := node.metadata) and NODE_POOL.key not in (meta.labels or {})}
    names = [
        f"Pod {pod.key}"
        for pod in pods
        if (pod.annotations.do_not_disrupt or "false") != "false" and pod.node in others
    ]
    if not names:
        return []
    return [
        f"{_few(names)}: annotation {DO_NOT_DISRUPT.key} keeps no node that is not Karpenter's from scale-down; the "
        f'Cluster Autoscaler reads {SAFE_TO_EVICT.key}: "false"'
    ]


def _few(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
