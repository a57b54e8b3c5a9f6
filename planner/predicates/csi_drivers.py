"""NodeVolumeLimits, its check of drivers: a node must have the CSI driver of a volume if the driver asks for that.

Contract: a node whose drivers are not known refuses nothing. Limits are counted in
`trimtab.planner.predicates.pod_volumes`. Source: plugin nodevolumelimits, checkCSIDriverOnNode, v1.37.2.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from trimtab.planner.model.values import MountedVolume, NodeTraits
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason


def _required_driver(volume: MountedVolume) -> str | None:
    return volume.required_driver or None


def _drivers(traits: NodeTraits) -> tuple[str, ...] | None:
    return traits.volume_drivers


def _excluded(values: Sequence[str], nodes: StaticNodes) -> Bool:
    """Return which node classes lack a driver : bool[values, K]."""
    present = list(map(_drivers, nodes.classes.traits))
    lacking = [[drivers is not None and name not in drivers for drivers in present] for name in values]
    return np.array(lacking, np.bool_).reshape(len(values), len(present))


CSI_DRIVER: Final = StaticPredicate(
    PredicateReason.CSI_DRIVER_MISSING,
    _excluded,
    of_volume=_required_driver,
    of_traits=_drivers,
)
