"""VolumeRestrictions, inline disks: a disk that may not be mounted twice on a node.

Contract: names of disks are opaque; read-only mounts do not conflict with each other. ReadWriteOncePod claims are
counted in `trimtab.planner.predicates.pod_volumes`. Source: plugin volumerestrictions, v1.37.2.
"""

from typing import Final

from trimtab.planner.classes.pod_classes import classes_by_spec
from trimtab.planner.classes.scheduling_specs import SchedulingSpec
from trimtab.planner.predicates.counter_kind import BuildContext, CountedPredicate
from trimtab.planner.predicates.presence import PRESENCE, PresenceBuilder
from trimtab.planner.predicates.topologies import OWN_NODE
from trimtab.v1.reason_pb2 import PredicateReason


def _add_counters(context: BuildContext, builder: PresenceBuilder) -> None:
    specs = context.specs
    having = [at for at, spec in enumerate(specs.rows) if _concerns(spec)]
    if not having:
        return
    of_spec = classes_by_spec(context.classes, len(specs.rows))
    for at in having:
        members, reason = of_spec[at], PredicateReason.VOLUME_RESTRICTED
        for disk in sorted({*specs.rows[at].exclusive_disks, *specs.rows[at].read_only_disks}):
            every, _ = builder.counter(("disk", disk, "any"), OWN_NODE)
            writers, _ = builder.counter(("disk", disk, "writers"), OWN_NODE)
            writes = disk in specs.rows[at].exclusive_disks
            builder.adds(members, every)
            if writes:
                builder.adds(members, writers)
            builder.needs_empty(members, every if writes else writers, reason)


def _concerns(spec: SchedulingSpec) -> bool:
    return bool(spec.exclusive_disks or spec.read_only_disks)


DISKS: Final = CountedPredicate((PredicateReason.VOLUME_RESTRICTED,), PRESENCE, add=_add_counters, concerns=_concerns)
