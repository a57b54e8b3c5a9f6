"""Signals of what schedules pods together: Kueue and Volcano."""

from typing import Final

from trimtab.common.kubernetes.signals.signal import ANY, Signal, SignalValues, annotation, label, matches

KUEUE_GROUP: Final = label(
    "kueue.x-k8s.io/pod-group-name", "Pod", ANY, "the group of plain pods that is placed whole", "Kueue, plain pods"
)
KUEUE_TOTAL: Final = annotation(
    "kueue.x-k8s.io/pod-group-total-count",
    "Pod",
    SignalValues("a whole number", matches(r"[0-9]{1,9}")),
    "how many pods the group has",
    "Kueue, plain pods",
)
VOLCANO_GROUP: Final = annotation(
    "scheduling.k8s.io/group-name", "Pod", ANY, "the PodGroup of Volcano that is placed whole", "Volcano, apis"
)

SIGNALS: Final = tuple(row for row in vars().copy().values() if isinstance(row, Signal))
