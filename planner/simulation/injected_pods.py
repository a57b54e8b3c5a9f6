"""The snapshot's pods and injected ones as one set of columns.

Contract: injected pods are numbered after the snapshot's, in the order given; they run nowhere, do not terminate and
mount nothing. Strings, specs and label sets that the snapshot lacks are appended in sorted place, so that lookups
stay valid.
"""

from typing import NamedTuple

import numpy as np

from planner.model.values import PodSpec, RecentEviction
from planner.snapshot.columns import FLAG_GATED, NO_NODE, Bool, Int32, Int64, LabelSets, Snapshot


class InjectedPod(NamedTuple):
    """A pod that the snapshot lacks. `labels` sorted by key; `pinned` a node's index or NO_NODE."""

    namespace: str
    spec: PodSpec
    labels: tuple[tuple[str, str], ...] = ()
    created_s: int = 0
    pinned: int = NO_NODE


class PodInput(NamedTuple):
    """Columns of P pods, with the dictionaries that they index; see `planner.snapshot.columns`."""

    strings: tuple[str, ...]
    label_sets: LabelSets
    specs: tuple[PodSpec, ...]
    namespace: Int32
    spec: Int32
    label_set: Int32
    created_s: Int64
    terminating: Bool
    gated: Bool
    pinned: Int32


def labels_of(snapshot: Snapshot, label_set: int) -> tuple[tuple[str, str], ...]:
    """Return a label set as (key, value) pairs, sorted by key."""
    sets, strings = snapshot.label_sets, snapshot.strings
    entries = range(int(sets.offsets[label_set]), int(sets.offsets[label_set + 1]))
    return tuple((strings[sets.keys[entry]], strings[sets.values[entry]]) for entry in entries)


def evicted_pods(snapshot: Snapshot, evictions: tuple[RecentEviction, ...]) -> tuple[InjectedPod, ...]:
    """Return recent evictions as pods to inject, in the same order."""
    return tuple(InjectedPod(e.namespace, snapshot.specs[e.spec], labels_of(snapshot, e.label_set)) for e in evictions)


def pod_input(snapshot: Snapshot, injected: tuple[InjectedPod, ...]) -> PodInput:
    """Join the snapshot's pods with injected ones. O(P); without injected pods nothing is copied."""
    pods = snapshot.pods
    whole = PodInput(
        snapshot.strings,
        snapshot.label_sets,
        snapshot.specs,
        pods.namespace,
        pods.spec,
        pods.label_set,
        pods.created_s,
        pods.deletion_s != 0,
        (pods.flags & FLAG_GATED) != 0,
        pods.pinned,
    )
    return _joined(_with_strings(whole, injected), injected) if injected else whole


def _with_strings(whole: PodInput, injected: tuple[InjectedPod, ...]) -> PodInput:
    """Add the strings of injected pods; indices move, since strings stay sorted."""
    wanted = {pod.namespace for pod in injected} | {text for pod in injected for pair in pod.labels for text in pair}
    strings = tuple(sorted({*whole.strings, *wanted}))
    if len(strings) == len(whole.strings):
        return whole
    place = {text: at for at, text in enumerate(strings)}
    moved = np.fromiter((place[text] for text in whole.strings), np.int32, len(whole.strings))
    sets = whole.label_sets
    return whole._replace(
        strings=strings,
        label_sets=LabelSets(sets.offsets, moved[sets.keys], moved[sets.values]),
        namespace=moved[whole.namespace],
    )


def _joined(whole: PodInput, injected: tuple[InjectedPod, ...]) -> PodInput:
    place = {text: at for at, text in enumerate(whole.strings)}
    specs = {spec: at for at, spec in enumerate(whole.specs)}
    spec = [specs.setdefault(pod.spec, len(specs)) for pod in injected]
    sets: dict[tuple[tuple[str, str], ...], int] = {}
    label_set = [sets.setdefault(pod.labels, len(sets)) for pod in injected]
    old = whole.label_sets
    label_set = [at + len(old.offsets) - 1 for at in label_set]
    lengths = np.array([len(labels) for labels in sets], np.int32)
    keys = np.array([place[key] for labels in sets for key, _ in labels], np.int32)
    values = np.array([place[value] for labels in sets for _, value in labels], np.int32)
    return PodInput(
        whole.strings,
        LabelSets(
            np.concatenate([old.offsets, old.offsets[-1] + np.cumsum(lengths, dtype=np.int32)]),
            np.concatenate([old.keys, keys]),
            np.concatenate([old.values, values]),
        ),
        tuple(specs),
        _more(whole.namespace, [place[pod.namespace] for pod in injected]),
        _more(whole.spec, spec),
        _more(whole.label_set, label_set),
        np.concatenate([whole.created_s, np.array([pod.created_s for pod in injected], np.int64)]),
        np.concatenate([whole.terminating, np.zeros(len(injected), np.bool_)]),
        np.concatenate([whole.gated, np.zeros(len(injected), np.bool_)]),
        _more(whole.pinned, [pod.pinned for pod in injected]),
    )


def _more(column: Int32, values: list[int]) -> Int32:
    return np.concatenate([column, np.array(values, np.int32)])
