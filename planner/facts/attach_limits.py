"""Attach limits of new nodes, and of nodes on which a CSI driver is not registered yet, as plans see them.

They are those that the node group's template states, or else the most that one of the group's nodes has: volumes that
are attached without a pod lower that of their own node alone. Without any, the driver counts as without limit, as for
the scheduler. Pure; O(N).
Source: KEP-5030, in which the Cluster Autoscaler takes the limits of a new node from a node of its group.
"""

from collections.abc import Sequence

from trimtab.planner.model.values import NodeTraits
from trimtab.planner.snapshot.columns import Snapshot

Limits = dict[str, int]


def limits_by_group(snapshot: Snapshot) -> list[Limits]:
    """Return the attach limits by driver that each node group is known to have."""
    found: list[Limits] = [{} for _ in snapshot.groups]
    traits, groups = snapshot.nodes.traits, snapshot.nodes.group
    for node in [at for at, one in enumerate(traits) if one.attach_limits and groups[at] >= 0]:
        limits = found[groups[node]]
        for driver, count in traits[node].attach_limits:
            limits[driver] = max(count, limits.get(driver, count))
    for limits, one in zip(found, snapshot.groups, strict=True):
        if one.template >= 0:
            limits.update(snapshot.templates.traits[one.template].attach_limits)
    return found


def with_limits(traits: NodeTraits, limits: Limits) -> NodeTraits:
    """Return traits with the limits of the drivers for which they have none."""
    known = dict(traits.attach_limits)
    if limits.keys() <= known.keys():
        return traits
    return traits._replace(attach_limits=tuple(sorted((limits | known).items())))


def of_new_node(traits: NodeTraits, limits: Limits) -> NodeTraits:
    """Return the traits of a new node that is modelled on a node with these, in whose group these limits are known."""
    return traits._replace(attach_limits=tuple(sorted((dict(traits.attach_limits) | limits).items())))


def planned_traits(snapshot: Snapshot) -> Sequence[NodeTraits]:
    """Return the traits of each node with the limits of its group."""
    limits, traits = limits_by_group(snapshot), snapshot.nodes.traits
    if not any(limits):
        return traits
    groups = snapshot.nodes.group.tolist()
    return [with_limits(one, limits[group]) if group >= 0 else one for one, group in zip(traits, groups, strict=True)]
