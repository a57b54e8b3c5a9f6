"""VolumeBinding and VolumeZone: the fixed requirements of a pod's volumes on nodes.

Source: plugins volumebinding and volumezone, v1.37.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.classes.node_classes import NodeSignature, note_terms
from trimtab.planner.model.values import LabelRequirement, MountedVolume, NodeAffinityTerm
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import LabelOperator, VolumeState

ZONE_LABELS: Final = {
    well_known.OLD_ZONE.key: well_known.ZONE.key,
    well_known.OLD_REGION.key: well_known.REGION.key,
    well_known.ZONE.key: well_known.ZONE.key,
    well_known.REGION.key: well_known.REGION.key,
}
"""Label of a volume -> label to use for nodes without the volume's label."""
_SEPARATOR: Final = "__"
_UNUSABLE: Final = (VolumeState.UNBOUND_IMMEDIATE, VolumeState.MISSING)

Terms = tuple[NodeAffinityTerm, ...]
Zones = tuple[tuple[str, tuple[str, ...]], ...]
"""Zone labels of a volume, and the values of which the node needs one."""


def _binding(volume: MountedVolume) -> Terms | None:
    """Return the terms that a node has to meet; no terms, which no node meets, if the volume is unusable."""
    return () if volume.state in _UNUSABLE else volume.node_affinity


def _zones(volume: MountedVolume) -> Zones | None:
    """Return the zones of a volume. A zone label with an empty part is ignored, as upstream does."""
    zones = []
    for key, value in volume.zone_labels:
        values = tuple(part.strip() for part in value.split(_SEPARATOR))
        if key in ZONE_LABELS and all(values):
            zones.append((key, values))
    return tuple(zones) or None


def _note_terms(values: Sequence[Terms], signature: NodeSignature) -> None:
    for terms in values:
        note_terms(terms, signature.labels, signature.names)


def _note_zones(values: Sequence[Zones], signature: NodeSignature) -> None:
    for key in ZONE_LABELS if values else ():
        signature.labels.requirement(LabelRequirement(key, LabelOperator.EXISTS, ()))
    for zones in values:
        for key, allowed in zones:
            for value in allowed:
                signature.labels.value(key, value)
                signature.labels.value(ZONE_LABELS[key], value)


def _unbindable(values: Sequence[Terms], nodes: StaticNodes) -> Bool:
    """Return which node classes the volumes' state or node affinity excludes : bool[values, K]."""
    out = np.zeros((len(values), nodes.classes.rows.count), np.bool_)
    for at, terms in enumerate(values):
        out[at] = ~nodes.classes.rows.meet_terms(terms)
    return out


def _outside_zone(values: Sequence[Zones], nodes: StaticNodes) -> Bool:
    """Return which node classes the zones of bound volumes exclude : bool[values, K]."""
    rows = nodes.classes.rows
    out = np.zeros((len(values), rows.count), np.bool_)
    if not values:
        return out
    present = {key: rows.has_labels(LabelRequirement(key, LabelOperator.EXISTS, ())) for key in ZONE_LABELS}
    has_any = np.logical_or.reduce(list(present.values()))
    for at, zones in enumerate(values):
        for key, allowed in zones:
            own = rows.has_labels(LabelRequirement(key, LabelOperator.IN, allowed))
            newer = rows.has_labels(LabelRequirement(ZONE_LABELS[key], LabelOperator.IN, allowed))
            out[at] |= has_any & ~np.where(present[key], own, newer)
    return out


VOLUME_BINDING: Final = StaticPredicate(
    PredicateReason.VOLUME_NOT_BINDABLE,
    _unbindable,
    of_volume=_binding,
    note_labels=_note_terms,
)
VOLUME_ZONE: Final = StaticPredicate(
    PredicateReason.VOLUME_ZONE_MISMATCH,
    _outside_zone,
    of_volume=_zones,
    note_labels=_note_zones,
)
