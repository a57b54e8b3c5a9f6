"""NodeResourcesFit: free amounts of every resource that some pod requests, and room for one more pod.

Contract: a request of 0 is never checked; a resource that the node does not offer counts as 0; names that are neither
known to the scheduler nor qualified are ignored, as the scheduler does. Amounts : int64, cpu in milli-cores.
Source: plugin noderesources fit, v1.37.2.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs
from trimtab.planner.model.values import is_device_resource
from trimtab.planner.predicates.counter_kind import CountedPredicate
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1.reason_pb2 import PredicateReason

PODS = "pods"
POD_ROOM = 2
"""Column for pods, after cpu and memory; the other resources follow in the snapshot's order."""
_PLAIN = ("cpu", "memory", "ephemeral-storage")
NOT_CHECKED = -(1 << 63)
RESOURCES_FIT: Final = CountedPredicate((PredicateReason.TOO_MANY_PODS, PredicateReason.INSUFFICIENT_RESOURCES))
"""Without a kind: free amounts are a part of the simulation's state of their own."""
DEVICES_FIT: Final = CountedPredicate((PredicateReason.DEVICES_NOT_AVAILABLE,))
"""Likewise: of devices that can be counted, as much is free as of a resource (`trimtab.planner.device_amounts`)."""


class ResourceCounters(NamedTuple):
    """free : int64[N, R]; request : int64[S, R] what a pod takes; need : int64[S, R] the same, NOT_CHECKED where 0;
    first_device : int64[1] the resources from here on stand for devices."""

    free: Int64
    request: Int64
    need: Int64
    first_device: Int64


def is_counted(name: str) -> bool:
    """Return whether the scheduler counts a resource of this name."""
    if name.startswith("requests."):
        return well_known.OWN_PREFIX.key in name
    return name in _PLAIN or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def checked_resources(resources: tuple[str, ...], specs: SchedulingSpecs) -> tuple[str, ...]:
    """Return the names of the R resources to count: cpu, memory, pods, then all others that are requested, those that
    stand for devices last."""
    requested = {name for spec in specs.rows for name, amount in spec.requests if amount > 0 and is_counted(name)}
    first = ("cpu", "memory", PODS)
    listed = [name for name in resources if name in requested and name not in first]
    return tuple(sorted((*first, *listed, *sorted(requested - set(first) - set(resources))), key=is_device_resource))


def resource_counters(
    names: tuple[str, ...], offered: tuple[str, ...], allocatable: Int64, specs: SchedulingSpecs, classes: PodClasses
) -> ResourceCounters:
    """Build the counters of empty nodes. names : of the R resources to count; offered : names of
    the columns of allocatable : int64[N, resources]."""
    column = {name: at for at, name in enumerate(names)}
    free = np.zeros((len(allocatable), len(names)), np.int64)
    for at, name in enumerate(offered):
        if name in column:
            free[:, column[name]] = allocatable[:, at]
    by_spec = np.zeros((len(specs.rows), len(names)), np.int64)
    for at, spec in enumerate(specs.rows):
        for name, amount in spec.requests:
            if name in column and name != PODS:
                by_spec[at, column[name]] = amount
    by_spec[:, POD_ROOM] = 1
    request = np.ascontiguousarray(by_spec[classes.spec])
    first_device = np.array([len(names) - sum(map(is_device_resource, names))], np.int64)
    return ResourceCounters(free, request, np.where(request > 0, request, NOT_CHECKED), first_device)
